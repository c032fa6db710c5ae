"""Functions of texts that search: by position, by separator, by regular expression."""

from __future__ import annotations

import re

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.patterns import may_be_empty, plain_text, translated
from lakescan.expressions.scalar.text_functions import texts
from lakescan.expressions.scalar.typed import Typed, quoted, unsupported


def place(text: Typed, part: Typed) -> Typed:
    """Return `instr(text, part)`: where the first is, from 1; 0 if nowhere."""
    value, wanted = texts("instr", text, part)
    found = f"CASE WHEN {wanted} = '' AND ({value}) IS NOT NULL THEN 1 ELSE instr({value}, {wanted}) END"
    return Typed(f"CAST({found} AS INTEGER)", t.INT, text.raises or part.raises)


def place_from(part: Typed, text: Typed, start: Typed | None = None) -> Typed:
    """Return `locate(part, text, start)`, or `position(part IN text)`."""
    if start is None:
        return place(text, part)
    if not isinstance(start.literal, int) or start.literal < 1:
        raise unsupported("the function locate() with a start that is no constant from 1 on")
    value, wanted = texts("locate", text, part)
    rest = f"instr(substring({value}, {start.literal}), {wanted})"
    sql = f"CASE WHEN {wanted} = '' THEN NULL WHEN {rest} > 0 THEN {rest} + {start.literal - 1} ELSE {rest} END"
    empty = "CAST(error('locate() of an empty text') AS INTEGER)"
    checked = f"CASE WHEN {wanted} = '' THEN {empty} ELSE CAST({sql} AS INTEGER) END"
    return Typed(checked, t.INT, True)


def replaced(text: Typed, old: Typed, new: Typed | None = None) -> Typed:
    """Return `replace(text, old, new)`: without `new`, the old is left out."""
    value, search = texts("replace", text, old)
    other = "''" if new is None else texts("replace", new)[0]
    sql = f"CASE WHEN {search} = '' AND ({other}) IS NOT NULL THEN {value} ELSE replace({value}, {search}, {other}) END"
    return Typed(sql, t.STRING, text.raises)


def exchanged(text: Typed, letters: Typed, others: Typed) -> Typed:
    """Return `translate(text, letters, others)`."""
    if not letters.is_text_literal or not others.is_text_literal:
        raise unsupported("the function translate() with letters that are no constant")
    value = texts("translate", text)[0]
    known: dict[str, str] = {}
    for n, each in enumerate(letters.literal):
        known.setdefault(each, others.literal[n] if n < len(others.literal) else "")
    kept = [(a, b) for a, b in known.items() if b]
    gone = [a for a, b in known.items() if not b]
    ordered = quoted("".join([*(a for a, _ in kept), *gone])), quoted("".join(b for _, b in kept))
    return Typed(f"translate({value}, {ordered[0]}, {ordered[1]})", t.STRING, text.raises)


def joined_by(separator: Typed, *args: Typed) -> Typed:
    """Return `concat_ws(separator, ...)`, which skips nulls, and takes lists of texts for their elements."""
    glue = quoted(_constant(separator, "concat_ws", "separator"))
    lists = []
    for each in args:
        if isinstance(each.type, t.ListOf) and each.type.element.type == t.STRING:
            lists.append(f"coalesce({each.sql}, [])")
        else:
            lists.append(f"[{texts('concat_ws', cast(each, t.STRING))[0]}]")
    together = f"flatten([{', '.join(lists)}])" if lists else "CAST([] AS VARCHAR[])"
    kept = f"coalesce(array_to_string({together}, {glue}), '')"
    return Typed(kept, t.STRING, any(each.raises for each in args))


def _constant(each: Typed, name: str, what: str) -> str:
    if not each.is_text_literal:
        raise unsupported(f"the function {name}() with a {what} that is no constant")
    return str(each.literal)


def _pattern(each: Typed, name: str) -> str:
    return _constant(each, name, "pattern")


