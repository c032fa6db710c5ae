"""Compute statistics files of Iceberg tables from rows or manifests, store them, and register them in the metadata."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import empty_table
from lakescan.common.executors import LOCAL, ExchangingExecutor, PlanningExecutor
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.common.schema import Schema
from lakescan.errors import (
    CommitConflict,
    CommitStateUnknown,
    CorruptData,
    InvalidOption,
    MissingFile,
    NoSuchSnapshot,
    UnsupportedFeature,
)
from lakescan.iceberg.commit.commit_snapshot import still_there
from lakescan.iceberg.commit.outcomes import commit, reload_table, wait_before_retry
from lakescan.iceberg.maintenance.statistics.partition_statistics import (
    COUNTS,
    PartitionCounts,
    counts_schema,
    read_counts,
    sum_counts,
    write_counts,
)
from lakescan.iceberg.maintenance.statistics.theta_sketch import ThetaSketch, hash_values, is_hashed
from lakescan.iceberg.manifests.manifest_file import ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_list import own_manifests, snapshot_manifests
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.storage import Storage, join
from lakescan.storage.removal import discard
from lakescan.tables.results import StatisticsResult
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.puffin import PuffinWriter

if TYPE_CHECKING:
    from pyiceberg.table import Table

_LOG = logging.getLogger("lakescan")
_MANY = 64  # count tables summed at once


@dataclass(frozen=True)
class StatisticsTarget:
    """A table whose statistics are computed: `table` is pyiceberg's, and `scan` reads the same metadata."""

    table: Any
    scan: ScanSpec
    metadata: TableMetadata
    storage: Storage
    retries: RetryPolicy

    def snapshot(self, version: int | None) -> IcebergSnapshot | None:
        """Return the snapshot with the id `version`, by default the current one, or None without a current one.

        Raises `NoSuchSnapshot` for an unknown id.
        """
        wanted = self.metadata.current_snapshot_id if version is None else version
        if wanted is None:
            return None
        if wanted not in self.metadata.snapshots:
            raise NoSuchSnapshot(f"{self.metadata.location} has no snapshot {wanted}: see Table.history()")
        return self.metadata.snapshots[wanted]


@dataclass(frozen=True)
class _Sketching:
    """Computes a theta sketch of each column of a task group's rows, in serialized form. Pickled for workers.

    `types` are the Iceberg types of the columns.
    """

    context: ReadContext
    types: tuple[t.Type, ...]

    def __call__(self, group: TaskGroup) -> list[bytes]:
        sketches = [ThetaSketch() for _ in self.types]
        for batch in read_group(group, self.context):
            for place, kind in enumerate(self.types):
                sketches[place] = sketches[place].add_hashes(hash_values(batch.column(place), kind))
        return [each.serialize() for each in sketches]

    def parts(self, group: TaskGroup) -> Iterator[tuple[int, pa.Table]]:
        """Yield each column's number and its sketch in a table of one row, so that workers can merge them by column."""
        for number, sketch in enumerate(self(group)):
            yield number, pa.table({"number": [number], "sketch": pa.array([sketch], pa.binary())})


def _merge_sketches(parts: Iterator[pa.Table]) -> tuple[int, bytes]:
    """Merge the sketches of one column, one at a time; return the number of the column and the sketch."""
    number, whole = -1, ThetaSketch()
    for part in parts:
        number = part["number"][0].as_py()
        whole = whole.union(ThetaSketch.parse(part["sketch"][0].as_py()))
    return number, whole.serialize()


def _sketches(sketching: _Sketching, plan: ScanPlan, executor: PlanningExecutor | None) -> list[ThetaSketch]:
    """Return the sketch of each column over all rows of the plan; without an executor, this process computes them."""
    found = [ThetaSketch() for _ in sketching.types]
    if isinstance(executor, ExchangingExecutor):
        for number, data in executor.exchange(sketching.parts, plan.groups, _merge_sketches, len(found)):
            found[number] = ThetaSketch.parse(data)
        return found
    for parts in (executor or LOCAL).map(sketching, plan.groups):
        found = [one.union(ThetaSketch.parse(other)) for one, other in zip(found, parts, strict=True)]
    return found


