"""Purge: drop an Iceberg table and delete its files, except files that another table of the catalog references."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.catalogs.committer import CatalogCommitter
from lakescan.catalogs.lookup import translate_catalog_errors
from lakescan.catalogs.lost_answers import commit_change
from lakescan.catalogs.shared_files import referenced_files, tables_that_may_share
from lakescan.common.identifiers import Identifier
from lakescan.common.retries import retry_read
from lakescan.errors import CommitConflict, StorageError, UnsupportedFeature
from lakescan.iceberg.commit.reachable_files import reachable_files
from lakescan.iceberg.maintenance.tables_in_folder import copy_files
from lakescan.iceberg.target import IcebergTarget
from lakescan.maintenance.listing import metadata_in_folder as neighbouring_metadata
from lakescan.options.write import WriteOptions
from lakescan.storage.removal import folder_mask, remove_unreferenced_files, unreferenced_files

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_LOG = logging.getLogger("lakescan")


def purge_table(catalog: Catalog, identifier: Identifier) -> list[str]:
    """Drop a table and delete the files that its metadata references; return the locations of the deleted files.

    A catalog server purges the table itself, and the result is empty. For other catalogs, these files are kept,
    although Iceberg's Java implementation deletes them:

    - files that other tables of the catalog reference whose location or folder properties overlap with the table's
      folders;
    - files outside the table's own folders, which were added from there (`add_files`) and may belong to others;
    - files that a copy of the table references whose metadata is in its folder.

    The references are read before the table is dropped. Raises `UnsupportedFeature` for a table with `gc.enabled`
    false, or that the catalog also has under another name.
    """
    from pyiceberg.catalog import MetastoreCatalog

    target = IcebergTarget.open(CatalogCommitter(identifier), WriteOptions())
    target.check_owned("purging")
    with translate_catalog_errors(identifier):

        def is_gone() -> bool | None:
            return True if _current_uuid(catalog, identifier) != target.identity else None

        if not isinstance(catalog, MetastoreCatalog):
            commit_change(f"purging {identifier}", lambda: catalog.purge_table(identifier.within), is_gone)
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

        def other_references() -> Iterator[pa.Array]:
            yield from referenced_files(neighbours, storage)
            yield from copy_files(target.opened, copies)

        paths = pc.unique(pa.concat_arrays([each.cast(pa.string()) for each in reachable_files(target.opened)]))
        is_own = folder_mask(target.storage, paths, metadata.own_folders)
        files, foreign = paths.filter(is_own).to_pylist(), paths.filter(pc.invert(is_own))
        # Reads the other tables once before the drop, so that one that cannot be read prevents it.
        unreferenced_files(storage, files, other_references())
        commit_change(f"dropping {identifier}", lambda: catalog.drop_table(identifier.within), is_gone)
        retry_read(lambda: _check_absent(catalog, identifier), f"{identifier} is dropped, and its files are kept")
    if len(foreign):
        _LOG.warning(
            "%s: %d files in other folders were added from there and are kept, %s among them",
            identifier,
            len(foreign),
            foreign[0],
        )
    try:
        return remove_unreferenced_files(storage, files, other_references)
    except StorageError as error:
        _LOG.warning("%s is dropped, and %d of its files may be left: %s", identifier, len(files), error)
        return []


def _current_uuid(catalog: Catalog, identifier: Identifier) -> str | None:
    """Return the UUID of the table that has this name now, or None without one."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        return str(catalog.load_table(identifier.within).metadata.table_uuid)
    except NoSuchTableError:
        return None


def _check_absent(catalog: Catalog, identifier: Identifier) -> None:
    with translate_catalog_errors(identifier):
        is_there = _current_uuid(catalog, identifier) is not None
    if is_there:
        raise CommitConflict(f"{identifier} was recreated while it was dropped: its files are kept")
