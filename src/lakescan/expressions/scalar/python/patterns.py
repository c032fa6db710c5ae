"""Spark's functions of regular expressions and LIKE patterns in Python.

Java's regular expressions are translated to Python's: both engines backtrack, and most of the syntax is the same.
Functions raise `FailedValue` for an expression that Python cannot evaluate with the same meaning.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lakescan.expressions.scalar.udf import FailedValue

_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
_ENDS = "\\n\\r\\x85\\u2028\\u2029"
_HORIZONTAL = " \\t\\xa0\\u1680\\u180e\\u2000-\\u200a\\u202f\\u205f\\u3000"


class UnknownPattern(Exception):
    """Raised for a Java regular expression that Python cannot evaluate with the same meaning."""


@lru_cache(500)
def translate_pattern(pattern: str) -> re.Pattern[str]:
    """Translate a Java regular expression to a compiled Python pattern.

    Raises `UnknownPattern` for syntax that Python lacks or interprets differently.
    """
    flags = 0
    at, parts = 0, []
    opening = re.match(r"\(\?([imsxu]+)\)", pattern)
    if opening:
        for each in opening[1]:
            if each == "x":
                raise UnknownPattern(pattern)
            flags |= {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "u": 0}[each]
        at = opening.end()
    in_class = 0
    while at < len(pattern):
        each = pattern[at]
        at += 1
        if each == "\\":
            text, at = _parse_escape(pattern, at, bool(in_class))
            parts.append(text)
        elif in_class:
            if each == "[" or pattern.startswith("&&", at - 1):
                raise UnknownPattern(pattern)
            in_class += 1
            if each == "]" and in_class > 2:
                in_class = 0
            parts.append(each)
        elif each == "[":
            in_class = 1
            parts.append(each)
            if pattern.startswith("^", at):
                parts.append("^")
                at += 1
        elif each == "." and not flags & re.DOTALL:
            parts.append(f"[^{_ENDS}]")
        elif each == "$" and not flags & re.MULTILINE:
            parts.append(r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)")
        elif each == "(" and pattern.startswith("?<", at) and pattern[at + 2 : at + 3] not in ("=", "!"):
            parts.append("(?P<")
            at += 2
        elif each == "(" and re.match(r"\?[imsx-]+\)", pattern[at:]):
            raise UnknownPattern(pattern)
        else:
            parts.append(each)
    try:
        return re.compile("".join(parts), flags | re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise UnknownPattern(pattern) from error


def _parse_escape(pattern: str, at: int, in_class: bool) -> tuple[str, int]:
    if at >= len(pattern):
        raise UnknownPattern(pattern)
    each = pattern[at]
    if each in "pP":
        found = re.match(r"\{(?:Is|java)?(\w+)\}", pattern[at + 1 :])
        inner = _CLASSES.get(found[1]) if found else None
        if found is None or inner is None or (in_class and each == "P"):
            raise UnknownPattern(pattern)
        text = inner if in_class else f"[{'^' if each == 'P' else ''}{inner}]"
        return text, at + 1 + found.end()
    if each == "Q":
        end = pattern.find("\\E", at)
        end = len(pattern) if end < 0 else end
        return re.escape(pattern[at + 1 : end]), min(end + 2, len(pattern))
    if each == "h":
        return (_HORIZONTAL if in_class else f"[{_HORIZONTAL}]"), at + 1
    if each == "R" and not in_class:
        return rf"(?:\r\n|[{_ENDS}\x0b\f])", at + 1
    if each == "s":
        return (r" \t\n\x0b\f\r" if in_class else r"[ \t\n\x0b\f\r]"), at + 1
    if each == "S" and not in_class:
        return r"[^ \t\n\x0b\f\r]", at + 1
    if each == "z":
        return r"\Z", at + 1
    if each == "Z":
        return r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)", at + 1
    if each == "e":
        return r"\x1b", at + 1
    if each == "k":
        found = re.match(r"<(\w+)>", pattern[at + 1 :])
        if found is None:
            raise UnknownPattern(pattern)
        return f"(?P={found[1]})", at + 1 + found.end()
    if each == "x" and (found := re.match(r"\{([0-9a-fA-F]+)\}", pattern[at + 1 :])):
        return re.escape(chr(int(found[1], 16))), at + 1 + found.end()
    if each == "0" and (found := re.match("[0-3]?[0-7]{1,2}", pattern[at + 1 :])):
        return re.escape(chr(int(found[0], 8))), at + 1 + found.end()
    if each in "GXvVHNcbB" and (in_class or each not in "bB"):
        raise UnknownPattern(pattern)
    return "\\" + each, at + 1


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Translate a Java regular expression to a compiled Python pattern; raises `FailedValue` for unsupported syntax."""
    try:
        return translate_pattern(pattern)
    except UnknownPattern:
        raise FailedValue(f"the regular expression {pattern!r} is not supported outside Spark") from None


