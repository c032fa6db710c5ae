"""`USE`: the catalog and namespace of short names, for queries in this process."""

from __future__ import annotations

from contextvars import ContextVar

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import translated
from lakescan.catalogs.registry import connection, is_known, known
from lakescan.errors import InvalidStatement, NoSuchCatalog, NoSuchNamespace, nearest
from lakescan.query.statement import parsed

_CURRENT: ContextVar[tuple[str, ...]] = ContextVar("lakescan_namespace", default=())


def current_namespace() -> tuple[str, ...]:
    """The catalog, and the parts of the namespace, that `USE` set; empty before."""
    return _CURRENT.get()


def use(text: str) -> None:
    """Run `USE catalog.namespace`."""
    _CURRENT.set(namespace_of(text, _CURRENT.get()))


def namespace_of(text: str, current: tuple[str, ...]) -> tuple[str, ...]:
    """What `USE` names: a catalog, one and a namespace, or a namespace of the current catalog.

    Raises `NoSuchCatalog`, `NoSuchNamespace`.
    """
    tree = parsed(text)
    if tree.key != "use" or tree.this is None:
        raise InvalidStatement(f"USE takes catalog.namespace: {text!r}")
    names = tuple(part.name for part in tree.this.parts)
    if is_known(names[0]):
        return _existing(names)
    if current:
        return _existing((current[0], *names))
    raise NoSuchCatalog(
        f"no catalog {names[0]!r} is known.{nearest(names[0], known())} Known: {', '.join(known()) or 'none'}; see "
        "lakescan.catalog"
    )


def _existing(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names; raises `NoSuchNamespace` if the catalog has no such namespace."""
    catalog, within = names[0], names[1:]
    with translated(Identifier(catalog, within, "")):
        if not within or connection(catalog).namespace_exists(within):
            return names
        beside = connection(catalog).list_namespaces(within[:-1])
    hint = nearest(".".join(within), [".".join(each) for each in beside])
    raise NoSuchNamespace(f"the catalog {catalog} has no namespace {'.'.join(within)!r}.{hint}")
