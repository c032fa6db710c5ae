"""The kinds of snapshots that are committed: appends, overwrites, and rewrites, which pyiceberg has none of."""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import Transaction
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _FastAppendFiles, _MergeAppendFiles, _OverwriteFiles, _SnapshotProducer
from pyiceberg.table.update.validate import _validate_data_files_exist, _validate_no_new_deletes_for_data_files

from lakescan.iceberg.row_lineage import LineageSnapshot


class _Rewrite:
    """A `replace`, which changes no rows: rows added elsewhere are no conflict."""

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        found = super()._summary(snapshot_properties)  # type: ignore[misc]
        return Summary(operation=Operation.REPLACE, **found.additional_properties)

    def _validate_concurrency(self: Any) -> None:
        window, table = self._commit_window, self._transaction._table
        if window is None or window.is_empty() or window.head is None:
            return
        _validate_data_files_exist(table, window.head, self._deleted_data_files, window.base)
        _validate_no_new_deletes_for_data_files(table, window.head, None, self._deleted_data_files, window.base)


class _RewriteFiles(_Rewrite, _OverwriteFiles):
    pass


class _LineageAppend(LineageSnapshot, _FastAppendFiles):
    pass


class _LineageOverwrite(LineageSnapshot, _OverwriteFiles):
    pass


class _LineageRewrite(_Rewrite, LineageSnapshot, _OverwriteFiles):
    pass


def appending(transaction: Transaction, branch: str, properties: dict[str, str]) -> _SnapshotProducer[Any]:
    """Files added; manifests are merged where the table asks for it, but in version 3."""
    metadata = transaction.table_metadata
    merges = metadata.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
    kind = _LineageAppend if metadata.format_version > 2 else _MergeAppendFiles if merges else _FastAppendFiles
    return _made(kind, Operation.APPEND, transaction, branch, properties)


def overwriting(transaction: Transaction, branch: str, properties: dict[str, str]) -> _SnapshotProducer[Any]:
    """Files in the place of others; an append where there are none."""
    metadata = transaction.table_metadata
    is_first = metadata.snapshot_by_name(branch) is None
    kind = _LineageOverwrite if metadata.format_version > 2 else _OverwriteFiles
    return _made(kind, Operation.APPEND if is_first else Operation.OVERWRITE, transaction, branch, properties)


def rewriting(transaction: Transaction, branch: str) -> _SnapshotProducer[Any]:
    """Files in the place of others that have the same rows."""
    kind = _LineageRewrite if transaction.table_metadata.format_version > 2 else _RewriteFiles
    return _made(kind, Operation.OVERWRITE, transaction, branch, {})


def emptying(transaction: Transaction) -> None:
    """All files removed from the main branch."""
    metadata = transaction.table_metadata
    if metadata.format_version < 3:
        transaction.delete(AlwaysTrue())
        return
    with _made(_LineageOverwrite, Operation.DELETE, transaction, "main", {}) as producer:
        producer.remove_all()


def _made(
    kind: Any, operation: Operation, transaction: Transaction, branch: str, properties: dict[str, str]
) -> _SnapshotProducer[Any]:
    found: _SnapshotProducer[Any] = kind(
        operation=operation,
        transaction=transaction,
        io=transaction._table.io,
        branch=branch,
        snapshot_properties=properties,
    )
    return found
