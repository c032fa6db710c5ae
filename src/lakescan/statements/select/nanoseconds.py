"""Times of nanoseconds in SQL in this process, which has microseconds, as Spark's: exact, or refused by name."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakescan.errors import SchemaMismatch, UnsupportedFeature


def microsecond_type(kind: pa.DataType) -> pa.DataType:
    """The type with microseconds in the place of nanoseconds, in members of structs, lists and maps, too."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit == "ns" else kind
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(microsecond_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(microsecond_type(kind.key_type), kind.item_field.with_type(microsecond_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(microsecond_type(kind.value_type)))
    return kind


def microsecond_converter(
    schema: pa.Schema, shown: str
) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch]] | None:
    """The schema with microseconds, and what converts batches; None for one without nanoseconds.

    Args:
        schema: The schema of the batches.
        shown: What has the rows, for messages.

    Returns:
        The function raises `UnsupportedFeature` for a value that has nanoseconds: it is not rounded.
    """
    made = pa.schema([each.with_type(microsecond_type(each.type)) for each in schema], schema.metadata)
    if made == schema:
        return None

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [_convert_column(column, field, shown) for column, field in zip(batch.columns, made, strict=True)],
            schema=made,
        )

    return made, convert


def _convert_column(column: pa.Array, field: pa.Field, shown: str) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(
            f"reading {field.name!r} of {shown}, which has nanoseconds, in SQL",
            f"SQL has microseconds, as on Spark, and rounds nothing ({error}). Read it with Table.scan, which has "
            "nanoseconds, or leave the column out.",
        ) from error


def as_microseconds(frame: pa.Table, shown: str) -> pa.Table:
    """The rows of a user with microseconds, as pandas' times usually are.

    Raises:
        SchemaMismatch: A value has nanoseconds.
    """
    made = pa.schema([each.with_type(microsecond_type(each.type)) for each in frame.schema], frame.schema.metadata)
    if made == frame.schema:
        return frame
    try:
        return frame.cast(made)
    except pa.ArrowInvalid:
        for field in frame.schema:
            try:
                frame[field.name].cast(microsecond_type(field.type))
            except pa.ArrowInvalid as error:
                raise SchemaMismatch(
                    f"the column {field.name!r} of {shown} has nanoseconds, which SQL would round: {error}. Round it "
                    "to microseconds first, or append the rows"
                ) from error
        raise
