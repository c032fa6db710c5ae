"""Written data files and delete files as rows of `data_file`, by partition spec."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from lakescan.common import types as t
from lakescan.errors import CommitConflict
from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.manifests.codes import DATA_FILE
from lakescan.iceberg.manifests.manifest_writer import data_file_fields
from lakescan.iceberg.scan.partition_key import add_partition_key
from lakescan.writing.table_writes import WrittenFile

_PARTITIONS = pa.schema([pa.field("partition_key", pa.string()), pa.field("spec_id", pa.int32())])
_LATEST = 3
_STATS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")


def added_files(files: Iterable[WrittenFile], base: CommitBase) -> dict[int, pa.Table]:
    """Return data files, or delete files (by their `content`), by partition spec id.

    Files stay in the partitions that they were written for: the table may have another default spec by now, but it
    keeps the old ones. Raises `CommitConflict` if it does not.
    """
    by_spec: dict[int, list[WrittenFile]] = {}
    for each in files:
        by_spec.setdefault(each.details["spec_id"], []).append(each)
    if unknown := by_spec.keys() - base.metadata.specs.keys():
        raise CommitConflict(
            f"{base.metadata.location}: another writer removed the partition spec {min(unknown)}: write the rows again"
        )
    return {spec_id: _table(some, base, spec_id) for spec_id, some in by_spec.items()}


def written_partitions(files: Iterable[WrittenFile], base: CommitBase) -> pa.Table:
    """The partitions of written files, with the columns `spec_id` and `partition_key`."""
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
    for field in data_file_fields(partition, _LATEST):
        if field.name in columns:
            continue
        kind = field.type.arrow()
        values = [each.details.get(field.name) for each in files]
        if field.name in _STATS:
            values = [None if not value else sorted(value.items()) for value in values]
        columns[field.name] = pa.array(values, kind)
    return pa.table(columns)


def _partitions(files: list[WrittenFile], partition: t.Struct) -> pa.StructArray:
    """Partition values from keys, in which dates and times are numbers."""
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