def split(text: Typed, pattern: Typed, limit: Typed | None = None) -> Typed:
    """Return `split(text, pattern)`: with empty texts at the end, too."""
    if limit is not None and limit.literal != -1:
        raise unsupported("the function split() with a limit")
    value, given = texts("split", text)[0], _pattern(pattern, "split")
    kind = list_of(t.STRING)
    plain = plain_text(given)
    if plain:
        return Typed(f"string_split({value}, {quoted(plain)})", kind, text.raises)
    found = translated(given, "the function split()")
    if not given or may_be_empty(found):
        raise unsupported(f"the function split() at the regular expression {given!r}, which may match nothing,")
    return Typed(f"string_split_regex({value}, {quoted(found)})", kind, text.raises)


def part_of(text: Typed, separator: Typed, number: Typed) -> Typed:
    """Return `split_part(text, separator, number)`, counted from 1 or from the end."""
    if not isinstance(number.literal, int) or number.literal == 0 or not _pattern(separator, "split_part"):
        raise unsupported("the function split_part() with a separator or number that is no constant, or empty")
    value = texts("split_part", text)[0]
    return Typed(f"split_part({value}, {quoted(separator.literal)}, {number.literal})", t.STRING, text.raises)


def upto(text: Typed, separator: Typed, count: Typed) -> Typed:
    """Return `substring_index(text, separator, count)` for a separator of one character."""
    mark = _pattern(separator, "substring_index")
    if len(mark) != 1 or not isinstance(count.literal, int):
        raise unsupported("the function substring_index() but with one character and a constant number")
    if count.literal == 0:
        return Typed(f"CASE WHEN ({text.sql}) IS NOT NULL THEN '' END", t.STRING, text.raises)
    parts = f"string_split({texts('substring_index', text)[0]}, {quoted(mark)})"
    cut = (
        f"1, {count.literal}" if count.literal > 0 else f"greatest(len({parts}) + {count.literal + 1}, 1), len({parts})"
    )
    return Typed(f"array_to_string(list_slice({parts}, {cut}), {quoted(mark)})", t.STRING, text.raises)


def matches(text: Typed, pattern: Typed) -> Typed:
    """Return `text RLIKE pattern`."""
    value = texts("rlike", text)[0]
    found = translated(_pattern(pattern, "rlike"), "RLIKE")
    return Typed(f"regexp_matches({value}, {quoted(found)})", t.BOOLEAN, text.raises)


_FIRST = Typed("CAST(1 AS INTEGER)", t.INT, literal=1)


def extracted(text: Typed, pattern: Typed, group: Typed = _FIRST) -> Typed:
    """Return `regexp_extract(text, pattern, group)`: empty if nothing matches."""
    given = _pattern(pattern, "regexp_extract")
    found = translated(given, "the function regexp_extract()")
    groups = len(re.findall(r"(?<!\\)\((?!\?)", given))
    if not isinstance(group.literal, int) or not 0 <= group.literal <= min(groups, 9) or "$" in given:
        raise unsupported(f"the function regexp_extract() with {given!r} and group {group.literal}")
    value = texts("regexp_extract", text)[0]
    sql = f"CASE WHEN ({value}) IS NOT NULL THEN regexp_extract({value}, {quoted(found)}, {group.literal}) END"
    return Typed(sql, t.STRING, text.raises)


def replaced_all(text: Typed, pattern: Typed, new: Typed) -> Typed:
    """Return `regexp_replace(text, pattern, new)`; `$1` in `new` is a group."""
    given = _pattern(pattern, "regexp_replace")
    found = translated(given, "the function regexp_replace()")
    other = _pattern(new, "regexp_replace")
    groups = len(re.findall(r"(?<!\\)\((?!\?)", given))
    named = [int(each) for each in re.findall(r"\$(\d)", other)]
    plain = re.sub(r"\$\d(?!\d)", "", other)
    if "$" in given or may_be_empty(found) or "\\" in other or "$" in plain or any(each > groups for each in named):
        raise unsupported(f"the function regexp_replace() of {given!r} by {other!r}")
    value = texts("regexp_replace", text)[0]
    by = quoted(re.sub(r"\$(\d)", r"\\\1", other))
    return Typed(f"regexp_replace({value}, {quoted(found)}, {by}, 'g')", t.STRING, text.raises)
