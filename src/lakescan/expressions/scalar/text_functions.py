"""Functions of texts. Positions count characters (code points) from 1, as in both engines."""

from __future__ import annotations

from collections.abc import Callable

from lakescan.common import types as t
from lakescan.errors import InvalidFilter
from lakescan.expressions.like import joined, parts
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.typed import Typed, converted, evaluated_if, quoted, unsupported


def _texts(name: str, *args: Typed) -> list[str]:
    """The SQL of arguments that must be texts."""
    for each in args:
        if each.type not in (t.STRING, t.UNKNOWN):
            raise unsupported(f"the function {name}() of {each.type}")
    return [converted(each, t.STRING).sql for each in args]


def length(each: Typed) -> Typed:
    """Return the number of characters of a text, or of bytes of a binary value."""
    if each.type == t.BINARY:
        return Typed(f"CAST(octet_length({each.sql}) AS INTEGER)", t.INT)
    return Typed(f"CAST(length({_texts('length', each)[0]}) AS INTEGER)", t.INT)


def in_case(name: str) -> Callable[[Typed], Typed]:
    """Return `upper` or `lower`, of ASCII only: engines differ on other characters."""

    def apply(each: Typed) -> Typed:
        [text] = _texts(name, each)
        is_ascii = f"({text}) IS NULL OR strlen({text}) = length({text})"
        return evaluated_if(is_ascii, f"{name}({text})", t.STRING, f"{name}() of the text", text)

    return apply


def trimmed(side: str) -> Callable[[Typed], Typed]:
    """Return `trim`, `ltrim` or `rtrim`, which remove spaces and no other blanks."""
    return lambda each: Typed(f"{side}({_texts(side, each)[0]}, ' ')", t.STRING, each.raises)


_ALL = Typed(f"CAST({2**31 - 1} AS INTEGER)", t.INT)  # the size that Spark takes where there is none


def substring(text: Typed, start: Typed, size: Typed = _ALL) -> Typed:
    """Return `substring(text, start, size)`: 0 is the first character; a negative start counts from the end."""
    [value] = _texts("substring", text)
    for each in (start, size):
        if each.type not in (t.BYTE, t.SHORT, t.INT):
            raise unsupported(f"the function substring() with a position of {each.type}")
    first, whole = f"CAST({start.sql} AS BIGINT)", f"length({value})"
    begin = f"(CASE WHEN {first} > 0 THEN {first} - 1 WHEN {first} < 0 THEN {whole} + {first} ELSE 0 END)"
    end = f"({begin} + CAST({size.sql} AS BIGINT))"
    kept = f"greatest(least({end}, {whole}) - greatest({begin}, 0), 0)"
    nulls = " OR ".join(f"({each.sql}) IS NULL" for each in (text, start, size))
    cut = f"substring({value}, greatest({begin}, 0) + 1, {kept})"
    return Typed(f"CASE WHEN {nulls} THEN NULL ELSE {cut} END", t.STRING, True)


def left(text: Typed, size: Typed) -> Typed:
    """Return the first `size` characters; none for a negative number."""
    return substring(text, Typed("CAST(1 AS INTEGER)", t.INT), size)


def joined_texts(*args: Typed) -> Typed:
    """Return `concat(...)` or `||`: null if one is null."""
    texts = _texts("concat", *(cast(each, t.STRING) for each in args))
    joined_sql = " || ".join(f"({each})" for each in texts)
    return Typed(f"({joined_sql})", t.STRING, any(each.raises for each in args))


def test_of(function: str, name: str) -> Callable[[Typed, Typed], Typed]:
    """Return a test of a text against another: `startswith`, `endswith`, `contains`."""

    def apply(text: Typed, part: Typed) -> Typed:
        first, second = _texts(name, text, part)
        return Typed(f"{function}({first}, {second})", t.BOOLEAN, text.raises or part.raises)

    return apply


def like(text: Typed, pattern: Typed, escape: str = "\\") -> Typed:
    """Return `text LIKE pattern`. Spark refuses an escape before other characters than % _ and itself."""
    [value] = _texts("like", text)
    if not pattern.is_text_literal:
        raise unsupported("LIKE with a pattern that is not a text")
    rest = iter(pattern.literal)
    for character in rest:
        if character == escape and next(rest, "") not in ("%", "_", escape):
            raise InvalidFilter(f"the pattern {pattern.literal!r} has {escape!r} before an ordinary character")
    normal = joined(parts(pattern.literal, escape))
    return Typed(f"({value} LIKE {quoted(normal)} ESCAPE '\\')", t.BOOLEAN, text.raises)