def compute_statistics(
    opened: StatisticsTarget, columns: Sequence[str] | None, version: int | None, executor: PlanningExecutor | None
) -> StatisticsResult:
    """Write a sketch of the distinct values of each column; see `MetadataFiles.compute_statistics`.

    The result has no location if the table has no snapshot. Raises the errors of `_choose_fields` and `register`, and
    `NoSuchSnapshot`.
    """
    from pyiceberg.table.statistics import StatisticsFile
    from pyiceberg.table.update import SetStatisticsUpdate

    snapshot = opened.snapshot(version)
    if snapshot is None:
        return StatisticsResult(None)
    scan = opened.scan.as_of(version=snapshot.id)
    fields = _choose_fields(scan.snapshot.schema, columns)
    names = [scan.snapshot.schema.reference_of[each.id] for each in fields]
    scan = scan.select(*names)
    plan = scan.plan()
    sketching = _Sketching(scan.read_context(plan), tuple(each.type for each in fields))
    sketches = _sketches(sketching, plan, executor)
    location = join(opened.metadata.metadata_folder, f"{snapshot.id}-{uuid.uuid4()}.stats")
    by_field = {each.id: sketch for each, sketch in zip(fields, sketches, strict=True)}
    file = write_sketches(by_field, snapshot, location, opened.storage)
    update = SetStatisticsUpdate(statistics=StatisticsFile(**file))
    register(opened.table, update, location, snapshot.id, opened.storage, opened.retries)
    return StatisticsResult(location, {name: each.estimate for name, each in zip(names, sketches, strict=True)})


def _choose_fields(schema: Schema, columns: Sequence[str] | None) -> list[t.Field]:
    """Return the fields with these names, or all columns of primitive types.

    Raises `InvalidOption` for an empty result, `UnsupportedFeature` for types and fields without sketches.
    """
    if columns is None:
        found = [each for each in schema.fields if is_hashed(each.type)]
    else:
        found = list({each.id: each for each in map(schema.field, columns)}.values())
    if not found:
        raise InvalidOption("there are no columns to compute statistics of")
    if wrong := next((each for each in found if not is_hashed(each.type)), None):
        raise UnsupportedFeature(
            f"numbers of distinct values of {schema.path_of[wrong.id]}, which is {wrong.type}",
            "Name columns, or members of structs, of primitive types.",
        )
    if inside := next((each for each in found if schema.struct_path(each.id)[-1].id != each.id), None):
        raise UnsupportedFeature(
            f"numbers of distinct values of {schema.path_of[inside.id]}, which is inside a list or map"
        )
    return found


def compute_partition_statistics(
    opened: StatisticsTarget, version: int | None, executor: PlanningExecutor | None
) -> StatisticsResult:
    """Write the counts of each partition; see `MetadataFiles.compute_partition_statistics`.

    If an ancestor has a partition statistics file, only the manifests since then are read and added to its counts. If
    the snapshot has such a file, it is returned. The result has no location if there are no partitions to count. Raises
    `UnsupportedFeature` for an unpartitioned table, `NoSuchSnapshot`, and the errors of `register`.
    """
    from pyiceberg.table.statistics import PartitionStatisticsFile
    from pyiceberg.table.update import SetPartitionStatisticsUpdate

    metadata, storage = opened.metadata, opened.storage
    if not metadata.partition_type.fields or all(each.is_unpartitioned for each in metadata.specs.values()):
        raise UnsupportedFeature(
            f"partition statistics of {metadata.location}, which is not partitioned",
            "Table.inspect('partitions') counts all of it.",
        )
    snapshot = opened.snapshot(version)
    if snapshot is None:
        return StatisticsResult(None)
    files = {each.snapshot_id: each.statistics_path for each in opened.table.metadata.partition_statistics}
    if snapshot.id in files:
        return StatisticsResult(files[snapshot.id])
    counts = _count_changes(opened, snapshot, files, executor)
    if counts is None:
        manifests = manifest_files(snapshot_manifests(snapshot, metadata, storage))
        counts = _count_manifests(PartitionCounts(metadata, storage), manifests, executor)
    if not counts.num_rows:
        return StatisticsResult(None)
    location = join(metadata.metadata_folder, f"partition-stats-{snapshot.id}-{uuid.uuid4()}.parquet")
    size = write_counts(counts, metadata.partition_type, metadata.format_version, location, storage)
    file = {"snapshot-id": snapshot.id, "statistics-path": location, "file-size-in-bytes": size}
    update = SetPartitionStatisticsUpdate(partition_statistics=PartitionStatisticsFile(**file))
    register(opened.table, update, location, snapshot.id, storage, opened.retries)
    return StatisticsResult(location)


