"""`USE`: the catalog and namespace of short names, for queries in this process."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import translated
from lakescan.catalogs.registry import connection, is_known, known
from lakescan.errors import NoSuchCatalog, NoSuchNamespace, nearest
from lakescan.grammar.words import Words

_NO_VALUES: Mapping[str, Any] = MappingProxyType({})
_CURRENT: ContextVar[tuple[str, ...]] = ContextVar("lakescan_namespace", default=())


def current_namespace() -> tuple[str, ...]:
    """The catalog, and the parts of the namespace, that `USE` set; empty before."""
    return _CURRENT.get()


def use(text: str, values: Mapping[str, Any] = _NO_VALUES) -> None:
    """Run `USE catalog.namespace`; `values` are those of parameters, by name."""
    _CURRENT.set(namespace_of(names_of_use(text, values), _CURRENT.get()))


def namespace_of(names: tuple[str, ...], current: tuple[str, ...]) -> tuple[str, ...]:
    """What the names of `USE` are: a catalog, one and a namespace, or a namespace of the current catalog.

    Raises `NoSuchCatalog`, `NoSuchNamespace`.
    """
    if is_known(names[0]):
        return _existing(names)
    if current:
        return _existing((current[0], *names))
    raise NoSuchCatalog(
        f"no catalog {names[0]!r} is known.{nearest(names[0], known())} Known: {', '.join(known()) or 'none'}; see "
        "lakescan.catalog"
    )


def names_of_use(text: str, values: Mapping[str, Any] = _NO_VALUES) -> tuple[str, ...]:
    """The parts of the name in `USE [NAMESPACE | DATABASE | SCHEMA] name`; raises `InvalidStatement`.

    The name may be `IDENTIFIER(:name)`, with its value in `values`.

    Example:
        >>> names_of_use("USE NAMESPACE lake.shop")
        ('lake', 'shop')
    """
    words = Words(text, values)
    words.needs("USE")
    for each in ("NAMESPACE", "DATABASE", "SCHEMA"):
        if words.sees(each) and words.at + 1 < len(words.words) and words.words[words.at + 1].text != ".":
            words.takes(each)
            break
    names = words.names("catalog.namespace")
    words.ends()
    return names


def _existing(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names; raises `NoSuchNamespace` if the catalog has no such namespace."""
    catalog, within = names[0], names[1:]
    with translated(Identifier(catalog, within, "")):
        if not within or connection(catalog).namespace_exists(within):
            return names
        beside = connection(catalog).list_namespaces(within[:-1])
    hint = nearest(".".join(within), [".".join(each) for each in beside])
    raise NoSuchNamespace(f"the catalog {catalog} has no namespace {'.'.join(within)!r}.{hint}")
