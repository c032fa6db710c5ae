"""The file changes of one snapshot, as pure data that any process can create."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from lakescan.common import types as t
from lakescan.errors import CommitConflict
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.manifests.manifest_file import DATA_FILE
from lakescan.iceberg.manifests.manifest_writer import data_file_fields
from lakescan.iceberg.metadata.partition_spec import add_partition_key
from lakescan.writing.table_writes import WrittenFile

DELETE_FILES = pa.schema([pa.field("path", pa.string()), pa.field("content_offset", pa.int64())])


@dataclass(frozen=True)
class SnapshotChanges:
    """The changes of a snapshot.

    - `added`, `added_deletes`: data files and delete files by partition spec id, with the columns of `data_file`.
    - `removed`: locations of data files.
    - `removed_deletes`: delete files (`path`, and `content_offset`, null except for deletion vectors).
    - `unused_deletes`: more delete files to remove if they still exist, because no data file needs them.
    - `sequence_number`: the data sequence number of added data files, or None for the snapshot's own. Rewritten files
      keep the number at which their rows were read, so that later equality deletes still apply.
    - `deletes_sequence_number`: the data sequence number of added delete files, or None for the snapshot's own.
    - `replaces_positions`: position delete files among `removed_deletes` may already have been removed by a concurrent
      commit, because the added delete files delete all their rows.
    - `removes_all`: remove all data files and delete files of the branch.
    """

    added: Mapping[int, pa.Table] = field(default_factory=dict)
    removed: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    added_deletes: Mapping[int, pa.Table] = field(default_factory=dict)
    removed_deletes: pa.Table = field(default_factory=DELETE_FILES.empty_table)
    unused_deletes: pa.Table = field(default_factory=DELETE_FILES.empty_table)
    sequence_number: int | None = None
    deletes_sequence_number: int | None = None
    replaces_positions: bool = False
    removes_all: bool = False


_PARTITIONS = pa.schema([pa.field("partition_key", pa.string()), pa.field("spec_id", pa.int32())])
_LATEST = 3
_STATS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def added_files(files: Iterable[WrittenFile], base: CommitBase) -> dict[int, pa.Table]:
    """Return data files, or delete files (by their `content`), by partition spec id.

    Files keep the partition spec that they were written for, which may no longer be the default. Raises
    `CommitConflict` if the table no longer has that spec.
    """
    by_spec: dict[int, list[WrittenFile]] = {}
    for each in files:
        by_spec.setdefault(each.details["spec_id"], []).append(each)
    if unknown := by_spec.keys() - base.metadata.specs.keys():
        raise CommitConflict(
            f"{base.metadata.location}: another writer removed the partition spec {min(unknown)}. Write the rows again"
        )
    return {spec_id: _table(some, base, spec_id) for spec_id, some in by_spec.items()}


def written_partitions(files: Iterable[WrittenFile], base: CommitBase) -> pa.Table:
    """Return the partitions of written files, with the columns `spec_id` and `partition_key`."""
    tables = [
        add_partition_key(pa.table({"partition": each["partition"]}))
        .select(["partition_key"])
        .append_column("spec_id", pa.repeat(pa.scalar(spec_id, pa.int32()), each.num_rows))
        for spec_id, each in added_files(files, base).items()
    ]
    return pa.concat_tables([_PARTITIONS.empty_table(), *tables])


def _table(files: list[WrittenFile], base: CommitBase, spec_id: int) -> pa.Table:
    partition = base.writer(spec_id).partition
    columns = {
        "content": pa.array([each.details.get("content", DATA_FILE) for each in files], pa.int32()),
        "file_path": pa.array([each.location for each in files]),
        "file_format": pa.array([each.details.get("file_format", "PARQUET") for each in files]),
        "partition": _partitions(files, partition),
        "record_count": pa.array([each.rows for each in files], pa.int64()),
        "file_size_in_bytes": pa.array([each.size for each in files], pa.int64()),
    }
    for member in data_file_fields(partition, _LATEST):
        if member.name in columns:
            continue
        kind = member.type.arrow()
        values = [each.details.get(member.name) for each in files]
        if member.name in _STATS:
            values = [None if not value else sorted(value.items()) for value in values]
        columns[member.name] = pa.array(values, kind)
    return pa.table(columns)


def _partitions(files: list[WrittenFile], partition: t.Struct) -> pa.StructArray:
    """Return an Arrow struct of each file's partition values, from its key, which has dates and times as numbers."""
    members = [
        _values([each.key[place] for each in files], field.type.arrow()) for place, field in enumerate(partition.fields)
    ]
    if not members:
        return pa.array([{}] * len(files), pa.struct([]))
    return pa.StructArray.from_arrays(members, names=[field.name for field in partition.fields])


def _values(values: list[object], kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.ExtensionType):
        kind = kind.storage_type
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)
