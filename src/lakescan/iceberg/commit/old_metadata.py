"""Old metadata files, which commits remove if `write.metadata.delete-after-commit.enabled` is true."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.iceberg.maintenance.reachable_files import named_by_metadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.removal import remove_unnamed

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LOG = logging.getLogger("lakescan")


def remove_old_metadata(before: Table, metadata: Any, location: str, storage: Storage) -> None:
    """Remove the metadata files that a commit dropped from the log of metadata files, if the table asks for it.

    `before` is the table that was committed to, `metadata` (pyiceberg's) and `location` are those that the commit made.
    For other catalogs than pyiceberg's own, the server does this. Files of a table that does not own them
    (`gc.enabled`) stay. Never raises: the commit is made.
    """
    from pyiceberg.catalog import MetastoreCatalog

    where = ".".join(before.name())
    properties = IcebergProperties(metadata.properties, where)
    owns_log = isinstance(before.catalog, MetastoreCatalog) and properties.owns_files
    if not (owns_log and properties.removes_metadata):
        return
    kept = {each.metadata_file for each in metadata.metadata_log}
    known = (*(each.metadata_file for each in before.metadata.metadata_log), before.metadata_location)
    dropped = [each for each in known if each not in kept and each != location]
    try:
        remove_unnamed(
            storage, dropped, lambda: [pa.array(named_by_metadata(IcebergTable.open(location, storage)), pa.string())]
        )
    except Exception as error:
        _LOG.warning("%s: old metadata files were not removed: %s", where, error)
