"""Adding files that other writers wrote to a table, where they are: one append, which reads nothing but footers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.common.schema import FieldMatching
from lakescan.errors import CommitConflict, InvalidOption, UnsupportedFeature
from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.live_files import find_live_files
from lakescan.iceberg.commit.outcomes import wait_before_retry
from lakescan.iceberg.commit.publish import commit_snapshot
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.commit.written_files import added_files
from lakescan.iceberg.data_files.foreign_files import ForeignFiles, as_data_files, spec_for
from lakescan.iceberg.metadata.name_mapping import PROPERTY, field_matching, field_paths, name_mapping_text
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table


def add_files(
    table: Table,
    opened: IcebergTable,
    folder: str,
    partitions: Mapping[str, str],
    storage: Storage,
    retries: RetryPolicy,
    *,
    check_duplicates: bool = True,
    only: Sequence[str] | None = None,
) -> Mapping[str, str]:
    """Add the Parquet files under a folder, or one file. Returns the summary of the new snapshot.

    The partition of a file is that of its folders (`day=2026-01-31`), of which `partitions` choose some by name. `only`
    are the locations of the files to take, if not all. If
    files have no field ids, the table gets a name mapping in the same commit. Raises `InvalidOption` if a file is one
    of the table's already, `SchemaMismatch`, `UnsupportedFeature`, `CommitConflict`.
    """
    metadata = opened.metadata
    if metadata.table_properties.is_encrypted:
        raise UnsupportedFeature(
            f"adding plain files to the encrypted table {metadata.location}", "Read them, and append their rows."
        )
    schema, known = metadata.schema, set(metadata.snapshots)
    found = ForeignFiles.list_folder(folder, storage)
    found = found if only is None else found.select_files(only, storage)
    spec = spec_for(found, metadata.specs, metadata.default_spec_id, schema)
    if partitions:
        found = found.matching(partitions, schema, spec)
        if not found.entries:
            raise InvalidOption(f"no file of {folder} is in the partitions that partition_filter names: {partitions}")
    matching = field_matching(metadata)
    if metadata.table_properties.name_mapping is None:
        matching = FieldMatching(by_id=True, name_mapping=dict(field_paths(schema.fields)))
    properties, names = metadata.table_properties, _historical_names(metadata)
    files, is_nameless = as_data_files(found, spec, schema, matching, properties, storage, names)
    attempts, at, now = Attempts(retries), copy(table), opened
    while True:
        if now.metadata.current_schema_id != metadata.current_schema_id:
            raise CommitConflict(f"{metadata.location}: another writer changed the columns. Add the files again.")
        base = CommitBase(now.metadata, at.metadata)
        if check_duplicates:
            _check_new(files, base, storage)
        producer = SnapshotProducer(base, storage, "append", SnapshotChanges(added_files(files, base)))
        then = (
            _name_mapping_update(schema.fields)
            if is_nameless and now.metadata.table_properties.name_mapping is None
            else []
        )
        failed = commit_snapshot(at, producer, known, storage, then, [_schema_requirement(at)])
        if failed is None:
            return producer.summary
        wait_before_retry(attempts, ".".join(table.name()), failed)
        at, now = failed.table, failed.now


def _historical_names(metadata: TableMetadata) -> dict[int, set[str]]:
    """The names that each field has had, by its id: files of the table itself have those of their time."""
    names: dict[int, set[str]] = {}
    for schema in metadata.schemas.values():
        for field in schema.by_id.values():
            names.setdefault(field.id, set()).add(field.name)
    return names


def _check_new(files: Iterable[WrittenFile], base: CommitBase, storage: Storage) -> None:
    """Raise `InvalidOption` if one of the files is a data file of the table, in any spelling of its location."""
    there = find_live_files(pa.array([each.location for each in files], pa.string()), base, storage)
    if len(there):
        raise InvalidOption(
            f"{there[0].as_py()} is a data file of {base.metadata.location} already: its rows would be there twice. "
            "Nothing was added; check_duplicate_files => false adds it all the same"
        )


def _name_mapping_update(fields: Iterable[t.Field]) -> list[Any]:
    """The update that sets the table's name mapping to the names of its columns."""
    from pyiceberg.table.update import SetPropertiesUpdate

    return [SetPropertiesUpdate(updates={PROPERTY: name_mapping_text(fields)})]


def _schema_requirement(table: Table) -> Any:
    from pyiceberg.table.update import AssertCurrentSchemaId

    return AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id)
