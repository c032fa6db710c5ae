"""Measure a table's health: compute figures and findings from its file table and the facts of its metadata."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.formats.table_format import MetadataFacts
from lakescan.maintenance.compact import Thresholds, deleted_rows
from lakescan.maintenance.health.table_health import PARTITIONS, SIZES, Finding, TableHealth
from lakescan.options.compact import CompactOptions
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.explain.summary import human_bytes, pluralize
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import partition_numbers
from lakescan.storage.locations import split_location
from lakescan.tables.results import OrphanResult
from lakescan.tables.scan_spec import ScanSpec

_SHOWN = 20  # number of partitions in the figures
_MOST_LOCAL = 10_000  # up to so many local files are looked up by default


def measure_health(
    name: str, spec: ScanSpec, orphans: OrphanResult | None = None, *, missing: bool | None = None
) -> TableHealth:
    """Return the health of the snapshot or version that a scan selects.

    Args:
        name: The table's name, or its location.
        spec: A scan of all rows.
        orphans: The result of a dry run of orphan removal, if there was one.
        missing: Whether to look up all files in storage; None looks up only local files, unless there are many.
    """
    files = spec.file_table()
    facts = spec.table.metadata_facts(spec.snapshot, files, datetime.now(UTC))
    return _Measurement(name, spec, files, facts, orphans, _find_missing_files(spec, files, missing)).health()


def _find_missing_files(spec: ScanSpec, files: FileTable, wanted: bool | None) -> tuple[str, ...] | None:
    """Return the data and delete files that are not in storage, or None if they were not looked up."""
    storage = spec.storage
    paths = [*files.files["path"].to_pylist(), *files.deletes["path"].unique().drop_null().to_pylist()]
    if wanted is None:
        wanted = len(paths) <= _MOST_LOCAL and not any(map(storage.is_remote, paths))
    if not wanted:
        return None
    by_filesystem: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        by_filesystem.setdefault(split_location(path)[:2], []).append(path)  # `look_up` takes files of one filesystem
    return tuple(
        path
        for some in by_filesystem.values()
        for path, found in zip(some, storage.look_up(some), strict=True)
        if found is None
    )


@dataclass(frozen=True)
class _Measurement:
    name: str
    spec: ScanSpec
    files: FileTable
    facts: MetadataFacts
    orphans: OrphanResult | None
    missing: tuple[str, ...] | None

    def health(self) -> TableHealth:
        sizes = pc.fill_null(self.files.files["size"], 0).to_numpy()
        small = sizes < Thresholds.resolve(CompactOptions(), self.facts.target_file_size).smallest
        numbers = partition_numbers(self.files.files) if len(sizes) else np.empty(0, dtype=np.int64)
        of_partition = np.bincount(numbers, weights=sizes)
        total = int(sizes.sum())
        counts = self.files.references.counts
        facts, snapshot, kept = self.facts, self.spec.snapshot, self.facts.kept
        figures = {
            "table": self.name,
            "format": self.spec.table.name,
            "version": snapshot.id,
            "committed_at": snapshot.timestamp,
            "files": len(sizes),
            "bytes": total,
            "rows": int(pc.sum(self.files.files["record_count"]).as_py() or 0),
            "target_file_size": facts.target_file_size,
            "small_files": int(small.sum()),
            "small_bytes": int(sizes[small].sum()),
            "sizes": _histogram(sizes),
            "partition_count": int((np.bincount(numbers) > 0).sum()),
            "largest_partition": float(of_partition.max() / total) if total else 0.0,
            "partitions": _partition_figures(self.files.files, numbers, sizes, small),
            **self._deletes(),
            "files_with_deletes": int((counts > 0).sum()),
            "most_deletes": int(counts.max(initial=0)),
            "deleted_rows": int(deleted_rows(self.files).sum()) if self.files.deletes.num_rows else 0,
            "metadata_bytes": facts.bytes,
            "manifests": None if facts.manifests is None else facts.manifests.count,
            "manifest_bytes": None if facts.manifests is None else facts.manifests.bytes,
            "log_commits": None if facts.log is None else facts.log.commits,
            "checkpoint": None if facts.log is None else facts.log.checkpoint,
            "checkpoint_at": None if facts.log is None else facts.log.checkpoint_at,
            "snapshots": kept.count,
            "oldest": kept.oldest,
            "expirable": kept.expirable,
            "retained_files": kept.files,
            "retained_bytes": kept.bytes,
            "clustering": facts.clustering,
            "primary_key": snapshot.schema.identifier_names,
            "replaces_by_key": snapshot.properties.get("write.upsert.enabled", "").lower() == "true",
            "owns_files": facts.owns_files,
            "orphans": None if self.orphans is None else len(self.orphans),
            "orphan_bytes": None if self.orphans is None else self.orphans.bytes,
            "missing": self.missing,
        }
        times = {each.name for each in snapshot.schema.fields if pa.types.is_temporal(each.type.arrow())}
        bare = TableHealth(**figures, findings=())
        return TableHealth(**figures, findings=findings_of(bare, self.files, facts, self._fields(), times))

    def _fields(self) -> list[str]:
        """Return the partition fields as a list of texts; commas in parentheses do not separate them."""
        return [each.strip() for each in re.split(r",(?![^(]*\))", self.spec.table.partitioning)]

    def _deletes(self) -> dict[str, int]:
        deletes = self.files.deletes
        kinds = {
            each["values"]: each["counts"] for each in pc.value_counts(deletes["kind"].combine_chunks()).to_pylist()
        }
        used = int(self.files.references.reference_mask(deletes.num_rows).sum())
        return {
            "position_delete_files": kinds.get(DeleteKind.POSITION, 0),
            "equality_delete_files": kinds.get(DeleteKind.EQUALITY, 0),
            "deletion_vectors": kinds.get(DeleteKind.VECTOR, 0),
            "delete_bytes": int(pc.sum(deletes["size"]).as_py() or 0),
            "unused_deletes": deletes.num_rows - used,
        }


def _histogram(sizes: np.ndarray) -> pa.Table:
    """Return a table (`SIZES`) of the number of files per power of two of their size.

    It has all powers from the smallest file's to the largest's.
    """
    if not len(sizes):
        return SIZES.empty_table()
    powers = np.floor(np.log2(np.maximum(sizes, 1))).astype(int)
    low = int(powers.min())
    counts = np.bincount(powers - low)
    return pa.table([2 ** (low + np.arange(len(counts))), counts], schema=SIZES)


def _partition_figures(files: pa.Table, numbers: np.ndarray, sizes: np.ndarray, small: np.ndarray) -> pa.Table:
    """Return a table (`PARTITIONS`) of the partitions with the most small files, then the most bytes; at most `_SHOWN`.

    `numbers`, `sizes` and `small` are each file's partition number, its bytes, and whether it is small.
    """
    if not len(numbers):
        return PARTITIONS.empty_table()
    count = np.bincount(numbers)
    total = np.bincount(numbers, weights=sizes).astype(np.int64)
    many = np.bincount(numbers, weights=small).astype(np.int64)
    first = np.zeros(len(count), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    order = np.lexsort((-total, -many))
    chosen = order[count[order] > 0][:_SHOWN]
    rows = files.select(["partition"]).take(pa.array(first[chosen])).to_pylist()  # at most _SHOWN
    names = [_partition_text(row["partition"]) for row in rows]
    return pa.table([names, count[chosen], total[chosen], many[chosen]], schema=PARTITIONS)


def _partition_text(partition: dict[str, object] | None) -> str:
    """Return a partition as text such as `day=2026-01-31/country=de`; fields of other partition specs are null."""
    found = [f"{name}={'null' if value is None else value}" for name, value in (partition or {}).items()]
    return "/".join(found) or "all files"


# The defaults of Iceberg's rewrite_data_files: a few small files, or a few deleted rows, are not worth a rewrite.
COMPACTION = CompactOptions(min_input_files=5, delete_ratio_threshold=0.3)
_COMPACT_PYTHON = "table.compact(min_input_files=5, delete_ratio_threshold=0.3)"
_COMPACT_SHELL = "-o min-input-files=5 -o delete-ratio-threshold=0.3"
_FEW, _MANY = 4, 100  # minimum numbers of partitions for findings about skew and about small partitions
_TINY = 1 / 16  # average partition size, as a share of the target file size, below which there are too many partitions


def findings_of(
    health: TableHealth, files: FileTable, facts: MetadataFacts, fields: Sequence[str], times: Collection[str]
) -> tuple[Finding, ...]:
    """Return the findings, in the order of maintenance.

    `health` are the figures, without findings. `fields` are the partition fields as text, such as 'day(ts)', and
    `times` the names of date and timestamp columns.
    """
    name = shlex.quote(health.table)
    return (
        *_missing_files(name, health),
        *_equality_deletes(name, health, files),
        *_compaction(name, health, files, facts),
        *_position_deletes(name, facts),
        *_manifests(name, facts),
        *_checkpoint(name, facts),
        *_snapshots(name, health, facts),
        *_removed_files(name, health, facts),
        *_orphans(name, health),
        *_skew(name, health),
        *_small_partitions(name, health, fields, times),
    )


def _missing_files(name: str, health: TableHealth) -> Iterator[Finding]:
    """Yield a finding for files that are not in storage, so that reads of the table fail."""
    if health.missing:
        shown = ", ".join(health.missing[:_FEW]) + (", ..." if len(health.missing) > _FEW else "")
        word = health.state_word
        yield Finding(
            "missing files",
            f"{pluralize(len(health.missing), 'file')} of the current {word} "
            f"{'is' if len(health.missing) == 1 else 'are'} not in storage: {shown}. Copy them back from a backup, or "
            f"restore a {word} that does not need them, or delete their rows by a filter on partitions and write them "
            "again",
            0,
            0,
            False,
            "table.restore(VERSION)",
            f"lakescan history {name}",
        )


def _equality_deletes(name: str, health: TableHealth, files: FileTable) -> Iterator[Finding]:
    if health.equality_delete_files:
        mine = files.deletes.filter(pc.equal(files.deletes["kind"], DeleteKind.EQUALITY))
        yield Finding(
            "equality deletes",
            f"readers look up the keys of rows in {pluralize(health.equality_delete_files, 'file')} of equality "
            "deletes",
            health.equality_delete_files,
            pc.sum(mine["size"]).as_py() or 0,
            False,
            "table.convert_equality_deletes()",
            f"lakescan convert-equality-deletes {name}",
            "convert_equality_deletes",
        )


def _compaction(name: str, health: TableHealth, files: FileTable, facts: MetadataFacts) -> Iterator[Finding]:
    """Yield a finding for the files that a compaction with the options `COMPACTION` would rewrite."""
    if not health.files:
        return
    rules = Thresholds.resolve(COMPACTION, health.target_file_size)
    chosen = rules.groups(files) >= 0
    if chosen.any():
        deleted = int((chosen & rules.have_deletes(files)).sum())
        sizes = pc.fill_null(files.files["size"], 0).to_numpy()
        number, size = int(chosen.sum()), int(sizes[chosen].sum())
        what = list[str]()
        if deleted < number:
            average = human_bytes(sizes[chosen & ~rules.have_deletes(files)].mean())
            what.append(f"{pluralize(number - deleted, 'small file')} ({average} on average) could be fewer")
        if deleted:
            rows = f"{COMPACTION.delete_ratio_threshold:.0%}"
            what.append(f"{pluralize(deleted, 'file')} {'has' if deleted == 1 else 'have'} {rows} deleted rows or more")
        names = [*(["small files"] if deleted < number else []), *(["deletes"] if deleted else [])]
        python, shell = _COMPACT_PYTHON, _COMPACT_SHELL
        if facts.clustering:
            columns = ",".join(facts.clustering)
            python = python.replace(
                "(", f'(strategy="zorder", zorder_by={list(facts.clustering)!r}, rewrite_all=False, ', 1
            )
            shell = f"--zorder-by {shlex.quote(columns)} -o rewrite-all=false {shell}"
        yield Finding(
            " and ".join(names),
            "; ".join(what),
            number,
            size,
            False,
            python,
            f"lakescan compact {name} {shell}",
            "compact",
        )


def _position_deletes(name: str, facts: MetadataFacts) -> Iterator[Finding]:
    number, size = facts.rewritable_deletes
    if number:
        yield Finding(
            "position deletes",
            f"{pluralize(number, 'file')} of position deletes could be fewer, or apply to no file",
            number,
            size,
            False,
            "table.rewrite_position_deletes()",
            f"lakescan rewrite-position-deletes {name}",
            "rewrite_position_deletes",
        )


def _manifests(name: str, facts: MetadataFacts) -> Iterator[Finding]:
    found = facts.manifests
    if found is not None and found.rewritable:
        yield Finding(
            "manifests",
            f"{pluralize(found.rewritable, 'manifest')} could be about {found.rewritten:,}: each plan reads them",
            found.rewritable,
            found.rewritable_bytes,
            False,
            "table.rewrite_manifests()",
            f"lakescan rewrite-manifests {name}",
            "rewrite_manifests",
        )


def _checkpoint(name: str, facts: MetadataFacts) -> Iterator[Finding]:
    log = facts.log
    if log is not None and log.commits > log.interval:
        since = "without a checkpoint" if log.checkpoint is None else "since the checkpoint"
        yield Finding(
            "checkpoint",
            f"each reader reads {pluralize(log.commits, 'commit')} {since}; delta.checkpointInterval is "
            f"{log.interval:,}",
            log.commits,
            log.commit_bytes,
            False,
            "table.checkpoint()",
            f"lakescan checkpoint {name}",
            "checkpoint",
        )


def _snapshots(name: str, health: TableHealth, facts: MetadataFacts) -> Iterator[Finding]:
    if health.expirable and facts.owns_files:
        yield Finding(
            "snapshots",
            f"{pluralize(health.expirable, 'snapshot')} of {health.snapshots:,} can expire by the table's properties, "
            "with their manifests",
            facts.kept.removable_files,
            facts.kept.removable_bytes,
            True,
            "table.expire_snapshots()",
            f"lakescan expire-snapshots {name}",
            "expire_snapshots",
        )


def _removed_files(name: str, health: TableHealth, facts: MetadataFacts) -> Iterator[Finding]:
    """Yield a finding for Delta's removed files past their retention, unless orphans were already searched."""
    kept = facts.kept
    if facts.log is not None and kept.removable_files and health.orphans is None:
        yield Finding(
            "removed files",
            f"{pluralize(kept.removable_files, 'file')} were removed from the table before its retention, and may "
            "still be in "
            "storage",
            kept.removable_files,
            kept.removable_bytes,
            True,
            "table.remove_orphans()",
            f"lakescan remove-orphans {name}",
            "remove_orphans",
        )


