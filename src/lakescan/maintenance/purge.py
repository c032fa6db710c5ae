"""Purge: drop an Iceberg table with its files, except files that another table of the catalog references."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.catalogs.lookup import translated
from lakescan.catalogs.other_tables import named_by, tables_that_may_share
from lakescan.catalogs.outcomes import settled
from lakescan.common.identifiers import Identifier
from lakescan.common.retries import read_again
from lakescan.errors import CommitConflict, StorageError, UnsupportedFeature
from lakescan.iceberg.maintenance.reachable_files import named_files
from lakescan.iceberg.maintenance.tables_in_folder import named_by_copies
from lakescan.iceberg.target import IcebergTarget
from lakescan.maintenance.listing import neighbours as neighbouring_metadata
from lakescan.options.write import WriteOptions
from lakescan.storage.removal import in_folders, remove_unnamed, unnamed

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_LOG = logging.getLogger("lakescan")


def purge_table(catalog: Catalog, identifier: Identifier) -> list[str]:
    """Drop a table and remove the files that its metadata references; return the locations of the removed files.

    Files that other tables of the catalog reference are kept, of tables whose location or folder properties reach into
    the folders of this one. Files in other folders than the table's own are kept, too: they were added from there
    (`add_files`), and may be files of others, whether a catalog knows these or not. So are those that a copy of the
    table references whose metadata is in its folder. Iceberg's JVM removes them. A
    catalog server is asked to purge the table itself; the result is then empty. The references are read before the
    table is dropped. Raises `UnsupportedFeature` for a table whose `gc.enabled` is false, or that the catalog also has
    under another name.
    """
    from pyiceberg.catalog import MetastoreCatalog

    target = IcebergTarget.open(identifier, WriteOptions())
    target.check_owned("purging")
    with translated(identifier):

        def is_gone() -> bool | None:
            return True if _uuid_now(catalog, identifier) != target.identity else None

        if not isinstance(catalog, MetastoreCatalog):
            settled(f"purging {identifier}", lambda: catalog.purge_table(identifier.within), is_gone)
            return []
        metadata = target.opened.metadata
        folders = [metadata.location, *metadata.table_properties.folders]
        neighbours = tables_that_may_share(catalog, identifier, folders, "purging")
        for other in neighbours:
            if str(other.metadata.table_uuid) == target.identity:
                raise UnsupportedFeature(
                    f"purging {identifier}, which is also registered as {'.'.join(other.name())}",
                    "Drop one of the names without purging.",
                )
        rules, storage = target.file_rules(), target.storage
        copies = neighbouring_metadata(storage, rules)

        def named() -> Iterator[pa.Array]:
            yield from named_by(neighbours, storage)
            yield from named_by_copies(target.opened, copies)

        paths = pc.unique(pa.concat_arrays([each.cast(pa.string()) for each in named_files(target.opened)]))
        is_own = in_folders(target.storage, paths, metadata.own_folders)
        files, foreign = paths.filter(is_own).to_pylist(), paths.filter(pc.invert(is_own))
        # Reads the other tables once before the drop, so that one that cannot be read prevents it.
        unnamed(storage, files, named())
        settled(f"dropping {identifier}", lambda: catalog.drop_table(identifier.within), is_gone)
        read_again(lambda: _check_gone(catalog, identifier), f"{identifier} is dropped, and its files are kept")
    if len(foreign):
        _LOG.warning(
            "%s: %d files in other folders were added from there and are kept, %s among them",
            identifier,
            len(foreign),
            foreign[0],
        )
    try:
        return remove_unnamed(storage, files, named)
    except StorageError as error:
        _LOG.warning("%s is dropped, and %d of its files may be left: %s", identifier, len(files), error)
        return []


def _uuid_now(catalog: Catalog, identifier: Identifier) -> str | None:
    """The table uuid that a name has now; None if no table has it."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return str(catalog.load_table(identifier.within).metadata.table_uuid)
    except NoSuchTableError:
        return None


def _check_gone(catalog: Catalog, identifier: Identifier) -> None:
    with translated(identifier):
        is_there = _uuid_now(catalog, identifier) is not None
    if is_there:
        raise CommitConflict(f"{identifier} was recreated while it was dropped: its files are kept")
