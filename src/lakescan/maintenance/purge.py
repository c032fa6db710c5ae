"""Purge: drop an Iceberg table with its files, except files that another table of the catalog references."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import translated
from lakescan.catalogs.other_tables import named_by, tables_that_may_share
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.iceberg.scan.named_files import named_files
from lakescan.options.write import WriteOptions
from lakescan.storage.removal import in_folders, remove_unnamed, unnamed
from lakescan.transaction.iceberg import IcebergTarget

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_LOG = logging.getLogger("lakescan")


def purge_table(catalog: Catalog, identifier: Identifier) -> list[str]:
    """Drop a table and remove the files that its metadata references; return the locations of the removed files.

    Files that other tables of the catalog reference are kept, of tables whose location or folder properties reach into
    the folders of this one. Files in other folders than the table's own are kept, too: they were added from there
    (`add_files`), and may be files of others, whether a catalog knows these or not. Iceberg's JVM removes them. A
    catalog server is asked to purge the table itself; the result is then empty. The references are read before the
    table is dropped. Raises `UnsupportedFeature` for a table whose `gc.enabled` is false, or that the catalog also has
    under another name.
    """
    from pyiceberg.catalog import MetastoreCatalog

    target = IcebergTarget.open(identifier, WriteOptions())
    target.check_owned("purging")
    with translated(identifier):
        if not isinstance(catalog, MetastoreCatalog):
            catalog.purge_table(identifier.within)
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
        paths = pc.unique(pa.concat_arrays([each.cast(pa.string()) for each in named_files(target.opened)]))
        is_own = in_folders(target.storage, paths, metadata.own_folders)
        files, foreign = paths.filter(is_own).to_pylist(), paths.filter(pc.invert(is_own))
        # Reads the other tables once before the drop, so that one that cannot be read prevents it.
        unnamed(target.storage, files, named_by(neighbours, target.storage))
        catalog.drop_table(identifier.within)
        _check_gone(catalog, identifier)
    if len(foreign):
        _LOG.warning(
            "%s: %d files in other folders were added from there and are kept, %s among them",
            identifier,
            len(foreign),
            foreign[0],
        )
    return remove_unnamed(target.storage, files, lambda: named_by(neighbours, target.storage))


def _check_gone(catalog: Catalog, identifier: Identifier) -> None:
    if catalog.table_exists(identifier.within):
        raise CommitConflict(f"{identifier} was recreated while it was dropped: its files are kept")