def matches(text: str, pattern: str) -> bool:
    """Return whether a Java regular expression matches anywhere in a text; raises as `compile_pattern` does."""
    return compile_pattern(pattern).search(text) is not None


def _group(found: re.Pattern[str], group: int, name: str) -> None:
    if not 0 <= group <= found.groups:
        raise FailedValue(
            f"INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX: {name}() takes a group from 0 to {found.groups}, not {group}"
        )


def extract(text: str, pattern: str, group: int) -> str:
    """Return a group, by number, of the first match; an empty string if nothing matches.

    Raises `FailedValue` for a group that the pattern lacks.
    """
    found = compile_pattern(pattern)
    match = found.search(text)
    if match is None:
        return ""
    _group(found, group, "regexp_extract")
    return match[group] or ""


def extract_all(text: str, pattern: str, group: int) -> list[str]:
    """Return a group, by number, of each match; raises `FailedValue` for a group that the pattern lacks."""
    found = compile_pattern(pattern)
    _group(found, group, "regexp_extract_all")
    return [match[group] or "" for match in found.finditer(text)]


def count(text: str, pattern: str) -> int:
    """Return the number of matches of a regular expression in a text."""
    return sum(1 for _ in compile_pattern(pattern).finditer(text))


def place(text: str, pattern: str) -> int:
    """Return the position of the first match, from 1; 0 if nothing matches."""
    match = compile_pattern(pattern).search(text)
    return 0 if match is None else match.start() + 1


def substring(text: str, pattern: str) -> str | None:
    """Return the first match; None if nothing matches."""
    match = compile_pattern(pattern).search(text)
    return None if match is None else match[0]


_REFERENCE = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}|([\\$])", re.DOTALL)


def replace(text: str, pattern: str, new: str, start: int = 1) -> str:
    """Replace all matches from position `start` (counted from 1) on; `$1` and `${name}` in `new` refer to groups.

    Raises `FailedValue` for a position below 1, and for a group that the pattern lacks.
    """
    found = compile_pattern(pattern)
    if start < 1:
        raise FailedValue("the position of regexp_replace() must be 1 or more")

    def by(match: re.Match[str]) -> str:
        def part(reference: re.Match[str]) -> str:
            escaped, number, name, alone = reference.groups()
            if alone is not None:
                raise FailedValue(f"Illegal group reference in {new!r}")
            if escaped is not None:
                return escaped
            try:
                return match[int(number) if number is not None else name] or ""
            except (IndexError, KeyError):
                raise FailedValue(f"No group {number or name} of {pattern!r}") from None

        return _REFERENCE.sub(part, new)

    at = start - 1
    if at > len(text):
        return text
    return text[:at] + found.sub(by, text[at:])


def split(text: str, pattern: str, limit: int) -> list[str]:
    """Split a text at matches, into at most `limit` parts if `limit` is positive; an empty pattern splits letters."""
    if not pattern:
        letters = [*text] or [""]
        return letters if limit <= 0 or len(letters) <= limit else [*letters[: limit - 1], text[limit - 1 :]]
    parts: list[str] = []
    at = 0
    for match in compile_pattern(pattern).finditer(text):
        if limit > 0 and len(parts) == limit - 1:
            break
        if match.end() == 0:  # an empty match at the beginning does not split
            continue
        if match.start() == match.end() == len(text):
            break
        parts.append(text[at : match.start()])
        at = match.end()
    return [*parts, text[at:]]


@lru_cache(500)
def _like(pattern: str, escape: str, ignores_case: bool) -> re.Pattern[str]:
    parts, letters = [], iter(pattern)
    for each in letters:
        if each == escape:
            following = next(letters, "")
            if following not in ("%", "_", escape) or not following:
                raise FailedValue(
                    f"INVALID_FORMAT: the pattern {pattern!r} has {escape!r} before an ordinary character"
                )
            parts.append(re.escape(following))
        else:
            parts.append(".*" if each == "%" else "." if each == "_" else re.escape(each))
    return re.compile("".join(parts), re.DOTALL | (re.IGNORECASE if ignores_case else 0))


def like(text: str, pattern: str, escape: str) -> bool:
    """Return whether `text LIKE pattern` is true; raises `FailedValue` for an escape before an ordinary character."""
    return _like(pattern, escape, False).fullmatch(text) is not None


def ilike(text: str, pattern: str, escape: str) -> bool:
    """Return whether `text ILIKE pattern` is true, comparing both in lower case; raises the errors of `like`."""
    return _like(pattern.lower(), escape.lower(), False).fullmatch(text.lower()) is not None
