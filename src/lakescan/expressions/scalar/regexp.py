"""Translation of Java regular expressions, as in Spark, to RE2's, as in DuckDB, if both match the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakescan.expressions.scalar.typed_sql import unsupported_error

_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"  # characters that a dot does not match in Java
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "s": r" \t\n\x0b\f\r"}
_CONTROLS = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f"}
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d{1,3})(?:,(\d{0,3}))?\})(\??)(?![*+?{])")
_PLAIN = re.compile(r"[^\\.\[\](){}*+?^$|]")


def translate_pattern(pattern: str, what: str) -> str:
    """Translate a Java regular expression to RE2's syntax.

    The result's `$` matches only at the end of the text, or before a final line break. Raises `UnsupportedFeature` for
    a pattern that RE2 may match differently; `what` names the Spark function in the message.
    """
    return _Pattern(pattern, what).text()


def may_be_empty(pattern: str) -> bool:
    """Return whether a pattern that `translate_pattern` returned may match an empty string; True in case of doubt."""
    plain = re.sub(r"\[(?:[^\]\\]|\\.)*\]|\\[^z]|\(\?:", "x", pattern)
    return re.search(r"[*?^$|]|\{0|\\z|\(\)", plain) is not None


def plain_text(pattern: str) -> str | None:
    """Return the text that a Java regular expression without special characters matches; None for other patterns."""
    found = re.fullmatch(r"(?:[^\\.\[\](){}*+?^$|]|\\[^A-Za-z0-9])*", pattern, re.DOTALL)
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL) if found else None


class _Pattern:
    def __init__(self, pattern: str, what: str) -> None:
        self._pattern, self._what, self._at, self._depth = pattern, what, 0, 0

    def _pattern_error(self) -> Exception:
        return unsupported_error(f"{self._what} with the regular expression {self._pattern!r}")

    def text(self) -> str:
        return "".join(self._parts())

    def _parts(self) -> Iterator[str]:
        can_repeat = is_group = False
        pattern = self._pattern
        starts: list[int] = []
        while self._at < len(pattern):
            at, each = self._at, pattern[self._at]
            if (found := _QUANTIFIER.match(pattern, at)) is not None:
                # The engines differ in how they end a loop over a group with a part that may be empty.
                inner = pattern[starts[-1] : at] if is_group and starts else ""
                if not can_repeat or (is_group and re.search(r"[*?|{]", inner)):
                    raise self._pattern_error()
                self._at = found.end()
                can_repeat = is_group = False
                yield found[0]
                continue
            self._at += 1
            can_repeat, is_group = True, False
            if each == "\\":
                yield self._parse_escape()
            elif each == ".":
                yield f"[^{_ENDS}]"
            elif each == "[":
                yield self._class()
            elif each == "(":
                if pattern.startswith("(?", at) and not pattern.startswith("(?:", at):
                    raise self._pattern_error()
                self._depth += 1
                self._opened = [*getattr(self, "_opened", []), at]
                can_repeat = False
                yield each
                if pattern.startswith("(?:", at):
                    self._at += 2
                    yield "?:"
            elif each == ")":
                if self._depth == 0:
                    raise self._pattern_error()
                self._depth -= 1
                starts.append(self._opened.pop())
                is_group = True
                yield each
            elif each in "|^":
                can_repeat = False
                yield each
            elif each == "$":
                can_repeat = False
                yield r"(?:(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)"
            elif _PLAIN.match(each):
                yield each
            else:
                raise self._pattern_error()
        if self._depth:
            raise self._pattern_error()

    def _parse_escape(self, in_class: bool = False) -> str:
        if self._at >= len(self._pattern):
            raise self._pattern_error()
        each = self._pattern[self._at]
        self._at += 1
        if each in _CLASSES:
            return _CLASSES[each] if in_class else f"[{_CLASSES[each]}]"
        if each.lower() in _CLASSES and not in_class:
            return f"[^{_CLASSES[each.lower()]}]"
        if each in _CONTROLS:
            return _CONTROLS[each]
        if each.isalnum() or not each.isascii():
            raise self._pattern_error()
        return "\\" + each

    def _class(self) -> str:
        """Parse a character class, after its `[`, and return it in RE2's syntax.

        Raises `UnsupportedFeature` for Java's unions and intersections of classes.
        """
        pattern, parts = self._pattern, []
        negated = pattern.startswith("^", self._at)
        self._at += negated
        while self._at < len(pattern) and pattern[self._at] != "]":
            each = pattern[self._at]
            self._at += 1
            if each == "\\":
                parts.append(self._parse_escape(in_class=True))
            elif each in "[&^":
                raise self._pattern_error()
            else:
                parts.append(each)
        if self._at >= len(pattern) or not parts:
            raise self._pattern_error()
        self._at += 1
        return f"[{'^' * negated}{''.join(parts)}]"
