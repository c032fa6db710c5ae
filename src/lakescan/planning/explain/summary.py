"""Summarize a plan, for its explanations as text, in the terminal and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.expressions.predicate import leaves
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.plan import ScanPlan
from lakescan.planning.scan_report import ScanReport

_TOP = 10


@dataclass(frozen=True)
class Stage:
    """One step of the funnel from manifests to rows: its name, the numbers of items kept and skipped, and a reason.

    `note` is the reason for skipping; empty without one.
    """

    name: str
    kept: int
    skipped: int = 0
    note: str = ""


@dataclass(frozen=True)
class Bin:
    """One column of a histogram: `label` is the lower bound of its range, `count` the number of items in it."""

    label: str
    count: int


@dataclass(frozen=True)
class CostlyFile:
    """One of the files that are most expensive to read, by the bytes of the file and its deletes.

    - `rows`: the recorded row count; None if unknown.
    - `deletes`, `delete_bytes`: the number and size of its deletes.
    """

    path: str
    rows: int | None
    size: int
    deletes: int
    delete_bytes: int


@dataclass(frozen=True)
class Summary:
    """The figures of a plan, as texts and numbers, in the order of the explanations.

    - `state`: the format's word for a snapshot or version. `snapshot`: its id.
    - `residuals`, `deletes`: pairs of a text and a number of splits or of delete files.
    - `group_bytes`, `group_splits`: a number for each task group.
    - `costly`: the files that are most expensive to read. `hints`: advice, one sentence each.
    """

    table: str
    format: str
    state: str
    snapshot: str
    filter: str
    columns: tuple[str, ...]
    stages: tuple[Stage, ...]
    residuals: tuple[tuple[str, int], ...]
    deletes: tuple[tuple[str, int], ...]
    file_bytes: int
    delete_bytes: int
    seconds: float
    files: int
    file_sizes: tuple[Bin, ...]
    split_sizes: tuple[Bin, ...]
    deletes_per_file: tuple[Bin, ...]
    group_bytes: tuple[int, ...]
    group_splits: tuple[int, ...]
    costly: tuple[CostlyFile, ...]
    hints: tuple[str, ...]


def summarise(plan: ScanPlan) -> Summary:
    """Compute the summary of a plan."""
    report, metrics, sizes = plan.report, plan.report.metrics, plan.groups.sizes
    return Summary(
        table=report.table,
        format=report.format,
        state=report.words.state,
        snapshot=_state(report),
        filter=report.filter,
        columns=report.projected_fields,
        stages=_stages(plan),
        residuals=_residuals(plan),
        deletes=_deletes(plan),
        file_bytes=metrics.total_file_size_in_bytes,
        delete_bytes=metrics.total_delete_file_size_in_bytes,
        seconds=metrics.total_planning_duration,
        files=len(plan.table),
        file_sizes=_histogram(pc.fill_null(plan.files["size"], 0), human_bytes),
        split_sizes=_histogram(plan.splits["length"], human_bytes),
        deletes_per_file=_deletes_per_file(plan),
        group_bytes=tuple(pc.add(sizes["bytes"], sizes["delete_bytes"]).to_pylist()),
        group_splits=tuple(sizes["splits"].to_pylist()),
        costly=_costly(plan),
        hints=hints(plan),
    )


def _state(report: ScanReport) -> str:
    if report.snapshot_id is None:
        return "none yet"
    timestamp = report.snapshot_timestamp
    of = "" if timestamp is None else f" of {timestamp:%Y-%m-%d %H:%M:%S} UTC"
    return f"{report.snapshot_id}{of}" + (report.named and f" ({report.named})")


def _stages(plan: ScanPlan) -> tuple[Stage, ...]:
    report, metrics = plan.report, plan.report.metrics
    by_partition = metrics.result_data_files + report.skipped_by_limit + report.skipped_by_stats
    by_stats = metrics.result_data_files + report.skipped_by_limit
    note = "by partition summaries"
    stages = [Stage(report.words.metadata_files, metrics.scanned_data_manifests, metrics.skipped_data_manifests, note)]
    if metrics.total_delete_manifests:
        stages.append(
            Stage("delete manifests", metrics.scanned_delete_manifests, metrics.skipped_delete_manifests, note)
        )
    stages += [
        Stage("files in them", by_partition + report.skipped_by_partition),
        Stage("files by partition", by_partition, report.skipped_by_partition, "partition values cannot match"),
        Stage("files by statistics", by_stats, report.skipped_by_stats, "bounds and counts cannot match"),
    ]
    if plan.limit is not None:
        stages.append(
            Stage("files by limit", metrics.result_data_files, report.skipped_by_limit, f"limit {plan.limit}")
        )
    stages += [Stage("splits", report.splits), Stage("task groups", report.groups)]
    if report.records is not None:
        stages.append(Stage("rows before deletes", report.records))
    return tuple(stages)


def _residuals(plan: ScanPlan) -> tuple[tuple[str, int], ...]:
    """Return each residual of a plan as text, with its number of splits."""
    counts = pc.value_counts(plan.splits["residual"].combine_chunks()).to_pylist() if plan.splits.num_rows else []
    return tuple((str(plan.residuals[c["values"]]), c["counts"]) for c in counts)


def _deletes(plan: ScanPlan) -> tuple[tuple[str, int], ...]:
    """Return each kind of delete in a plan as text, with its number of delete files or vectors."""
    counts = pc.value_counts(plan.deletes["kind"].combine_chunks()).to_pylist() if plan.deletes.num_rows else []
    names = {DeleteKind.VECTOR: "deletion vectors"}
    return tuple((names.get(c["values"], c["values"].replace("-", " ")), c["counts"]) for c in counts)


def _histogram(values: pa.ChunkedArray, label: Callable[[int], str]) -> tuple[Bin, ...]:
    """Count values in bins [1, 2), [2, 4), [4, 8), ..., from the first to the last non-empty bin; 0 counts as 1.

    `label` makes the label of a bin from its lower bound.
    """
    numbers = np.maximum(values.to_numpy(), 1)
    powers = np.floor(np.log2(numbers)).astype(int)
    if not len(powers):
        return ()
    low = int(powers.min())
    return tuple(Bin(label(2 ** (low + i)), n) for i, n in enumerate(np.bincount(powers - low).tolist()))


def _deletes_per_file(plan: ScanPlan) -> tuple[Bin, ...]:
    """Count the files with 0, 1, 2 to 3, 4 to 7, ... deletes; empty if no file has deletes."""
    counts = pa.array(plan.table.references.counts)
    some = counts.filter(pc.greater(counts, 0))
    if not len(some):
        return ()
    bins = _histogram(some, str)
    from_one = [Bin(str(2**i), 0) for i in range(int(bins[0].label).bit_length() - 1)]
    return (Bin("0", len(counts) - len(some)), *from_one, *bins)


def _costly(plan: ScanPlan) -> tuple[CostlyFile, ...]:
    files, references = plan.files.select(["path", "record_count", "size"]), plan.table.references
    delete_bytes = pa.array(references.sums(pc.fill_null(plan.deletes["size"], 0).to_numpy()))
    files = files.append_column("delete_bytes", delete_bytes)
    files = files.append_column("delete_count", pa.array(references.counts))
    cost = pc.add(pc.fill_null(files["size"], 0), delete_bytes)
    top = files.take(pc.select_k_unstable(pa.table({"cost": cost}), k=_TOP, sort_keys=[("cost", "descending")]))
    rows = top.to_pylist()
    return tuple(
        CostlyFile(r["path"], r["record_count"], r["size"] or 0, r["delete_count"], r["delete_bytes"]) for r in rows
    )


def human_bytes(size: float) -> str:
    """Format a size in bytes for people, in units of 1024: 1.5 MB."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TB"


