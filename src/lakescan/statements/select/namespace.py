"""`USE`: the current catalog and namespace of queries in this process."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from lakescan.catalogs.lookup import translate_catalog_errors
from lakescan.catalogs.registry import catalog_names, connection, is_known
from lakescan.common.identifiers import Identifier
from lakescan.errors import NoSuchCatalog, NoSuchNamespace, nearest
from lakescan.statements.syntax.token_reader import TokenReader

_NO_VALUES: Mapping[str, Any] = MappingProxyType({})
_CURRENT: ContextVar[tuple[str, ...]] = ContextVar("lakescan_namespace", default=())


def current_namespace() -> tuple[str, ...]:
    """Return the catalog and the parts of the namespace that `USE` set; empty if it was not used."""
    return _CURRENT.get()


def use(text: str, values: Mapping[str, Any] = _NO_VALUES) -> None:
    """Run `USE catalog.namespace` in this process. `values` are the statement's parameters, by name.

    Raises `InvalidStatement`, `NoSuchCatalog` and `NoSuchNamespace`.
    """
    _CURRENT.set(namespace_of(use_target(text, values), _CURRENT.get()))


@dataclass(frozen=True)
class UseTarget:
    """The name in a `USE` statement.

    - `names`: its parts.
    - `is_namespace`: whether it must be a namespace of the current catalog (`USE SCHEMA name`).
    """

    names: tuple[str, ...]
    is_namespace: bool = False


def namespace_of(target: UseTarget, current: tuple[str, ...]) -> tuple[str, ...]:
    """Return the catalog and namespace that `USE` sets.

    The target may name a catalog, a catalog and a namespace, or a namespace of the `current` catalog. Raises
    `NoSuchNamespace`, and `NoSuchCatalog` if the first part is not a registered catalog and `current` is empty.
    """
    names = target.names
    if target.is_namespace:
        if not current:
            name = ".".join(names)
            raise NoSuchCatalog(
                f"USE NAMESPACE {name!r} needs a current catalog, and none is set: write USE catalog.namespace"
            )
        return _existing((current[0], *names))
    if is_known(names[0]):
        return _existing(names)
    if current:
        return _existing((current[0], *names))
    raise NoSuchCatalog(
        f"no catalog {names[0]!r} is known.{nearest(names[0], catalog_names())} Known: "
        f"{', '.join(catalog_names()) or 'none'}; see "
        "lakescan.catalog"
    )


def use_target(text: str, values: Mapping[str, Any] = _NO_VALUES) -> UseTarget:
    """Parse `USE [NAMESPACE | DATABASE | SCHEMA] name`; raises `InvalidStatement`.

    The name may be `IDENTIFIER(:name)`, with its value in `values`.

    Example:
        >>> use_target("USE lake.shop").names
        ('lake', 'shop')
    """
    words = TokenReader(text, values)
    words.needs("USE")
    is_namespace = False
    for each in ("NAMESPACE", "DATABASE", "SCHEMA"):
        if words.sees(each) and words.at + 1 < len(words.words) and words.words[words.at + 1].text != ".":
            words.takes(each)
            is_namespace = True
            break
    names = words.names("catalog.namespace")
    words.ends()
    return UseTarget(names, is_namespace)


def _existing(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return `names`, a catalog and the parts of a namespace; raises `NoSuchNamespace` if it does not exist."""
    catalog, within = names[0], names[1:]
    with translate_catalog_errors(Identifier(catalog, within, "")):
        if not within or connection(catalog).namespace_exists(within):
            return names
        beside = connection(catalog).list_namespaces(within[:-1])
    hint = nearest(".".join(within), [".".join(each) for each in beside])
    if is_known(within[0]):
        hint += f" {within[0]!r} is a catalog: USE {'.'.join(within)}."
    raise NoSuchNamespace(f"the catalog {catalog} has no namespace {'.'.join(within)!r}.{hint}")