def _count_changes(
    opened: StatisticsTarget, snapshot: IcebergSnapshot, files: dict[int, str], executor: PlanningExecutor | None
) -> pa.Table | None:
    """Return the counts of the nearest ancestor with a statistics file, plus the changes since.

    `files` are the statistics files by snapshot id. Returns None if all partitions must be counted: no ancestor has a
    file that can be read, its counts contradict later commits, or version 1 does not record which snapshots added the
    manifests since.
    """
    metadata, storage = opened.metadata, opened.storage
    since: list[IcebergSnapshot] = []
    for each in ancestors(metadata.snapshots, snapshot.id):
        if each.id in files:
            break
        since.append(each)
    else:
        return None
    location = files[each.id]
    if not location.endswith(".parquet"):
        return None
    try:
        before = read_counts(location, metadata.partition_type, storage)
    except (CorruptData, MissingFile) as error:
        _LOG.warning("all partitions are counted again, because earlier statistics cannot be read: %s", error)
        return None
    listed = pa.concat_tables(own_manifests(since, storage))
    if listed["added_snapshot_id"].null_count:
        return None  # version 1 may omit which snapshot added a manifest
    change = _count_manifests(PartitionCounts(metadata, storage, changes=True), manifest_files(listed), executor)
    counts = sum_counts(pa.concat_tables([before, change]).combine_chunks())
    if any(pc.min(counts[name]).as_py() < 0 for name in COUNTS if counts.num_rows):
        _LOG.warning("all partitions are counted again, because %s contradicts later commits of the table", location)
        return None
    return counts


def _count_manifests(
    counting: PartitionCounts, manifests: Sequence[ManifestFile], executor: PlanningExecutor | None
) -> pa.Table:
    """Return the counts of manifests, summed as they arrive, so that memory is bounded by the number of partitions."""
    kept = [empty_table(counts_schema(counting.metadata.partition_type))]
    for found in (executor or LOCAL).map(counting, manifests):
        kept.append(found)
        if len(kept) == _MANY:
            kept = [_add_counts(kept)]
    return _add_counts(kept)


def _add_counts(parts: Sequence[pa.Table]) -> pa.Table:
    return sum_counts(pa.concat_tables(parts).combine_chunks())


def register(
    table: Table, update: Any, location: str, snapshot_id: int, storage: Storage, retries: RetryPolicy
) -> None:
    """Commit a (pyiceberg) update that adds the statistics file of a snapshot at `location`, a new file.

    Raises `CommitConflict` if the snapshot has expired, or the attempts run out, and `CommitStateUnknown`. The file is
    removed if the metadata provably does not reference it.
    """
    attempts, at, name = Attempts(retries), copy(table), ".".join(table.name())
    try:
        while True:
            failed = commit(
                at,
                (update,),
                tuple(still_there(at, snapshot_id)),
                storage,
                lambda now: location in now.metadata.statistics_files,
            )
            if failed is None:
                return
            if snapshot_id not in failed.now.metadata.snapshots:
                raise CommitConflict(f"{name}: snapshot {snapshot_id} has expired concurrently") from failed.error
            wait_before_retry(attempts, name, failed)
            at = failed.table
    except CommitStateUnknown:
        raise
    except Exception:
        discard(
            storage,
            [location],
            lambda: [pa.array(reload_table(table, storage)[1].metadata.statistics_files, pa.string())],
        )
        raise


_TYPE = "apache-datasketches-theta-v1"


def write_sketches(
    sketches: Mapping[int, ThetaSketch], snapshot: IcebergSnapshot, location: str, storage: Storage
) -> dict[str, Any]:
    """Write the sketches of fields, by id, to a Puffin file; return its entry for table metadata, a JSON object."""
    blobs = []
    with storage.writing(location) as file:
        writer = PuffinWriter(file)
        for field_id, sketch in sketches.items():
            blob = {
                "type": _TYPE,
                "fields": [field_id],
                "snapshot-id": snapshot.id,
                "sequence-number": snapshot.sequence_number,
                "properties": {"ndv": str(sketch.estimate)},
            }
            writer.add_blob(sketch.serialize(), blob)
            blobs.append(blob)
        footer = writer.size
        size = writer.finish()
    return {
        "snapshot-id": snapshot.id,
        "statistics-path": location,
        "file-size-in-bytes": size,
        "file-footer-size-in-bytes": size - footer,
        "blob-metadata": blobs,
    }
