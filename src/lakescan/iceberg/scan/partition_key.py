"""Partitions as text keys: one type for all specs, equal if and only if the partitions are equal."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import dictionary_codes


def add_partition_key(files: pa.Table) -> pa.Table:
    """Add `partition_key`, the `partition` struct as text."""
    column = files["partition"]
    array = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    members = [_prefix_length(_plain(array.field(i)).cast(pa.string())) for i in range(array.type.num_fields)]
    key = pc.binary_join_element_wise(*members, "") if members else pa.repeat(pa.scalar(""), len(array))
    return files.append_column("partition_key", key)


def partition_numbers(files: pa.Table) -> np.ndarray:
    """The partition and spec of each file as a number, from 0 in order of appearance."""
    keyed = add_partition_key(files)
    return dictionary_codes(
        pc.binary_join_element_wise(keyed["spec_id"].cast(pa.string()), keyed["partition_key"], "/")
    )


def _prefix_length(texts: pa.Array) -> pa.Array:
    """Prefix each text with its length in bytes, so that joined texts are unambiguous; a null has no length."""
    lengths = pc.binary_length(texts).cast(pa.string())
    return pc.fill_null(pc.binary_join_element_wise(lengths, texts, ":"), "null,")


def _plain(values: pa.Array) -> pa.Array:
    """Values that Arrow can cast to text: binary as hex, extension types as their storage."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_binary(values.type) or pa.types.is_fixed_size_binary(values.type):
        encoded = values.dictionary_encode()
        texts = [None if v is None else v.hex() for v in encoded.dictionary.to_pylist()]
        return pa.array(texts, pa.string()).take(encoded.indices)
    return values