def _orphans(name: str, health: TableHealth) -> Iterator[Finding]:
    if health.orphans:
        yield Finding(
            "orphan files",
            f"{pluralize(health.orphans, 'file')} in the table's folders that it does not reference",
            health.orphans,
            health.orphan_bytes or 0,
            True,
            "table.remove_orphans()",
            f"lakescan remove-orphans {name}",
            "remove_orphans",
        )


def _skew(name: str, health: TableHealth) -> Iterator[Finding]:
    count = health.partition_count
    if count >= _FEW and health.largest_partition > 0.5 and health.bytes > 4 * health.target_file_size:
        what = f"one of {count:,} partitions has {health.largest_partition:.0%} of the bytes"
        yield _advice(
            "skew",
            what if health.manifests is None else f"{what}: divide it by another field",
            name,
            health,
            "table.alter().add_partition_field('bucket(16, COLUMN)').commit()",
            "ADD PARTITION FIELD bucket(16, COLUMN)",
        )


def _small_partitions(
    name: str, health: TableHealth, fields: Sequence[str], times: Collection[str]
) -> Iterator[Finding]:
    count = health.partition_count
    if count >= _MANY and health.bytes / count < _TINY * health.target_file_size:
        what = f"{count:,} partitions have {human_bytes(health.bytes / count)} on average"
        pairs = ((each, coarser_field(each, times)) for each in fields)
        old, new = next(((one, other) for one, other in pairs if other), ("days(COLUMN)", "months(COLUMN)"))
        yield _advice(
            "partitions",
            what if health.manifests is None else f"{what}: a coarser field has fewer",
            name,
            health,
            f"table.alter().replace_partition_field({old!r}, {new!r}).commit()",
            f"REPLACE PARTITION FIELD {old} WITH {new}",
        )


