"""String functions as in Spark, translated to DuckDB SQL. Functions take and return `TypedSql`.

Arguments are cast to strings as in Spark. Positions count characters (code points) from 1, as in both engines.
Functions raise `UnsupportedFeature` for other types, and for arguments that need to be literals and are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from lakescan.common import types as t
from lakescan.errors import InvalidFilter
from lakescan.expressions.like import join_pattern, split_pattern
from lakescan.expressions.scalar.casts import cast, implicit_cast
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.conditions import unify
from lakescan.expressions.scalar.regexp import may_be_empty, plain_text, translate_pattern
from lakescan.expressions.scalar.typed_sql import TypedSql, literal, quote_text, unsupported_error
from lakescan.expressions.scalar.udf import call_python


def text_arguments(name: str, *args: TypedSql) -> list[str]:
    """Return the SQL of arguments cast to strings, as Spark does implicitly.

    Raises `UnsupportedFeature`, with the function's name `name`, for types that Spark does not cast implicitly.
    """
    return [implicit_cast(each, t.STRING, f"the function {name}()").sql for each in args]


def length(each: TypedSql) -> TypedSql:
    """Return the number of characters of a string, or of bytes of a binary value."""
    if each.type == t.BINARY:
        return TypedSql(f"CAST(octet_length({each.sql}) AS INTEGER)", t.INT)
    return TypedSql(f"CAST(length({text_arguments('length', each)[0]}) AS INTEGER)", t.INT)


# Letters beyond ASCII whose case both engines change alike, one for one: Latin-1 (except sharp s, micro sign and y with
# diaeresis), most of Latin Extended-A, Cyrillic, and letters without case.
_ALIKE = r"\x{0}-\x{b4}\x{b6}-\x{de}\x{e0}-\x{fe}\x{100}-\x{12f}\x{132}-\x{148}\x{14a}-\x{17e}"
_ALIKE += (
    r"\x{410}-\x{44f}\x{401}\x{451}\x{5d0}-\x{5ea}\x{627}-\x{64a}\x{3041}-\x{30ff}\x{4e00}-\x{9fff}\x{ac00}-\x{d7a3}"
)
_ALIKE += r"\x{1f300}-\x{1faff}"


def change_case(name: str) -> Callable[[TypedSql], TypedSql]:
    """Return a translator of `upper` or `lower`; Python handles letters that DuckDB and Spark may change unequally."""

    def apply(each: TypedSql) -> TypedSql:
        [text] = text_arguments(name, each)
        known = f"({text}) IS NULL OR strlen({text}) = length({text}) OR regexp_full_match({text}, '[{_ALIKE}]*')"
        other = call_python(f"texts.{name}", [TypedSql(text, t.STRING)], t.STRING).sql
        return TypedSql(f"CASE WHEN {known} THEN {name}({text}) ELSE {other} END", t.STRING, each.raises)

    return apply


def initcap(each: TypedSql) -> TypedSql:
    """Return `initcap(each)`: in lower case, with a capital at the beginning of each word between spaces."""
    [text] = text_arguments("initcap", each)
    known = f"({text}) IS NULL OR regexp_full_match({text}, '[A-Za-z0-9 ]*')"
    words = f"list_transform(string_split(lower({text}), ' '), lambda w: upper(left(w, 1)) || substring(w, 2))"
    other = call_python("texts.initcap", [TypedSql(text, t.STRING)], t.STRING).sql
    return TypedSql(f"CASE WHEN {known} THEN array_to_string({words}, ' ') ELSE {other} END", t.STRING, each.raises)


def trim_text(side: str) -> Callable[..., TypedSql]:
    """Return a translator of `trim`, `ltrim` or `rtrim` (`side`), which removes spaces, or characters of a string."""

    def apply(each: TypedSql, letters: TypedSql | None = None) -> TypedSql:
        value, removed = text_arguments(side, each)[0], "' '" if letters is None else text_arguments(side, letters)[0]
        return TypedSql(f"{side}({value}, {removed})", t.STRING, each.raises)

    return apply


def pad_text(side: str) -> Callable[..., TypedSql]:
    """Return a translator of `lpad` or `rpad` (`side`), which pads strings to a length and truncates longer ones."""

    def apply(each: TypedSql, size: TypedSql, letters: TypedSql | None = None) -> TypedSql:
        value, pad = text_arguments(side, each)[0], "' '" if letters is None else text_arguments(side, letters)[0]
        if size.type not in (t.BYTE, t.SHORT, t.INT):
            raise unsupported_error(f"the function {side}() with a length of {size.type}")
        count = f"greatest(CAST({size.sql} AS INTEGER), 0)"
        cut = f"CASE WHEN ({pad}) = '' THEN left({value}, {count}) ELSE {side}({value}, {count}, {pad}) END"
        nulls = " OR ".join(f"({one}) IS NULL" for one in (value, size.sql, pad))
        return TypedSql(f"CASE WHEN {nulls} THEN NULL ELSE {cut} END", t.STRING, True)

    return apply


def repeat(each: TypedSql, count: TypedSql) -> TypedSql:
    """Return `repeat(each, count)`; an empty string for a negative count."""
    if count.type not in (t.BYTE, t.SHORT, t.INT):
        raise unsupported_error(f"the function repeat() with a number of {count.type}")
    repeated_sql = f"repeat({text_arguments('repeat', each)[0]}, greatest({count.sql}, 0))"  # greatest() skips nulls
    return TypedSql(f"CASE WHEN ({count.sql}) IS NOT NULL THEN {repeated_sql} END", t.STRING, each.raises)


def reverse(each: TypedSql) -> TypedSql:
    """Return `reverse(each)` of a string or list."""
    if isinstance(each.type, t.ListOf):
        return TypedSql(f"list_reverse({each.sql})", each.type, each.raises)
    [text] = text_arguments("reverse", each)
    letters = f"list_reverse(string_split({text}, ''))"
    return TypedSql(f"CASE WHEN ({text}) = '' THEN '' ELSE array_to_string({letters}, '') END", t.STRING, each.raises)


def right(text: TypedSql, size: TypedSql) -> TypedSql:
    """Return `right(text, size)`: the last `size` characters, or an empty string if `size` is negative."""
    if size.type not in (t.BYTE, t.SHORT, t.INT):
        raise unsupported_error(f"the function right() with a number of {size.type}")
    sql = f"right({text_arguments('right', text)[0]}, greatest({size.sql}, 0))"
    nulls = f"({text.sql}) IS NULL OR ({size.sql}) IS NULL"
    return TypedSql(f"CASE WHEN {nulls} THEN NULL ELSE {sql} END", t.STRING, text.raises)


_ALL = TypedSql(f"CAST({2**31 - 1} AS INTEGER)", t.INT)  # Spark's default size


def substring(text: TypedSql, start: TypedSql, size: TypedSql = _ALL) -> TypedSql:
    """Return `substring(text, start, size)`.

    A start of 0 means the first character; a negative start counts from the end.
    """
    [value] = text_arguments("substring", text)
    for each in (start, size):
        if each.type not in (t.BYTE, t.SHORT, t.INT):
            raise unsupported_error(f"the function substring() with a position of {each.type}")
    first, whole = f"CAST({start.sql} AS BIGINT)", f"length({value})"
    begin = f"(CASE WHEN {first} > 0 THEN {first} - 1 WHEN {first} < 0 THEN {whole} + {first} ELSE 0 END)"
    end = f"({begin} + CAST({size.sql} AS BIGINT))"
    kept = f"greatest(least({end}, {whole}) - greatest({begin}, 0), 0)"
    nulls = " OR ".join(f"({each.sql}) IS NULL" for each in (text, start, size))
    cut = f"substring({value}, greatest({begin}, 0) + 1, {kept})"
    return TypedSql(f"CASE WHEN {nulls} THEN NULL ELSE {cut} END", t.STRING, True)


def left(text: TypedSql, size: TypedSql) -> TypedSql:
    """Return `left(text, size)`: the first `size` characters, or an empty string if `size` is negative."""
    return substring(text, TypedSql("CAST(1 AS INTEGER)", t.INT), size)


def concat(*args: TypedSql) -> TypedSql:
    """Return `concat(...)` or `||` of strings, binaries or lists, which is null if an argument is null.

    Other values are cast to strings.
    """
    if any(isinstance(each.type, t.ListOf) for each in args):
        lists = unify(args, "the function concat()")
        together = f"flatten([{', '.join(each.sql for each in lists)}])"
        absent = " OR ".join(f"({each.sql}) IS NULL" for each in lists)
        return TypedSql(f"CASE WHEN {absent} THEN NULL ELSE {together} END", lists[0].type, any(e.raises for e in args))
    if all(each.type == t.BINARY for each in args):
        return TypedSql(f"({' || '.join(f'({each.sql})' for each in args)})", t.BINARY, any(e.raises for e in args))
    parts = text_arguments("concat", *(cast(each, t.STRING) for each in args))
    joined_sql = " || ".join(f"({each})" for each in parts)
    return TypedSql(f"({joined_sql})", t.STRING, any(each.raises for each in args))


def test_of(function: str, name: str) -> Callable[[TypedSql, TypedSql], TypedSql]:
    """Return a translator of Spark's `startswith`, `endswith` or `contains` (`name`) by DuckDB's `function`."""

    def apply(text: TypedSql, part: TypedSql) -> TypedSql:
        first, second = text_arguments(name, text, part)
        return TypedSql(f"{function}({first}, {second})", t.BOOLEAN, text.raises or part.raises)

    return apply


def like(text: TypedSql, pattern: TypedSql, escape: str = "\\") -> TypedSql:
    """Return `text LIKE pattern`. As in Spark, the escape is allowed only before %, _ and itself.

    Raises `InvalidFilter` for a literal with another escape. Other patterns then fail when they are evaluated.
    """
    [value] = text_arguments("like", text)
    if not pattern.is_text_literal:
        given = [
            TypedSql(value, t.STRING),
            TypedSql(text_arguments("like", pattern)[0], t.STRING),
            literal(escape, t.STRING),
        ]
        return call_python("patterns.like", given, t.BOOLEAN, raises=True)
    _check_escapes(pattern.literal, escape)
    normal = join_pattern(split_pattern(pattern.literal, escape))
    return TypedSql(f"({value} LIKE {quote_text(normal)} ESCAPE '\\')", t.BOOLEAN, text.raises)


def ilike(text: TypedSql, pattern: TypedSql, escape: str = "\\") -> TypedSql:
    """Return `text ILIKE pattern`, which compares both sides in lower case; escapes as for `like`."""
    values = text_arguments("ilike", text, pattern)
    if pattern.is_text_literal:
        _check_escapes(pattern.literal, escape)
    given = [*(TypedSql(each, t.STRING) for each in values), literal(escape, t.STRING)]
    other = call_python("patterns.ilike", given, t.BOOLEAN, raises=not pattern.is_text_literal)
    if not pattern.is_text_literal or not pattern.literal.isascii() or not escape.isascii():
        return other
    # Only for ASCII strings: in others, one letter may become several in lower case.
    normal = join_pattern(split_pattern(pattern.literal.lower(), escape.lower()))
    plain = f"(lower({values[0]}) LIKE {quote_text(normal)} ESCAPE '\\')"
    sql = f"CASE WHEN strlen({values[0]}) = length({values[0]}) THEN {plain} ELSE {other.sql} END"
    return TypedSql(f"CASE WHEN ({values[0]}) IS NOT NULL THEN {sql} END", t.BOOLEAN, text.raises)


def _check_escapes(pattern: str, escape: str) -> None:
    rest = iter(pattern)
    for character in rest:
        if character == escape and next(rest, "") not in ("%", "_", escape):
            raise InvalidFilter(f"the pattern {pattern!r} has {escape!r} before an ordinary character")


def instr(text: TypedSql, part: TypedSql) -> TypedSql:
    """Return `instr(text, part)`: the position of the first occurrence, from 1, or 0 if `part` does not occur."""
    value, wanted = text_arguments("instr", text, part)
    found = f"CASE WHEN {wanted} = '' AND ({value}) IS NOT NULL THEN 1 ELSE instr({value}, {wanted}) END"
    return TypedSql(f"CAST({found} AS INTEGER)", t.INT, text.raises or part.raises)


def locate(part: TypedSql, text: TypedSql, start: TypedSql | None = None) -> TypedSql:
    """Return `locate(part, text, start)`, or `position(part IN text)` without `start`, which is a literal from 1 on.

    The value is the position, from 1, of the first occurrence at or after `start`, or 0 without one.
    """
    if start is None:
        return instr(text, part)
    if not isinstance(start.literal, int) or start.literal < 1:
        raise unsupported_error("the function locate() with a start that is not a constant of at least 1")
    value, wanted = text_arguments("locate", text, part)
    rest = f"instr(substring({value}, {start.literal}), {wanted})"
    sql = f"CASE WHEN {wanted} = '' THEN NULL WHEN {rest} > 0 THEN {rest} + {start.literal - 1} ELSE {rest} END"
    empty = "CAST(error('locate() of an empty text') AS INTEGER)"
    checked = f"CASE WHEN {wanted} = '' THEN {empty} ELSE CAST({sql} AS INTEGER) END"
    return TypedSql(checked, t.INT, True)


def replace_text(text: TypedSql, old: TypedSql, new: TypedSql | None = None) -> TypedSql:
    """Return `replace(text, old, new)`; without `new`, `old` is removed."""
    value, search = text_arguments("replace", text, old)
    other = "''" if new is None else text_arguments("replace", new)[0]
    sql = f"CASE WHEN {search} = '' AND ({other}) IS NOT NULL THEN {value} ELSE replace({value}, {search}, {other}) END"
    return TypedSql(sql, t.STRING, text.raises)


def translate(text: TypedSql, letters: TypedSql, others: TypedSql) -> TypedSql:
    """Return `translate(text, letters, others)`: each of `letters` becomes the character at its position in `others`.

    Characters without one there are removed. `letters` and `others` are literals.
    """
    if not letters.is_text_literal or not others.is_text_literal:
        raise unsupported_error("the function translate() with letters that are not constant")
    value = text_arguments("translate", text)[0]
    known: dict[str, str] = {}
    for n, each in enumerate(letters.literal):
        known.setdefault(each, others.literal[n] if n < len(others.literal) else "")
    kept = [(a, b) for a, b in known.items() if b]
    gone = [a for a, b in known.items() if not b]
    ordered = quote_text("".join([*(a for a, _ in kept), *gone])), quote_text("".join(b for _, b in kept))
    return TypedSql(f"translate({value}, {ordered[0]}, {ordered[1]})", t.STRING, text.raises)


def concat_ws(separator: TypedSql, *args: TypedSql) -> TypedSql:
    """Return `concat_ws(separator, ...)`, which skips nulls and joins the elements of lists of strings.

    `separator` is a literal.
    """
    glue = quote_text(_constant(separator, "concat_ws", "separator"))
    lists = []
    for each in args:
        if isinstance(each.type, t.ListOf) and each.type.element.type == t.STRING:
            lists.append(f"coalesce({each.sql}, [])")
        else:
            lists.append(f"[{text_arguments('concat_ws', cast(each, t.STRING))[0]}]")
    together = f"flatten([{', '.join(lists)}])" if lists else "CAST([] AS VARCHAR[])"
    kept = f"coalesce(array_to_string({together}, {glue}), '')"
    return TypedSql(kept, t.STRING, any(each.raises for each in args))


def _constant(each: TypedSql, name: str, what: str) -> str:
    if not each.is_text_literal:
        raise unsupported_error(f"the function {name}() with a {what} that is not constant")
    return str(each.literal)


def _pattern(each: TypedSql, name: str) -> str:
    return _constant(each, name, "pattern")


def split(text: TypedSql, pattern: TypedSql, limit: TypedSql | None = None) -> TypedSql:
    """Return `split(text, pattern)`, including trailing empty strings; `pattern` is a literal regular expression.

    Raises `UnsupportedFeature` for a limit other than -1, and for a pattern that may match an empty string.
    """
    if limit is not None and limit.literal != -1:
        raise unsupported_error("the function split() with a limit")
    value, given = text_arguments("split", text)[0], _pattern(pattern, "split")
    kind = list_of(t.STRING)
    plain = plain_text(given)
    if plain:
        return TypedSql(f"string_split({value}, {quote_text(plain)})", kind, text.raises)
    found = translate_pattern(given, "the function split()")
    if not given or may_be_empty(found):
        raise unsupported_error(f"the function split() at the regular expression {given!r}, which may match nothing,")
    return TypedSql(f"string_split_regex({value}, {quote_text(found)})", kind, text.raises)


def split_part(text: TypedSql, separator: TypedSql, number: TypedSql) -> TypedSql:
    """Return `split_part(text, separator, number)`: a part between separators, or an empty string without one.

    `number` counts from 1, or from the end if negative. It and `separator` are literals.
    """
    if not isinstance(number.literal, int) or number.literal == 0 or not _pattern(separator, "split_part"):
        raise unsupported_error(
            "the function split_part() with a separator or number that is not constant, or is empty"
        )
    value = text_arguments("split_part", text)[0]
    return TypedSql(f"split_part({value}, {quote_text(separator.literal)}, {number.literal})", t.STRING, text.raises)


def substring_index(text: TypedSql, separator: TypedSql, count: TypedSql) -> TypedSql:
    """Return `substring_index(text, separator, count)`, for literals `separator` (one character) and `count`.

    That is the text before the `count`th separator, or after the one counted from the end if `count` is negative.
    """
    mark = _pattern(separator, "substring_index")
    if len(mark) != 1 or not isinstance(count.literal, int):
        raise unsupported_error(
            "the function substring_index() without a separator of one character and a constant count"
        )
    if count.literal == 0:
        return TypedSql(f"CASE WHEN ({text.sql}) IS NOT NULL THEN '' END", t.STRING, text.raises)
    parts = f"string_split({text_arguments('substring_index', text)[0]}, {quote_text(mark)})"
    cut = (
        f"1, {count.literal}" if count.literal > 0 else f"greatest(len({parts}) + {count.literal + 1}, 1), len({parts})"
    )
    return TypedSql(f"array_to_string(list_slice({parts}, {cut}), {quote_text(mark)})", t.STRING, text.raises)


def rlike(text: TypedSql, pattern: TypedSql) -> TypedSql:
    """Return `text RLIKE pattern`: whether a text contains a match of a regular expression, a literal."""
    value = text_arguments("rlike", text)[0]
    found = translate_pattern(_pattern(pattern, "rlike"), "RLIKE")
    return TypedSql(f"regexp_matches({value}, {quote_text(found)})", t.BOOLEAN, text.raises)


_FIRST = TypedSql("CAST(1 AS INTEGER)", t.INT, literal=1)


def regexp_extract(text: TypedSql, pattern: TypedSql, group: TypedSql = _FIRST) -> TypedSql:
    """Return `regexp_extract(text, pattern, group)`: a group of the first match, or an empty string without a match.

    `pattern` and `group` are literals.
    """
    given = _pattern(pattern, "regexp_extract")
    found = translate_pattern(given, "the function regexp_extract()")
    groups = len(re.findall(r"(?<!\\)\((?!\?)", given))
    if not isinstance(group.literal, int) or not 0 <= group.literal <= min(groups, 9) or "$" in given:
        raise unsupported_error(f"the function regexp_extract() with {given!r} and group {group.literal}")
    value = text_arguments("regexp_extract", text)[0]
    sql = f"CASE WHEN ({value}) IS NOT NULL THEN regexp_extract({value}, {quote_text(found)}, {group.literal}) END"
    return TypedSql(sql, t.STRING, text.raises)


def regexp_replace(text: TypedSql, pattern: TypedSql, new: TypedSql) -> TypedSql:
    """Return `regexp_replace(text, pattern, new)`: all matches are replaced; `$1` in `new` refers to a group.

    `pattern` and `new` are literals.
    """
    given = _pattern(pattern, "regexp_replace")
    found = translate_pattern(given, "the function regexp_replace()")
    other = _pattern(new, "regexp_replace")
    groups = len(re.findall(r"(?<!\\)\((?!\?)", given))
    named = [int(each) for each in re.findall(r"\$(\d)", other)]
    plain = re.sub(r"\$\d(?!\d)", "", other)
    if "$" in given or may_be_empty(found) or "\\" in other or "$" in plain or any(each > groups for each in named):
        raise unsupported_error(f"the function regexp_replace() of {given!r} by {other!r}")
    value = text_arguments("regexp_replace", text)[0]
    by = quote_text(re.sub(r"\$(\d)", r"\\\1", other))
    return TypedSql(f"regexp_replace({value}, {quote_text(found)}, {by}, 'g')", t.STRING, text.raises)
