"""ALTER an Iceberg table: apply changes to a draft, check them against existing rows, and commit with retries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.references import dotted_path
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.definition.table_changes import TableChange
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.alter.apply_changes import apply_changes
from lakescan.iceberg.alter.commit_draft import commit_draft, new_draft
from lakescan.iceberg.alter.metadata_draft import FilesHaveIds, MetadataDraft, NoNulls, NoRows, Proof
from lakescan.iceberg.commit.commit_collector import register_redo
from lakescan.iceberg.commit.outcomes import FailedCommit, check_refusal, raise_refusal
from lakescan.iceberg.metadata.table_metadata import MAIN
from lakescan.iceberg.table import IcebergTable
from lakescan.local.aggregates import count_rows
from lakescan.local.reader import default_readers
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import names_without_ids
from lakescan.storage import Storage
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table

_READERS = 16  # footers read at once


def alter(
    table: Table,
    opened: IcebergTable,
    storage: Storage,
    changes: Sequence[TableChange],
    retries: RetryPolicy,
) -> None:
    """Make changes in one commit; after a concurrent commit, apply them again to the new metadata.

    `table` is pyiceberg's table, `opened` the same table as read by lakescan. Raises the errors of `apply_changes`,
    `InvalidOption` if existing rows contradict a change, `UnsupportedFeature` for changes that the catalog refuses,
    `CommitConflict` and `CommitStateUnknown`.
    """
    from pyiceberg.exceptions import CommitFailedException

    attempts, name = Attempts(retries), ".".join(table.name())
    table = copy(table)

    def attempt(table: Table, opened: IcebergTable) -> FailedCommit | None:
        draft = apply_changes(new_draft(table, opened.metadata), changes)
        check_proofs(draft, opened, storage)
        return commit_draft(table, draft, storage)

    while True:
        with raise_refusal(), register_redo(table, attempt):
            failed = attempt(table, opened)
        if failed is None:
            return
        check_refusal(failed, name)
        if not isinstance(failed.error, CommitFailedException):
            raise failed.error
        attempts.wait_or_raise(name, failed.error)
        table, opened = failed.table, failed.now


def check_proofs(draft: MetadataDraft, opened: IcebergTable, storage: Storage) -> None:
    """Raise `InvalidOption` or `UnsupportedFeature` if existing rows or files contradict the proofs of a draft."""
    for proof in dict.fromkeys(draft.proofs):
        _check_rows(proof, draft, opened, storage)


def _check_rows(proof: Proof, draft: MetadataDraft, opened: IcebergTable, storage: Storage) -> None:
    """Check one proof against the table's rows or files.

    Raises `InvalidOption` if a branch has rows that contradict it, and for the proof `FilesHaveIds` the errors of
    `_check_files_have_ids`.
    """
    if isinstance(proof, FilesHaveIds):
        _check_files_have_ids(proof, opened, storage)
        return
    for branch, scan in _branch_scans(opened, storage):
        on = "" if branch == MAIN else f" on the branch {branch!r}"
        match proof:
            case NoRows(reason):
                if count_rows(scan):
                    raise InvalidOption(f"{reason}{on and f' ({on.strip()})'}")
            case NoNulls(field_id):
                path = [each.name for each in opened.metadata.schema.struct_path(field_id)]
                names = [dotted_path(path[: depth + 1]) for depth in range(len(path))]
                above = "".join(f"{each} IS NOT NULL AND " for each in names[:-1])
                nulls = count_rows(scan.where(f"{above}{names[-1]} IS NULL"))
                if nulls:
                    raise InvalidOption(
                        f"{names[-1]} cannot be NOT NULL: {nulls} row{'s have' if nulls > 1 else ' has'} a null in it"
                        f"{on}. Update or delete them first: WHERE {names[-1]} IS NULL"
                    )


def _check_files_have_ids(proof: FilesHaveIds, opened: IcebergTable, storage: Storage) -> None:
    """Raise `UnsupportedFeature` if a data file of any snapshot has a field called `proof.name` without a field id."""
    metadata: Any = opened.metadata
    table = opened.metadata.location
    scans = [ScanSpec(opened, storage, table, selector=SnapshotSelector(version=each)) for each in metadata.snapshots]
    parts = [scan.plan(default_readers()).table.files.select(["path", "file_format", "key_metadata"]) for scan in scans]
    if not parts:
        return
    files = pa.concat_tables(parts).group_by("path").aggregate([("file_format", "min"), ("key_metadata", "min")])

    def has_name(path: str, file_format: str, key: bytes | None) -> bool:
        with open_data_file(storage, path, file_format, key) as data:
            return proof.name in names_without_ids(data.schema)

    columns = [files[name].to_pylist() for name in ("path", "file_format_min", "key_metadata_min")]
    with ThreadPoolExecutor(_READERS) as pool:
        with_name = [path for path, found in zip(columns[0], pool.map(has_name, *columns), strict=True) if found]
    if with_name:
        path = opened.metadata.schema.path_of.get(proof.field_id)
        owner = "a column that was dropped" if path is None else f"column {path}"
        raise UnsupportedFeature(
            f"another column called {proof.name!r} in {table}",
            f"Data files without field ids, {with_name[0]} among them, have the values of {owner} under this name "
            "(schema.name-mapping.default), and readers would return these for the new column. Choose another name, or "
            "first rewrite the files, compact(rewrite_all=True), and expire the snapshots that contain them.",
        )


def _branch_scans(opened: IcebergTable, storage: Storage) -> Iterator[tuple[str, ScanSpec]]:
    """Yield a scan of each branch that has a snapshot."""
    metadata: Any = opened.metadata
    name = metadata.location
    if metadata.current_snapshot_id is not None:
        yield MAIN, ScanSpec(opened, storage, name)
    for branch, reference in metadata.refs.items():
        if branch != MAIN and reference.kind == "branch":
            yield branch, ScanSpec(opened, storage, name, selector=SnapshotSelector(branch=branch))
