"""Typed table properties. Each is declared once with its name, type, default and documentation.

A property is parsed on first access and then cached. An invalid property fails only the code that uses it, so that an
invalid property for writers cannot fail a read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

from lakescan.errors import InvalidOption, LakescanError

T = TypeVar("T")
P = TypeVar("P", bound="Properties")


class Property(Generic[T]):
    """A table property, declared as an attribute of a subclass of `Properties`.

    - `name`: the property's key in tables.
    - `default`: its value in tables that do not set it.
    - `doc`: its documentation.
    - `read`: parses the text in an existing table; raises `ValueError` with a description of valid values.
    - `check`: validates or normalizes the value for a new table, where that is stricter; `read` by default.
    - `is_internal`: set by writers, not by users.
    - `is_kept`: validated and stored, but not used by lakescan.
    - `error`: the error class for an invalid value in an existing table.
    """

    def __init__(
        self,
        name: str,
        default: T,
        read: Callable[[str], T],
        doc: str,
        *,
        check: Callable[[str], object] | None = None,
        is_internal: bool = False,
        is_kept: bool = False,
        error: type[LakescanError] = InvalidOption,
    ) -> None:
        self.name = name
        self.default = default
        self.read = read
        self.doc = doc
        self.check: Callable[[str], object] = check or read
        self.is_internal = is_internal
        self.is_kept = is_kept
        self.error = error

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute

    @overload
    def __get__(self, properties: None, owner: type) -> Property[T]: ...

    @overload
    def __get__(self, properties: Properties, owner: type) -> T: ...

    def __get__(self, properties: Properties | None, owner: type) -> Property[T] | T:
        if properties is None:
            return self
        value = self._parse(properties)
        properties.__dict__[self._attribute] = value  # cached: later accesses find it before this descriptor
        return value

    def _parse(self, properties: Properties) -> T:
        text = properties.texts.get(self.name)
        if text is None:
            return self.default
        try:
            return self.read(text)
        except ValueError as error:
            raise self.error(f"{properties.where}: '{self.name}'={text!r}: expected {error}") from error


class Properties:
    """Base class of a format's table properties. Reading a declared attribute parses the property of this table.

    `texts` are the property values of the table by key. `where` names the table at the beginning of messages about
    invalid values.
    """

    def __init__(self, texts: Mapping[str, str], where: str) -> None:
        self.texts = texts
        self.where = where

    @classmethod
    def declarations(cls) -> dict[str, Property[Any]]:
        """Return the properties declared by this class and its base classes, by key in the table, sorted by key."""
        found = [each for kind in cls.__mro__ for each in vars(kind).values() if isinstance(each, Property)]
        return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def is_true(text: str) -> bool:
    """Return whether a text is "true" in any case, as Java's `Boolean.parseBoolean` does."""
    return text.lower() == "true"
