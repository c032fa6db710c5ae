"""Functions of texts that search: by position, by separator, by regular expression."""

from __future__ import annotations

import re

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.patterns import may_be_empty, plain_text, translate_pattern
from lakescan.expressions.scalar.text_functions import text_arguments
from lakescan.expressions.scalar.typed import TypedSql, quote_text, unsupported_error


def instr(text: TypedSql, part: TypedSql) -> TypedSql:
    """Return `instr(text, part)`: where the first is, from 1; 0 if nowhere."""
    value, wanted = text_arguments("instr", text, part)
    found = f"CASE WHEN {wanted} = '' AND ({value}) IS NOT NULL THEN 1 ELSE instr({value}, {wanted}) END"
    return TypedSql(f"CAST({found} AS INTEGER)", t.INT, text.raises or part.raises)


def locate(part: TypedSql, text: TypedSql, start: TypedSql | None = None) -> TypedSql:
    """Return `locate(part, text, start)`, or `position(part IN text)`."""
    if start is None:
        return instr(text, part)
    if not isinstance(start.literal, int) or start.literal < 1:
        raise unsupported_error("the function locate() with a start that is no constant from 1 on")
    value, wanted = text_arguments("locate", text, part)
    rest = f"instr(substring({value}, {start.literal}), {wanted})"
    sql = f"CASE WHEN {wanted} = '' THEN NULL WHEN {rest} > 0 THEN {rest} + {start.literal - 1} ELSE {rest} END"
    empty = "CAST(error('locate() of an empty text') AS INTEGER)"
    checked = f"CASE WHEN {wanted} = '' THEN {empty} ELSE CAST({sql} AS INTEGER) END"
    return TypedSql(checked, t.INT, True)


def replace_text(text: TypedSql, old: TypedSql, new: TypedSql | None = None) -> TypedSql:
    """Return `replace(text, old, new)`: without `new`, the old is left out."""
    value, search = text_arguments("replace", text, old)
    other = "''" if new is None else text_arguments("replace", new)[0]
    sql = f"CASE WHEN {search} = '' AND ({other}) IS NOT NULL THEN {value} ELSE replace({value}, {search}, {other}) END"
    return TypedSql(sql, t.STRING, text.raises)


def translate(text: TypedSql, letters: TypedSql, others: TypedSql) -> TypedSql:
    """Return `translate(text, letters, others)`."""
    if not letters.is_text_literal or not others.is_text_literal:
        raise unsupported_error("the function translate() with letters that are no constant")
    value = text_arguments("translate", text)[0]
    known: dict[str, str] = {}
    for n, each in enumerate(letters.literal):
        known.setdefault(each, others.literal[n] if n < len(others.literal) else "")
    kept = [(a, b) for a, b in known.items() if b]
    gone = [a for a, b in known.items() if not b]
    ordered = quote_text("".join([*(a for a, _ in kept), *gone])), quote_text("".join(b for _, b in kept))
    return TypedSql(f"translate({value}, {ordered[0]}, {ordered[1]})", t.STRING, text.raises)


def concat_ws(separator: TypedSql, *args: TypedSql) -> TypedSql:
    """Return `concat_ws(separator, ...)`, which skips nulls, and takes lists of texts for their elements."""
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
        raise unsupported_error(f"the function {name}() with a {what} that is no constant")
    return str(each.literal)


def _pattern(each: TypedSql, name: str) -> str:
    return _constant(each, name, "pattern")


def split(text: TypedSql, pattern: TypedSql, limit: TypedSql | None = None) -> TypedSql:
    """Return `split(text, pattern)`: with empty texts at the end, too."""
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
    """Return `split_part(text, separator, number)`, counted from 1 or from the end."""
    if not isinstance(number.literal, int) or number.literal == 0 or not _pattern(separator, "split_part"):
        raise unsupported_error("the function split_part() with a separator or number that is no constant, or empty")
    value = text_arguments("split_part", text)[0]
    return TypedSql(f"split_part({value}, {quote_text(separator.literal)}, {number.literal})", t.STRING, text.raises)


def substring_index(text: TypedSql, separator: TypedSql, count: TypedSql) -> TypedSql:
    """Return `substring_index(text, separator, count)` for a separator of one character."""
    mark = _pattern(separator, "substring_index")
    if len(mark) != 1 or not isinstance(count.literal, int):
        raise unsupported_error("the function substring_index() but with one character and a constant number")
    if count.literal == 0:
        return TypedSql(f"CASE WHEN ({text.sql}) IS NOT NULL THEN '' END", t.STRING, text.raises)
    parts = f"string_split({text_arguments('substring_index', text)[0]}, {quote_text(mark)})"
    cut = (
        f"1, {count.literal}" if count.literal > 0 else f"greatest(len({parts}) + {count.literal + 1}, 1), len({parts})"
    )
    return TypedSql(f"array_to_string(list_slice({parts}, {cut}), {quote_text(mark)})", t.STRING, text.raises)


def rlike(text: TypedSql, pattern: TypedSql) -> TypedSql:
    """Return `text RLIKE pattern`."""
    value = text_arguments("rlike", text)[0]
    found = translate_pattern(_pattern(pattern, "rlike"), "RLIKE")
    return TypedSql(f"regexp_matches({value}, {quote_text(found)})", t.BOOLEAN, text.raises)


_FIRST = TypedSql("CAST(1 AS INTEGER)", t.INT, literal=1)


def regexp_extract(text: TypedSql, pattern: TypedSql, group: TypedSql = _FIRST) -> TypedSql:
    """Return `regexp_extract(text, pattern, group)`: empty if nothing matches."""
    given = _pattern(pattern, "regexp_extract")
    found = translate_pattern(given, "the function regexp_extract()")
    groups = len(re.findall(r"(?<!\\)\((?!\?)", given))
    if not isinstance(group.literal, int) or not 0 <= group.literal <= min(groups, 9) or "$" in given:
        raise unsupported_error(f"the function regexp_extract() with {given!r} and group {group.literal}")
    value = text_arguments("regexp_extract", text)[0]
    sql = f"CASE WHEN ({value}) IS NOT NULL THEN regexp_extract({value}, {quote_text(found)}, {group.literal}) END"
    return TypedSql(sql, t.STRING, text.raises)


def regexp_replace(text: TypedSql, pattern: TypedSql, new: TypedSql) -> TypedSql:
    """Return `regexp_replace(text, pattern, new)`; `$1` in `new` is a group."""
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
