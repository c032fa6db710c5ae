"""Typed table properties: each is declared once, with its name, its type, its default and what it does.

A property is parsed when it is first asked for, and then kept: an invalid one fails only what depends on it, so that a
property of writers cannot make a read fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, overload

from lakescan.errors import InvalidOption, LakescanError

T = TypeVar("T")
P = TypeVar("P", bound="Properties")


class Property(Generic[T]):
    """A table property, declared as an attribute of a class of `Properties`.

    - `name`: what tables call it; `default`: its value without it; `doc`: what it does.
    - `read`: parses the text of an existing table; raises `ValueError` with what is expected.
    - `check`: parses, or brings to its normal form, the value of a new table, where that is stricter; else `read`.
    - `is_internal`: writers set it, users do not.
    - `is_kept`: it is only checked and kept; no code of lakescan acts on it.
    - `error`: what an invalid value of an existing table raises.
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
        properties.__dict__[self._attribute] = value  # found first from now on
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
    """The properties of one table; `where` begins the messages about those that are invalid."""

    def __init__(self, texts: Mapping[str, str], where: str) -> None:
        self.texts = texts
        self.where = where

    @classmethod
    def declarations(cls) -> dict[str, Property[Any]]:
        """The declared properties by name, sorted."""
        found = [each for kind in cls.__mro__ for each in vars(kind).values() if isinstance(each, Property)]
        return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def is_true(text: str) -> bool:
    """Whether a text is true; anything else is false, as Java's `Boolean.parseBoolean` has it."""
    return text.lower() == "true"
