"""Changes of rows of Iceberg tables: how they are recorded, and what a commit of them checks.

The rules are those of Iceberg's writer for Spark (`SparkPositionDeltaWrite`, `SparkWrite.CopyOnWriteOperation`).
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
    """The options of a write, with the branch that `wap-branch` means, and as the session of the rows stages them.

    Raises `InvalidOption` if rows are to be staged in a table that does not have `write.wap.enabled`, or the session
    stages them in two ways.
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
    """The option `row-change-mode`, else the table's property for the statement.

    Raises `UnsupportedFeature` for merge-on-read in format version 1, which has no delete files: as in Java, it does
    not stand for copy-on-write there.
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
    """What a commit of these changes read, and what commits since must not have changed.

    With isolation `serializable`, they may not have added rows that the statement may read. UPDATE and MERGE that add
    deletes by position conflict with all deletes of such rows, since they write rows that these may delete. A DELETE
    does not: rows may be deleted twice, and data files that it removes or deletes from may be gone, too.
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
    """What the options add to the summary of a snapshot."""
    epoch = {} if options.transaction is None else {QUERY: options.transaction[0], EPOCH: str(options.transaction[1])}
    staged = {} if options.wap_id is None else {STAGED_ID: options.wap_id}
    return {**options.commit_properties, **epoch, **staged}
