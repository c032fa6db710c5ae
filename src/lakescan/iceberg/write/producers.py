"""Snapshot producers: appends, overwrites, deletes, and rewrites (`replace`), which pyiceberg does not have.

They only build snapshots; `outcomes` commits them. pyiceberg's own commits validate conflicts by other rules, which
miss deletes that others add to replaced files, and remove the files of a commit as soon as the catalog reports failure.
"""

from __future__ import annotations

import struct
from typing import Any

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import index_by_id
from pyiceberg.table import Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.table.update.snapshot import (
    _DeleteFiles,
    _FastAppendFiles,
    _MergeAppendFiles,
    _OverwriteFiles,
    _SnapshotProducer,
)
from pyiceberg.types import DoubleType

from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.metadata.format_versions import VERSIONS
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.write.row_lineage import LineageSnapshot


class _KeepsRetention:
    """A snapshot that preserves its branch's retention, which pyiceberg's commits drop.

    Producers that remove files also call `delete_by_predicate(AlwaysTrue())`, so that all manifests are searched.
    """

    def _commit(self: Any) -> Any:
        updates, requirements = super()._commit()  # type: ignore[misc]
        before = self._transaction.table_metadata.refs.get(self._target_branch)
        return tuple(_with_retention(each, before) for each in updates), requirements

    def _build_delete_files_partition_predicate(self) -> None:
        """Do nothing: all manifests are searched, and pyiceberg cannot build a predicate for a NaN partition."""


def _with_retention(update: Any, before: SnapshotRef | None) -> Any:
    if before is None or not isinstance(update, SetSnapshotRefUpdate):
        return update
    names = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
    return update.model_copy(update={name: getattr(before, name) for name in names})


class _Replace(_KeepsRetention):
    """A snapshot whose operation is `replace`: it changes no rows."""

    def _summary(self, snapshot_properties: dict[str, str] = {}) -> Summary:  # noqa: B006
        summary = super()._summary(snapshot_properties)  # type: ignore[misc]
        return Summary(operation=Operation.REPLACE, **summary.additional_properties)


class _FastAppend(_KeepsRetention, _FastAppendFiles):
    pass


class _MergeAppend(_KeepsRetention, _MergeAppendFiles):
    pass


class _Overwrite(_KeepsRetention, _OverwriteFiles):
    pass


class _Delete(_KeepsRetention, _DeleteFiles):
    pass


class _Rewrite(_Replace, _OverwriteFiles):
    pass


class _LineageAppend(_KeepsRetention, LineageSnapshot, _FastAppendFiles):
    pass


class _LineageOverwrite(_KeepsRetention, LineageSnapshot, _OverwriteFiles):
    pass


class _LineageRewrite(_Replace, LineageSnapshot, _OverwriteFiles):
    pass


def appending(transaction: Transaction, branch: str, properties: dict[str, str]) -> _SnapshotProducer[Any]:
    """A producer that adds files. Merges manifests if the table asks for it, except in format version 3."""
    metadata = transaction.table_metadata
    merges = IcebergProperties(metadata.properties, metadata.location).merges_manifests
    kind = _LineageAppend if VERSIONS[metadata.format_version].row_lineage else _MergeAppend if merges else _FastAppend
    if kind is _MergeAppend:
        _check_partitions_are_read(metadata)
    return _producer(kind, Operation.APPEND, transaction, branch, properties)


def overwriting(transaction: Transaction, branch: str, properties: dict[str, str]) -> _SnapshotProducer[Any]:
    """A producer that replaces files; its operation is `append` for the first snapshot of a branch."""
    metadata = transaction.table_metadata
    _check_partitions_are_read(metadata)
    is_first = metadata.snapshot_by_name(branch) is None
    kind = _LineageOverwrite if VERSIONS[metadata.format_version].row_lineage else _Overwrite
    return _producer(kind, Operation.APPEND if is_first else Operation.OVERWRITE, transaction, branch, properties)


def rewriting(transaction: Transaction, branch: str, properties: dict[str, str]) -> _SnapshotProducer[Any]:
    """A producer that replaces files by others with the same rows (operation `replace`)."""
    metadata = transaction.table_metadata
    _check_partitions_are_read(metadata)
    kind = _LineageRewrite if VERSIONS[metadata.format_version].row_lineage else _Rewrite
    return _producer(kind, Operation.OVERWRITE, transaction, branch, properties)


def emptying(transaction: Transaction) -> _SnapshotProducer[Any]:
    """A producer that removes all files from the main branch."""
    metadata = transaction.table_metadata
    _check_partitions_are_read(metadata)
    has_lineage = VERSIONS[metadata.format_version].row_lineage and metadata.current_snapshot() is not None
    kind = _LineageOverwrite if has_lineage else _Delete
    producer = _producer(kind, Operation.DELETE, transaction, "main", {})
    if isinstance(producer, LineageSnapshot):
        producer.remove_all()
    else:
        producer.delete_by_predicate(AlwaysTrue())
    return producer


def _check_partitions_are_read(metadata: TableMetadata) -> None:
    """Raise `UnsupportedFeature` if rewritten manifest entries would get wrong partition values.

    pyiceberg 0.12 reads doubles as floats (0.1 as 0.10000000149011612) if its compiled decoder is installed.
    """
    if new_decoder(struct.pack("<d", 0.1)).read_double() == 0.1:
        return
    columns = (index_by_id(schema).values() for schema in metadata.schemas)
    doubles = {field.field_id for each in columns for field in each if field.field_type == DoubleType()}
    for spec in metadata.partition_specs:
        for each in spec.fields:
            if each.source_id in doubles and str(each.transform) == "identity":
                raise UnsupportedFeature(
                    f"replacing files of an Iceberg table that is partitioned by the double column {each.name!r}",
                    "This version of pyiceberg reads doubles in manifests as floats. Only appends are possible.",
                )


def _producer(
    kind: Any, operation: Operation, transaction: Transaction, branch: str, properties: dict[str, str]
) -> _SnapshotProducer[Any]:
    producer: _SnapshotProducer[Any] = kind(
        operation=operation,
        transaction=transaction,
        io=transaction._table.io,
        branch=branch,
        snapshot_properties=properties,
    )
    return producer
