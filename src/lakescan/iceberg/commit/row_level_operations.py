"""Row-level operations on Iceberg tables: copy-on-write or merge-on-read, staging, and conflict checks.

The rules are those of Iceberg's Spark writer (`SparkPositionDeltaWrite`, `SparkWrite.CopyOnWriteOperation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.expressions.bind import bind_columns_only
from lakescan.expressions.predicate import TRUE
from lakescan.iceberg.commit.commit import STAGED_ID
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.metadata.application_transactions import EPOCH, QUERY
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.options.write import WriteOptions
from lakescan.tables.row_changes import RowChanges, RowLevelCommand, RowLevelOperationMode


def staged_options(options: WriteOptions, properties: Mapping[str, str], table: str) -> WriteOptions:
    """Return the options of a write with `wap-branch` resolved to a branch, and with the session's staging options.

    Raises `InvalidOption` if the options stage rows of a table without `write.wap.enabled`, or if the session stages
    them in two ways.
    """
    is_audited = IcebergProperties(properties, table).is_audited
    if is_audited:
        options = replace(options.apply_session_staging(), session=options.session.options_only)
    if not options.is_staged:
        return options
    if not is_audited:
        name = "wap-id" if options.wap_id is not None else "wap-branch"
        raise InvalidOption(
            f"{name} stages rows of {table}, whose property write.wap.enabled is not true: set it first, or write to a "
            "branch with the option branch"
        )
    return options if options.wap_branch is None else replace(options, branch=options.wap_branch, wap_branch=None)


def row_change_mode(
    statement: RowLevelCommand, metadata: TableMetadata, options: WriteOptions
) -> RowLevelOperationMode:
    """Return the option `row-change-mode`, else the table's property for the command.

    Raises `UnsupportedFeature` for merge-on-read in format version 1, which has no delete files. As in Java, it does
    not fall back to copy-on-write.
    """
    properties = metadata.table_properties
    modes = {
        RowLevelCommand.DELETE: lambda: properties.delete_mode,
        RowLevelCommand.UPDATE: lambda: properties.update_mode,
        RowLevelCommand.MERGE: lambda: properties.merge_mode,
    }
    mode = RowLevelOperationMode(options.row_change_mode or modes[statement]())
    if mode is RowLevelOperationMode.MERGE_ON_READ and metadata.format_version < 2:
        raise UnsupportedFeature(
            f"{statement.upper()} with merge-on-read in {metadata.location}, of format version 1",
            "Upgrade the table to version 2, or use row-change-mode=copy-on-write.",
        )
    return mode


def row_change_validation(changes: RowChanges, base: CommitBase, options: WriteOptions) -> Validation:
    """Return the conflict validation of row-level changes: the rows read, and the concurrent changes that conflict.

    With isolation `serializable`, concurrent commits may not have added rows that the statement may read. UPDATE and
    MERGE with position deletes conflict with all concurrent deletes of such rows, because they also write new versions
    of these rows. A DELETE does not conflict: rows may be deleted twice, and data files that it removes or deletes from
    may have been removed.
    """
    deletes_only = changes.statement is RowLevelCommand.DELETE and not changes.files
    read = Validation.create(
        base,
        where=TRUE if changes.read is None else bind_columns_only(changes.read, base.metadata.schema),
        isolation=options.isolation_level or _isolation(changes.statement, base.metadata),
        checks_deletes=changes.statement is not RowLevelCommand.DELETE and bool(changes.deletes),
        ignores_deletes=deletes_only,
        all_deleted=deletes_only,
    )
    start = options.validate_from_snapshot_id
    return read if start is None else replace(read, start=start)


def _isolation(statement: RowLevelCommand, metadata: TableMetadata) -> str:
    properties = metadata.table_properties
    match statement:
        case RowLevelCommand.DELETE:
            return properties.delete_isolation
        case RowLevelCommand.UPDATE:
            return properties.update_isolation
    return properties.merge_isolation


def summary_properties(options: WriteOptions) -> dict[str, str]:
    """Return the properties that the options add to the summary of a snapshot."""
    epoch = {} if options.transaction is None else {QUERY: options.transaction[0], EPOCH: str(options.transaction[1])}
    staged = {} if options.wap_id is None else {STAGED_ID: options.wap_id}
    return {**options.commit_properties, **epoch, **staged}
