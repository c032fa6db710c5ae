"""Answers of a Unity Catalog server: JSON objects whose members are checked as they are read.

Messages tell the request and the kind of a value, never the value: answers have secrets.
"""

from __future__ import annotations

from typing import Any

from lakescan.errors import CorruptMetadata

WHAT_TO_DO = "Is that the address of a Unity Catalog server? If it is, ask its operator."
_LARGEST = 2**63 - 1
_KINDS = {str: "a text", dict: "an object", list: "a list", bool: "a truth value", int: "a number", float: "a number"}


class UnityResponse(dict[str, Any]):
    """An object in the answer to a request, which is told by method and address."""

    def __init__(self, members: dict[str, Any] | None = None, request: str = "a request") -> None:
        super().__init__(members or {})
        self.request = request

    def text(self, name: str) -> str | None:
        """A text, None if it is missing or empty; raises `CorruptMetadata`, as all methods do."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self._not(name, value, "a text")
        return value or None

    def required_text(self, name: str) -> str:
        """A text that has to be there."""
        value = self.text(name)
        if value is None:
            raise CorruptMetadata(f"{self.request} is answered without {name!r}. {WHAT_TO_DO}")
        return value

    def number(self, name: str) -> int | None:
        """A whole number from 0 on; None if it is missing."""
        value = self.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST):
            raise self._not(name, value, "a whole number of 64 bits from 0 on")
        return value

    def node(self, name: str) -> UnityResponse:
        """An object; one without members if it is missing."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self._not(name, value, "an object")
        return UnityResponse(value, self.request)

    def nodes(self, name: str) -> list[UnityResponse]:
        """A list of objects; an empty one if it is missing."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._not(name, value, "a list of objects")
        for each in value:
            if not isinstance(each, dict):
                raise self._not(name, each, "an object", "an element of ")
        return [UnityResponse(each, self.request) for each in value]

    def names(self, name: str) -> list[str]:
        """A list of texts; an empty one if it is missing."""
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._not(name, value, "a list of texts")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts; numbers and truth values among them are spelled as in JSON, null ones left out."""
        found = self.node(name)
        for key, value in found.items():
            if isinstance(value, dict | list):
                raise self._not(f"{name}.{key}", value, "a text")
        return {key: _json_text(value) for key, value in found.items() if value is not None}

    def _not(self, name: str, value: Any, wanted: str, part: str = "") -> CorruptMetadata:
        kind = "null" if value is None else _KINDS[type(value)]
        if kind == "a list" and wanted.startswith(kind):
            kind = "another list"
        return CorruptMetadata(f"{self.request} is answered with {part}{name!r} as {kind}, not {wanted}. {WHAT_TO_DO}")


def _json_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
