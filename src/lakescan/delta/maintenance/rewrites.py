"""Rewrite files of a Delta table without changing rows; the commit is marked as changing no data."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.delta.commit.actions import DeltaFileChanges, add_actions, remove_actions
from lakescan.delta.commit.commit import DeltaCommit, Operation, rewritten_metrics
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.log.replay import canonical_paths
from lakescan.delta.metadata.protocol import Metadata
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import FileField, read_fields
from lakescan.tables.commit_files import remove_on_failure
from lakescan.tables.copy_on_write import rewrite_rows

if TYPE_CHECKING:
    from lakescan.delta.target import DeltaTarget

_READERS = 16  # footers that are read in parallel


def rewrite_files(
    table: DeltaTarget,
    old: pa.Table,
    operation: Operation,
    *,
    writes: DeltaWrites | None = None,
    metadata: Metadata | None = None,
    domains: Mapping[str, str | None] | None = None,
    reads: Reads | None = None,
) -> None:
    """Write the rows of the live files `old` (rows of `live_adds`) to new files, and commit these as replacements.

    `writes` are settings for the new files if they differ from the table's current ones. `metadata` and `domains` are
    changed by the same commit. Raises `CommitConflict` if a concurrent commit changed one of the files, or conflicts
    with `reads`.
    """
    scan = replace(table.scan.select_columns(table.writes.lineage_writes.schema), ignores_residuals=True)
    plan = scan.plan()
    wanted = canonical_paths(old["path"].combine_chunks())
    chosen = pc.is_in(canonical_paths(plan.table.files["path"].combine_chunks()), value_set=wanted)
    some = scan.plan_of(plan, chosen)
    into = table.writes if writes is None else writes
    files = rewrite_rows(into.lineage_writes, some, scan.read_context(some), None)
    metrics = rewritten_metrics(old, files)
    with remove_on_failure(table, files):
        DeltaCommit(
            table.version,
            table.storage,
            replace(operation, metrics=metrics),
            DeltaFileChanges(add_actions(files, into, changes_data=False), remove_actions(old, changes_data=False)),
            reads or Reads(),
            metadata,
            domains=domains or {},
            properties=table.options.commit_properties,
        ).commit()


def files_with_old_types(table: DeltaTarget, live: pa.Table, columns: set[str]) -> pa.Table:
    """Return the live files that store one of the columns, or a field of it, in another type than the table's.

    Reads the footers of all files. Files whose partition value is the text of a date count, too, if the partition
    column has become a timestamp.
    """
    schema = table.scan.snapshot.schema
    fields = [each for each in schema.fields if each.name in columns]
    matching = table.opened.matching(table.scan.snapshot)

    def differs(path: str) -> bool:
        with open_data_file(table.storage, path, "parquet") as file:
            found = read_fields(file.schema, matching)
        return any(_differs(own, each) for each in fields if (own := _find(found, each, by_id=matching.by_id)))

    with ThreadPoolExecutor(_READERS) as pool:
        mask = pa.array(list(pool.map(differs, live["path"].to_pylist())), pa.bool_())
    for each in table.writes.partition_fields:
        if each.name in columns and isinstance(each.type, t.Timestamp):
            texts = pc.struct_field(live["partition"].combine_chunks(), each.physical_name)
            mask = pc.or_(mask, pc.fill_null(pc.invert(pc.match_substring(texts, " ")), False))
    return live.filter(mask)


def _find(fields: tuple[FileField, ...], wanted: t.Field, *, by_id: bool) -> FileField | None:
    if by_id:
        return next((each for each in fields if each.id == wanted.id), None)
    return next((each for each in fields if each.name == wanted.physical_name), None)


def _differs(file: FileField, wanted: t.Field) -> bool:
    """Return whether a column of a file, or one of its nested fields, has another type than in the table."""
    match wanted.type:
        case t.Struct():
            parts = [(_find(file.children, each, by_id=False), each) for each in wanted.type.fields]
        case t.ListOf():
            parts = [(file.children[0], wanted.type.element)]
        case t.MapOf():
            parts = list(zip(file.children, (wanted.type.key, wanted.type.value), strict=True))
        case kind:
            return file.type != kind.arrow()
    return any(own is not None and _differs(own, each) for own, each in parts)