def coarser_field(field: str, times: Collection[str]) -> str:
    """Return a partition field with fewer values than `field`, such as `months(ts)` for `day(ts)`; empty without one.

    `times` are the names of date and timestamp columns.
    """
    for transform, wider in (("hour", "days"), ("day", "months"), ("month", "years")):
        if found := re.fullmatch(rf"{transform}s?\((.+)\)", field):
            return f"{wider}({found[1]})"
    if "(" in field:
        return ""
    return f"months({field})" if field in times else f"bucket(16, {field})"


def _advice(kind: str, what: str, name: str, health: TableHealth, python: str, change: str) -> Finding:
    """Return a finding that the user has to decide on: to change the partitioning, which in Delta takes a new table.

    `python` and `change` are the call and the ALTER TABLE clause that change it in Iceberg.
    """
    if health.manifests is not None:
        return Finding(kind, what, 0, 0, False, python, f'lakescan sql "ALTER TABLE {name} {change}"')
    source = f"delta.`{health.table}`" if "/" in health.table else health.table
    text = f"CREATE TABLE NEW_TABLE USING delta CLUSTER BY (COLUMN) AS SELECT * FROM {source}"
    fixed = "partitions cannot be changed, a copy that is clustered can have any columns"
    return Finding(
        kind, f"{what}: {fixed}", 0, 0, False, f'lakescan.sql("{text}")', f"lakescan sql {shlex.quote(text)}"
    )
