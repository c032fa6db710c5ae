"""Streams that change rows: functions for `foreachBatch`, and streams that apply changes to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from lakescan.api.table import Table
from lakescan.errors import InvalidOption
from lakescan.options.keywords import WriteKeywords
from lakescan.spark.session import is_connect
from lakescan.spark.streams.batch_target import BatchTarget
from lakescan.spark.streams.histories import HistorySink
from lakescan.spark.streams.keyed_rows import CHANGE_SEQUENCE, drop_before_images
from lakescan.spark.streams.upserts import UpsertSink

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery


def upsert_sink(
    target: str | os.PathLike[str] | Table,
    keys: str | Sequence[str] | None = None,
    *,
    sequence_by: str | None = None,
    deletes_when: str | None = None,
    in_order: bool = False,
    except_columns: str | Sequence[str] = (),
    query: str | None = None,
    **options: Unpack[WriteKeywords],
) -> UpsertSink:
    """Return a function for `foreachBatch` that merges each batch into a table by keys, exactly once.

    A row of the stream updates the table's row with its keys, deletes it, or is inserted. Each batch is one commit,
    which records the query and the batch, so a batch that Spark repeats after a failure changes nothing. A batch is
    retried after a conflicting concurrent commit.

    Of several rows with the same keys, in the batch and the table, the one with the greatest sequence wins: rows that
    are not newer than the table's row are left out. Deleted keys are not remembered: if an older row arrives in a later
    batch than the delete, it is inserted. To remember deleted keys, mark them in a column instead of using
    `deletes_when`. Rows whose keys or sequences are null fail their batch.

    Args:
        target: An existing table: its name or path, or an open table.
        keys: The columns that identify a row; by default the table's identifier fields (its primary key).
        sequence_by: The order of the rows of a key: a column of stream and table, or `expression AS column` with the
            table's column that stores the value. Without it, rows of a batch with the same keys must be equal.
        deletes_when: An SQL condition over the source. Rows that match it delete the table's row with their keys.
        in_order: Batches arrive in the order of the sequence, like the changes of a table. Then rows are compared only
            within their batch, and the table needs no column for `sequence_by`.
        except_columns: Columns of the source that are not written.
        query: A name for the stream, required if Spark's id of the query is not available: in Connect sessions (unless
            `checkpoint_location` is given) and for batch frames.
        options: Write options, such as `row_change_mode`. With `merge_schema`, columns that the table lacks are added.
            Otherwise the source may only have more columns if `sequence_by` or `deletes_when` uses them, or if they
            describe changes. With `upsert_mode="equality"` (Iceberg), the table is not read, and sequences are compared
            only within a batch.

    Returns:
        A function of a frame and a batch id.

    Raises:
        InvalidOption: The table has no column for the sequence, or has no keys.

    Example:
        >>> sink = lakescan.spark.upsert_sink("local.shop.orders", "id", sequence_by="at", deletes_when="kind = 'D'")
        >>> changes.writeStream.foreachBatch(sink).option("checkpointLocation", "/lake/checkpoint").start()
    """
    return UpsertSink(
        _batch_target(target, query, options), _names(keys), sequence_by, deletes_when, in_order, _names(except_columns)
    )


def history_sink(
    target: str | os.PathLike[str] | Table,
    keys: str | Sequence[str] | None = None,
    *,
    sequence_by: str,
    deletes_when: str | None = None,
    except_columns: str | Sequence[str] = (),
    track_history_columns: str | Sequence[str] | None = None,
    keep_deletes: bool = False,
    query: str | None = None,
    **options: Unpack[WriteKeywords],
) -> HistorySink:
    """Return a `foreachBatch` function that keeps the history of rows (slowly changing dimension type 2), exactly once.

    Each row of the stream is a version of its key. A version is valid from its sequence (`__START_AT`) until before the
    sequence of the next version or delete (`__END_AT`, null for the current version). Late rows are inserted at their
    position, and the adjacent versions get new ends. A row whose sequence the table already has is left out.

    Args:
        target: The table: its name or path, or an open table. It has the columns of the stream, and `__START_AT` and
            `__END_AT` with the type of the sequence.
        keys: The columns that identify a row; by default the table's identifier fields.
        sequence_by: The column or SQL expression that orders the versions of a key.
        deletes_when: An SQL condition over the source. Rows that match it end the current version of their key.
        except_columns: Columns of the source that are not written.
        track_history_columns: Only a change in these columns creates a version. Changes of other columns update the
            existing version, so their earlier values are lost for late rows. By default each row creates a version.
        keep_deletes: Keep deletes that end no version, as rows with `__START_AT = __END_AT` and only keys. Without,
            such a delete is not remembered: an older row that arrives in a later batch gets no end.
        query: A name for the stream; see `upsert_sink`.
        options: Write options, such as `row_change_mode`.

    Returns:
        A function of a frame and a batch id.

    Raises:
        InvalidOption: An option is invalid.

    Example:
        >>> sink = lakescan.spark.history_sink("local.shop.prices", "id", sequence_by="at", deletes_when="kind = 'D'")
        >>> changes.writeStream.foreachBatch(sink).option("checkpointLocation", "/lake/checkpoint").start()
        >>> lakescan.spark.sql(spark, "SELECT * FROM local.shop.prices WHERE __END_AT IS NULL").show()
    """
    table = _batch_target(target, query, options)
    tracked = None if track_history_columns is None else _names(track_history_columns)
    return HistorySink(table, _names(keys), sequence_by, deletes_when, _names(except_columns), tracked, keep_deletes)


def change_rows(frame: DataFrame) -> DataFrame:
    """Convert a stream of changes to inserts, updates and deletes for `upsert_sink`, without images before updates.

    Streams of changes are Delta's change data feed (`readChangeFeed`) and Iceberg's changelogs (`on-change=changelog`),
    from lakescan's data sources or others.

    Args:
        frame: A frame with `_change_type`, and `_commit_version` or `_change_ordinal`; a stream or a batch.

    Returns: The rows with `_change_type` `insert`, `update` or `delete`, and with `_change_sequence`, a number that
        orders the rows of a key. Within a commit, deletes come before inserts. For Iceberg's changelogs, the numbers
        restart in each batch, so they only suit `in_order=True`.

    Raises:
        InvalidOption: The frame does not have the columns of changes.

    Example:
        >>> stream = spark.readStream.format("delta").option("readChangeFeed", True).load("/lake/customers")
        >>> rows = lakescan.spark.change_rows(stream)
        >>> sink = lakescan.spark.upsert_sink(
        ...     "local.shop.copy", "id", sequence_by="_change_sequence", in_order=True,
        ...     deletes_when="_change_type = 'delete'",
        ... )
        >>> rows.writeStream.foreachBatch(sink).option("checkpointLocation", "/lake/checkpoint").start()
    """
    return drop_before_images(frame)


def apply_changes(
    target: str | os.PathLike[str] | Table,
    source: DataFrame,
    keys: str | Sequence[str] | None,
    sequence_by: str,
    *,
    checkpoint: str | os.PathLike[str],
    scd_type: int = 1,
    apply_as_deletes: str | None = None,
    except_columns: str | Sequence[str] = (),
    track_history_columns: str | Sequence[str] | None = None,
    in_order: bool = False,
    keep_deletes: bool = False,
    trigger: Mapping[str, Any] | None = None,
    **options: Unpack[WriteKeywords],
) -> StreamingQuery:
    """Start a stream that applies changes to a table, with the arguments of Databricks' `apply_changes` (AUTO CDC).

    Args:
        target: An existing table. For type 2 it has `__START_AT` and `__END_AT`.
        source: A streaming frame of rows to insert, update and delete. `change_rows` makes one from a table's changes.
        keys: The columns that identify a row; None for the table's identifier fields.
        sequence_by: The order of the rows of a key; see `upsert_sink` and `history_sink`.
        checkpoint: The stream's checkpoint, from which it continues.
        scd_type: 1 keeps the newest row of each key (`upsert_sink`), 2 all versions (`history_sink`).
        apply_as_deletes: An SQL condition over the source. Rows that match it delete their keys.
        except_columns: Columns of the source that are not written.
        track_history_columns: For type 2: the columns whose changes create versions.
        in_order: For type 1: batches arrive in the order of the sequence; always true for `_change_sequence`.
        keep_deletes: For type 2: keep deletes that end no version.
        trigger: The arguments of Spark's `trigger`, such as `{"availableNow": True}`.
        options: Write options, such as `row_change_mode`.

    Returns:
        The running query.

    Raises:
        InvalidOption: The source is not a stream, or an argument is invalid.

    Example:
        >>> query = lakescan.spark.apply_changes(
        ...     "local.shop.customers", stream, keys="id", sequence_by="at", apply_as_deletes="kind = 'D'",
        ...     checkpoint="/lake/checkpoint", trigger={"availableNow": True},
        ... )
    """
    if not source.isStreaming:
        raise InvalidOption("apply_changes takes a stream; for the rows of another frame, call upsert_sink(...)(frame)")
    location: dict[str, Any] = {"checkpoint_location": str(checkpoint)} if is_connect(source.sparkSession) else {}
    sink: UpsertSink | HistorySink
    if scd_type == 2:
        sink = history_sink(
            target,
            keys,
            sequence_by=sequence_by,
            deletes_when=apply_as_deletes,
            except_columns=except_columns,
            track_history_columns=track_history_columns,
            keep_deletes=keep_deletes,
            **{**location, **options},
        )
    elif scd_type == 1 and track_history_columns is None and not keep_deletes:
        sink = upsert_sink(
            target,
            keys,
            sequence_by=sequence_by,
            deletes_when=apply_as_deletes,
            in_order=in_order or sequence_by == CHANGE_SEQUENCE,
            except_columns=except_columns,
            **{**location, **options},
        )
    else:
        raise InvalidOption(
            f"scd_type={scd_type!r}: expected 1, which keeps no history, or 2, which has track_history_columns and "
            "keep_deletes"
        )
    writer = source.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    if (name := options.get("query_name")) is not None:
        writer = writer.queryName(name)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _batch_target(
    target: str | os.PathLike[str] | Table, query: str | None, options: Mapping[str, object]
) -> BatchTarget:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    from lakescan.spark.statements.names import current_namespace

    within: tuple[str, ...] = () if session is None else current_namespace(session)
    return BatchTarget.resolve(target, query, within, options)


def _names(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns or ())
