"""Casts leaf columns of a file to the table's type: promotions that both formats allow, and legacy encodings."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata
from lakescan.reading.variant import reassemble_variant


def cast_leaf(array: pa.Array, kind: t.Type, column: str) -> pa.Array:
    """Cast an array of a file to the table's type `kind`; `column` is its name for messages.

    Raises `CorruptMetadata` for a file type that cannot be promoted to the table's.
    """
    target = kind.arrow()
    if array.type == target:
        return array
    if kind == t.VARIANT:
        return _variant(array, column)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        return _cast(array, kind, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise CorruptMetadata(
            f"column {column!r} is {kind} in the table and {array.type} in a data file: {error}"
        ) from error


def pad_bounds(bounds: pa.Array, width: int, *, upper: bool) -> pa.Array:
    """Return the bounds of strings padded to `width`, from bounds of strings that may be stored without padding.

    A string is never greater than itself with trailing spaces, so lower bounds are unchanged. Upper bounds are padded.
    An upper bound with a character below the space becomes null, since it may be less than a shorter string with
    padding.
    """
    if not upper:
        return bounds
    sorts_before = pc.match_substring_regex(bounds, r"[\x00-\x1f]")
    return pc.if_else(sorts_before, pa.scalar(None, bounds.type), pad_texts(bounds, width))


def pad_texts(texts: pa.Array, width: int) -> pa.Array:
    """Pad strings with spaces to `width` characters, as Spark reads CHAR(n). Longer strings are unchanged.

    Width 0, for types other than CHAR(n), changes nothing.
    """
    return pc.utf8_rpad(texts, width) if width else texts


def _cast(array: pa.Array, kind: t.Type, target: pa.DataType) -> pa.Array:
    source = array.type
    if kind == t.UUID:
        return pa.ExtensionArray.from_storage(target, _binary16(array))
    if pa.types.is_null(target):
        return pa.nulls(len(array))
    if kind == t.TIME and pa.types.is_integer(source):  # ORC has no time type: microseconds in a long
        return array.cast(pa.int64()).cast(target)
    if isinstance(kind, t.Timestamp):
        return _timestamp(array, kind, target)
    if isinstance(kind, t.Decimal) and pa.types.is_integer(source):
        # Arrow requires room for every digit of the integer type, even if the values are smaller.
        return array.cast(pa.decimal128(38, kind.scale)).cast(target)
    if pa.types.is_string(target) and pa.types.is_fixed_size_binary(source):
        return array.cast(pa.binary()).cast(target)
    if pa.types.is_boolean(target) != pa.types.is_boolean(source) and not pa.types.is_null(source):
        raise pa.ArrowInvalid("not a promotion that either format allows")
    return array.cast(target)


def _binary16(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        import uuid

        return pa.array([None if v is None else uuid.UUID(v).bytes for v in array.to_pylist()], pa.binary(16))
    return array.cast(pa.binary(16))


def _timestamp(array: pa.Array, kind: t.Timestamp, target: pa.DataType) -> pa.Array:
    """Cast dates, integers or timestamps to a timestamp. Nanoseconds are floored to microseconds, as in Spark.

    A zone does not change the stored number. Raises `ArrowInvalid` for other types.
    """
    source = array.type
    if pa.types.is_date(source):
        return array.cast(pa.timestamp("s")).cast(pa.timestamp(kind.unit)).cast(target)
    if pa.types.is_integer(source):
        return array.cast(pa.int64()).cast(target)
    if not pa.types.is_timestamp(source):
        raise pa.ArrowInvalid("not a timestamp")
    naive = array.cast(pa.timestamp(source.unit))
    if source.unit == "ns" and kind.unit == "us":
        naive = _floor_divide(naive.cast(pa.int64()), 1_000).cast(pa.timestamp("us"))
    return naive.cast(pa.timestamp(kind.unit)).cast(target)


def _floor_divide(numbers: pa.Array, by: int) -> pa.Array:
    """Divide 64-bit integers by a positive number, rounding down.

    Arrow's own flooring of timestamps overflows for the smallest values.
    """
    towards_zero = pc.divide(numbers, by)
    return pc.subtract(towards_zero, pc.less(numbers, pc.multiply(towards_zero, by)).cast(pa.int64()))


def _variant(array: pa.Array, column: str) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    names = {kind.field(i).name for i in range(kind.num_fields)} if pa.types.is_struct(kind) else set()
    if "metadata" not in names or not names <= {"metadata", "value", "typed_value"}:
        raise CorruptMetadata(f"column {column!r} is a variant in the table and {kind} in a data file")
    if "typed_value" in names:
        metadata, values = reassemble_variant(array)
    else:
        metadata, values = (array.field(n).cast(pa.binary()) for n in ("metadata", "value"))
    mask = array.is_null() if array.null_count else None
    if mask is not None:  # the members are not nullable, so Arrow requires values even under null structs
        metadata, values = metadata.fill_null(b""), values.fill_null(b"")
    return pa.StructArray.from_arrays([metadata, values], fields=list(t.VARIANT.arrow()), mask=mask)
