"""The other tables of a catalog that may reference files in some folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.catalogs.identifiers import Identifier
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.scan.named_files import named_files
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.locations import may_overlap

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


def tables_that_may_share(catalog: Catalog, identifier: Identifier, folders: Sequence[str], doing: str) -> list[Table]:
    """The other tables, in all namespaces, that may reference files in folders of the table `identifier`.

    So may a table that has a folder within one of these, or around one; one that does not own its files; and the same
    table under another name. Raises `UnsupportedFeature` if a table cannot be opened; `doing` begins its message.
    """
    uuid = catalog.load_table(identifier.within).metadata.table_uuid
    return [
        each
        for each in _others(catalog, identifier, doing)
        if each.metadata.table_uuid == uuid or _reaches(each, folders)
    ]


def _others(catalog: Catalog, identifier: Identifier, doing: str) -> Iterator[Table]:
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
                        f"{doing} {identifier} while {'.'.join(name)} may reference its files",
                        f"That table cannot be opened: {error}",
                    ) from error


def _reaches(table: Table, folders: Sequence[str]) -> bool:
    properties = IcebergProperties(table.metadata.properties, ".".join(table.name()))
    theirs = (table.metadata.location, *properties.folders)
    return not properties.owns_files or any(may_overlap(one, other) for one in theirs for other in folders)


def named_by(tables: Iterable[Table], storage: Storage) -> Iterator[pa.Array]:
    """The files that tables reference now; for a table dropped meanwhile, those that it referenced before."""
    from pyiceberg.exceptions import NoSuchTableError

    for table in tables:
        with suppress(NoSuchTableError):
            table.refresh()
        yield from named_files(IcebergTable.open(table.metadata_location, storage))