def pluralize(number: int, noun: str) -> str:
    """Format a number with a noun, in the plural unless it is 1: 1 file, 1,200 files."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


_SMALL = 1 << 20
_FEW = 10  # some hints are not given for fewer files
_MANY_DELETES = 10


def hints(plan: ScanPlan) -> tuple[str, ...]:
    """Return advice for a plan, one sentence each, such as to compact small files; empty without files."""
    if not len(plan.table):
        return ()
    return (*_small_files(plan), *_delete_hints(plan), *_missing_bounds(plan), *_partitions(plan), *_skew(plan))


def _small_files(plan: ScanPlan) -> Iterator[str]:
    total = len(plan.table)
    small = pc.sum(pc.less(plan.files["size"], _SMALL)).as_py() or 0
    if total >= _FEW and small * 2 > total:
        yield f"{small / total:.0%} of the {total:,} files are under 1 MB: compact them"


def _delete_hints(plan: ScanPlan) -> Iterator[str]:
    counts = pa.array(plan.table.references.counts)
    most = pc.max(counts).as_py() or 0
    if most > _MANY_DELETES:
        average = pc.mean(counts).as_py()
        yield f"files have {average:.1f} deletes each, up to {most:,}: compact them, or rewrite the delete files"
    equality = pc.sum(pc.equal(plan.deletes["kind"], DeleteKind.EQUALITY)).as_py() or 0
    if equality:
        yield f"{equality:,} equality delete files: every row's key is looked up in them; compaction removes them"
    metrics = plan.report.metrics
    if metrics.respelled_delete_files:
        yield (
            f"{metrics.respelled_delete_files:,} delete files refer to a data file by another form of its path: "
            "lakescan applies them; engines that compare paths literally ignore them"
        )
    if metrics.dangling_delete_files:
        yield f"{metrics.dangling_delete_files:,} delete files refer to no data file of the table: they delete nothing"
    data, deletes = metrics.total_file_size_in_bytes, metrics.total_delete_file_size_in_bytes
    if data and deletes > data / 4:
        yield f"deletes are {deletes / (data + deletes):.0%} of the bytes to read: rewrite the deletes"


def _missing_bounds(plan: ScanPlan) -> Iterator[str]:
    """Yield a hint for each filter column without statistics in any file, which therefore cannot skip files."""
    names = {leaf.bound_id: leaf.column for leaf in leaves(plan.filter) if leaf.bound_id not in RESERVED_IDS}
    for field_id, name in names.items():
        stats = plan.table.stats.get(field_id)
        if stats is None or not (_has_values(stats.lower) or _has_values(stats.upper) or _has_values(stats.null_count)):
            yield f"no statistics of {name!r} in any file: it cannot skip files; configure writers to collect them"


def _has_values(values: pa.Array | None) -> bool:
    return values is not None and values.null_count < len(values)


def _partitions(plan: ScanPlan) -> Iterator[str]:
    """Yield a hint if a filter on a partitioned table with some files skips no partition."""
    fields = [f.name for f in plan.files.schema.field("partition").type]
    idle = not plan.report.skipped_by_partition and not plan.report.metrics.skipped_data_manifests
    if fields and plan.report.filter != "true" and idle and len(plan.table) >= _FEW:
        yield f"the filter skips no partition: the table is partitioned by {', '.join(fields)}"


def _skew(plan: ScanPlan) -> Iterator[str]:
    sizes = plan.groups.sizes["bytes"]
    total, most = pc.sum(sizes).as_py() or 0, pc.max(sizes).as_py() or 0
    if len(plan.groups) >= 4 and most * 2 > total:
        yield f"one of {len(plan.groups)} task groups has {most / total:.0%} of the bytes: its file cannot be split"
