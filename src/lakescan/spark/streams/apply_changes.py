"""Streams that change rows: functions for `foreachBatch`, and streams of changes that are applied to a table."""

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
    """A function for `foreachBatch` that merges each batch into a table by keys, exactly once.

    A row updates the row of the table with its keys, deletes it, or is inserted. Each batch is one commit, which
    records the query and the batch: a batch that Spark repeats after a failure changes nothing. After a commit of
    others that conflicts, the batch is run again.

    Of rows with the same keys, the one with the greatest sequence counts, in a batch and against the table: late rows,
    as old as what the table has or older, are left out. Nothing is remembered of deleted keys: an older row that comes
    in a later batch than the delete is inserted. To keep deleted keys, keep a column that says so, without
    `deletes_when`. Rows whose keys or sequences are null fail their batch.

    Args:
        target: The table: its name or path, or an open table. It must be there.
        keys: The columns that identify a row; by default the table's identifier fields (its primary key).
        sequence_by: What orders the rows of a key: a column that the table has, too, or `expression AS column` with the
            column of the table that keeps its value. Without, the rows of a batch have different keys, or are equal.
        deletes_when: An SQL condition over the source: such rows delete the row with their keys.
        in_order: Batches come in the order of the sequence, such as the changes of a table: rows are compared with
            those of their batch alone, and the table needs no column for `sequence_by`.
        except_columns: Columns of the source that are not written.
        query: A name for the stream, if Spark's id of the query is not known: in Connect sessions (there,
            `checkpoint_location` says it, too) and for batch frames.
        options: Write options, such as `row_change_mode`. With `merge_schema`, columns that the table lacks are added;
            else the source has none but those that `sequence_by` and `deletes_when` use, and those of changes. With
            `upsert_mode="equality"` (Iceberg), the table is not read, and sequences are compared within a batch alone.

    Returns:
        A function of a frame and the number of its batch.

    Raises:
        InvalidOption: The table keeps no sequence, or has no keys.

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
    """A function for `foreachBatch` that keeps the history of rows (slowly changing dimension of type 2), exactly once.

    Each row of the stream is a version of its key, which is valid from its sequence (`__START_AT`) until before that of
    the next one, or of a delete (`__END_AT`; null for the present version). Late rows are put into their place: the
    versions around them are cut anew. A row with the sequence of one that the table has is left out.

    Args:
        target: The table: its name or path, or an open table. It has the columns of the stream, and `__START_AT` and
            `__END_AT` with the type of the sequence.
        keys: The columns that identify a row; by default the table's identifier fields.
        sequence_by: The column or SQL expression that orders the versions of a key.
        deletes_when: An SQL condition over the source: such rows end the version of their key.
        except_columns: Columns of the source that are not written.
        track_history_columns: Only a change of one of these makes a version; other columns are updated in the version
            that there is, so that a late row cannot tell any more which values it had before. By default each row makes
            a version.
        keep_deletes: Keep deletes that end no version, as rows with `__START_AT = __END_AT` and otherwise only keys.
            Without, nothing is remembered of them: a row that is older, and comes in a later batch, has no end.
        query: A name for the stream; see `upsert_sink`.
        options: Write options, such as `row_change_mode`.

    Returns:
        A function of a frame and the number of its batch.

    Raises:
        InvalidOption: An option is wrong.

    Example:
        >>> sink = lakescan.spark.history_sink("local.shop.prices", "id", sequence_by="at", deletes_when="kind = 'D'")
        >>> changes.writeStream.foreachBatch(sink).option("checkpointLocation", "/lake/checkpoint").start()
        >>> lakescan.spark.sql(spark, "SELECT * FROM local.shop.prices WHERE __END_AT IS NULL").show()
    """
    table = _batch_target(target, query, options)
    tracked = None if track_history_columns is None else _names(track_history_columns)
    return HistorySink(table, _names(keys), sequence_by, deletes_when, _names(except_columns), tracked, keep_deletes)


def change_rows(frame: DataFrame) -> DataFrame:
    """The rows of a stream of changes as what happened to keys: without the images before updates.

    Streams of changes are those of Delta's change data feed (`readChangeFeed`) and of Iceberg's changelogs
    (`on-change=changelog`), of lakescan's sources and others.

    Args:
        frame: A frame with `_change_type`, and `_commit_version` or `_change_ordinal`; a stream or a batch.

    Returns:
        The rows with `_change_type` `insert`, `update` or `delete`, and `_change_sequence`, a number by which the rows
        of a key are in order: within a commit, deletes come before inserts. That of Iceberg's changelogs begins anew in
        each batch, so that it is for `in_order=True` alone.

    Raises:
        InvalidOption: The frame is not of changes.

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
    """Start a stream that applies changes to a table, in the words of Databricks' `apply_changes` (AUTO CDC).

    Args:
        target: The table; it must be there, and has `__START_AT` and `__END_AT` for type 2.
        source: A streaming frame of rows to insert, update and delete; `change_rows` makes one of a table's changes.
        keys: The columns that identify a row; None for the table's identifier fields.
        sequence_by: What orders the rows of a key; see `upsert_sink` and `history_sink`.
        checkpoint: The stream's checkpoint, from which it continues.
        scd_type: 1 keeps the newest row of each key (`upsert_sink`), 2 all versions (`history_sink`).
        apply_as_deletes: An SQL condition over the source: such rows delete their keys.
        except_columns: Columns of the source that are not written.
        track_history_columns: For type 2: the columns whose changes make versions.
        in_order: For type 1: batches come in the order of the sequence; always so for `_change_sequence`.
        keep_deletes: For type 2: keep deletes that end no version.
        trigger: The arguments of Spark's `trigger`, such as `{"availableNow": True}`.
        options: Write options, such as `row_change_mode`.

    Returns:
        The running query.

    Raises:
        InvalidOption: The source is no stream, or an argument is wrong.

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
