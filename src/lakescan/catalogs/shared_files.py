"""Finds a catalog's other tables that may reference files in given folders, and tables inside a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import as_array
from lakescan.common.identifiers import Identifier
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.commit.reachable_files import reachable_files
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.listing import list_files
from lakescan.storage.locations import may_overlap, normal, normalize

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_ICEBERG = re.compile(r"(.*)/metadata/[^/]+\.metadata\.json(?:\.gz)?")
_DELTA = re.compile(r"(.*)/_delta_log/[^/]+")
_OF_TABLES = r"/metadata/[^/]+\.metadata\.json(?:\.gz)?$|/_delta_log/[^/]+$"


def tables_that_may_share(catalog: Catalog, identifier: Identifier, folders: Sequence[str], doing: str) -> list[Table]:
    """Return the other Iceberg tables, in all namespaces, that may reference files in folders of a table.

    `identifier` is the table, and `folders` are its folders. The others are tables with a folder inside or around one
    of them, tables that do not own their files, and the same table under another name. Raises `UnsupportedFeature` if a
    table cannot be opened; its message starts with `doing`.
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


def referenced_files(tables: Iterable[Table], storage: Storage) -> Iterator[pa.Array]:
    """Yield the locations of the files that pyiceberg tables currently reference, in Arrow arrays.

    For a dropped table, yields those of its last known state.
    """
    from pyiceberg.exceptions import NoSuchTableError

    for table in tables:
        with suppress(NoSuchTableError):
            table.refresh()
        yield from reachable_files(IcebergTable.open(table.metadata_location, storage))


def metadata_of_tables(files: pa.Table) -> pa.Table:
    """Return the rows of a listing (schema `listing.LISTED`) that are Iceberg metadata files or in a Delta log."""
    return files.filter(pc.match_substring_regex(as_array(files["location"]), _OF_TABLES))


def table_folders(files: pa.Table) -> set[str]:
    """Return the normalized locations of the tables in a listing, found by Iceberg metadata files or a Delta log."""
    places = normalize(metadata_of_tables(files)["location"])
    return {hit[1] for each in places.to_pylist() for kind in (_ICEBERG, _DELTA) if (hit := kind.fullmatch(each))}


def tables_inside(storage: Storage, folder: str) -> list[str]:
    """Return the normalized locations of the tables below a folder, except the folder itself, sorted.

    Lists all files of the folder.
    """
    found = set[str]().union(*(table_folders(part) for part in list_files(storage, folder)))
    return sorted(found - {normal(storage.current_location(folder))})
