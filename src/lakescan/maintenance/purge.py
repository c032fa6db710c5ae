"""Purge: drop an Iceberg table with its files, except files that another table of the catalog references."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import translated
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.scan.named_files import named_files
from lakescan.iceberg.table import IcebergTable
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.storage.locations import is_in, normal
from lakescan.storage.removal import remove_unnamed, unnamed
from lakescan.transaction.iceberg import IcebergTarget

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def purge_table(catalog: Catalog, identifier: Identifier) -> list[str]:
    """Drop a table and remove the files that its metadata references; return the locations of the removed files.

    Files that other tables of the catalog reference are kept. A catalog server is asked to purge the table itself; the
    result is then empty. The references are read before the table is dropped. Raises `UnsupportedFeature` for a table
    whose `gc.enabled` is false, or that the catalog also has under another name.
    """
    from pyiceberg.catalog import MetastoreCatalog

    target = IcebergTarget.open(identifier, WriteOptions())
    target.check_owned("purging")
    with translated(identifier):
        if not isinstance(catalog, MetastoreCatalog):
            catalog.purge_table(identifier.within)
            return []
        neighbours = [each for each in _others(catalog, identifier) if _may_share(target, each)]
        for other in neighbours:
            if str(other.metadata.table_uuid) == target.identity:
                raise UnsupportedFeature(
                    f"purging {identifier}, which is also registered as {'.'.join(other.name())}",
                    "Drop one of the names without purging.",
                )
        files = list(dict.fromkeys(path for part in named_files(target.opened) for path in part.to_pylist()))
        # Reads the other tables once before the drop, so that one that cannot be read prevents it.
        unnamed(target.storage, files, _named_by(neighbours, target.storage))
        catalog.drop_table(identifier.within)
        _check_gone(catalog, identifier)
    return remove_unnamed(target.storage, files, lambda: _named_by(neighbours, target.storage))


def _others(catalog: Catalog, identifier: Identifier) -> Iterator[Table]:
    """The other tables of a catalog, in all namespaces."""
    from pyiceberg.exceptions import NoSuchTableError

    waiting = list(catalog.list_namespaces())
    while waiting:
        namespace = waiting.pop()
        waiting += [each for each in catalog.list_namespaces(namespace) if len(each) > len(namespace)]
        for name in catalog.list_tables(namespace):
            if tuple(name) != tuple(identifier.within):
                try:
                    yield catalog.load_table(name)
                except NoSuchTableError:
                    continue
                except Exception as error:
                    raise UnsupportedFeature(
                        f"purging {identifier} while {'.'.join(name)} may reference its files",
                        f"That table cannot be opened: {error}",
                    ) from error


def _may_share(target: IcebergTarget, other: Table) -> bool:
    """Whether another table may reference files of the target.

    So it may if it is the same table, does not own its files, or if one location contains the other.
    """
    mine, theirs = normal(target.opened.metadata.location), normal(other.metadata.location)
    owns_none = not IcebergProperties(other.metadata.properties, ".".join(other.name())).owns_files
    is_near = mine == theirs or is_in(mine, theirs) or is_in(theirs, mine)
    return owns_none or is_near or str(other.metadata.table_uuid) == target.identity


def _check_gone(catalog: Catalog, identifier: Identifier) -> None:
    if catalog.table_exists(identifier.within):
        raise CommitConflict(f"{identifier} was recreated while it was dropped: its files are kept")


def _named_by(tables: list[Table], storage: Storage) -> Iterator[pa.Array]:
    """The files that other tables reference now; for a table dropped meanwhile, those that it referenced before."""
    from pyiceberg.exceptions import NoSuchTableError

    for table in tables:
        with suppress(NoSuchTableError):
            table.refresh()
        yield from named_files(IcebergTable.open(table.metadata_location, storage))
