"""Partitions as text: one type for the partitions of all specs, equal just when the partitions are."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def with_partition_key(files: pa.Table) -> pa.Table:
    """The files with their `partition` struct as text, `partition_key`."""
    column = files["partition"]
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    members = [_with_length(_plain(array.field(i)).cast(pa.string())) for i in range(array.type.num_fields)]
    key = pc.binary_join_element_wise(*members, "") if members else pa.repeat(pa.scalar(""), len(array))
    return files.append_column("partition_key", key)


def _with_length(texts: pa.Array) -> pa.Array:
    """Texts after the number of their bytes, which no text can pretend; a null has none."""
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, texts, ":"), "null,")


def _plain(values: pa.Array) -> pa.Array:
    """Values that have a text form of their own."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        encoded = values.dictionary_encode()
        texts = [None if v is None else v.hex() for v in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)
    return values
