"""`USE`: the catalog and namespace of short names, for queries in this process."""

from __future__ import annotations

from contextvars import ContextVar

from lakescan.catalogs.registry import is_known, known
from lakescan.errors import InvalidStatement, NoSuchCatalog, nearest
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

    Raises `NoSuchCatalog`.
    """
    tree = parsed(text)
    if tree.key != "use" or tree.this is None:
        raise InvalidStatement(f"USE takes catalog.namespace: {text!r}")
    names = tuple(part.name for part in tree.this.parts)
    if is_known(names[0]):
        return names
    if current:
        return (current[0], *names)
    raise NoSuchCatalog(
        f"no catalog {names[0]!r} is known.{nearest(names[0], known())} Known: {', '.join(known()) or 'none'}; see "
        "lakescan.catalog"
    )
