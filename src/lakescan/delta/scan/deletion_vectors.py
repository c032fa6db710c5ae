"""Locate deletion vectors by their descriptors (protocol, "Deletion Vectors" and "Deletion Vector Descriptor").

Storage types: `u` is a file under the table's folder named by a UUID, `p` a file with an absolute path, `i` inline in
the log.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.uuids import format_uuids
from lakescan.delta.log.log_text import ADVICE, short_json
from lakescan.delta.log.replay import decoded_paths
from lakescan.errors import CorruptMetadata
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.file_table import DELETES
from lakescan.storage import join
from lakescan.storage.locations import adopt_root

_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_DIGIT = np.full(256, 255, dtype=np.uint8)
_DIGIT[np.frombuffer(_ALPHABET, dtype=np.uint8)] = np.arange(85)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.int64)
_LARGEST = (1 << 32) - 1
_UUID_LENGTH = 20
_SIZE_AND_CRC = 8


def decode_z85(text: bytes) -> bytes:
    """Decode Base85 in the Z85 alphabet, five characters to four bytes; raises `CorruptMetadata`.

    The protocol pads the bytes at the end, and the descriptor's size removes the padding. Rust's Z85 library instead
    pads the last group with up to three `#` at the start, one for each missing byte. No other group can start with `#`.
    """
    digits = _DIGIT[np.frombuffer(text, dtype=np.uint8)]
    if len(text) % 5 or (digits == 255).any():
        raise _not_base85(text)
    groups = digits.reshape(-1, 5).copy()
    padding = min(3, len(text[-5:]) - len(text[-5:].lstrip(b"#")))
    groups[-1:, :padding] = 0
    words = _words(groups)
    if (words > _LARGEST).any() or (padding and words[-1] >> 8 * (4 - padding)):
        raise _not_base85(text)
    found = words.astype(">u4").tobytes()
    last = len(found) - 4
    return found[:last] + found[last + padding :]


def encode_z85(data: bytes) -> str:
    """Encode bytes in Base85 with the Z85 alphabet; their number must be a multiple of four."""
    words = np.frombuffer(data, dtype=">u4").astype(np.int64)
    digits = words[:, None] // _POWERS % 85
    return np.frombuffer(_ALPHABET, dtype=np.uint8)[digits].tobytes().decode()


def _words(digits: np.ndarray) -> np.ndarray:
    """Return the numbers that groups of five Base85 digits represent; they may be too large for four bytes."""
    return digits.astype(np.int64) @ _POWERS


def _not_base85(text: bytes) -> CorruptMetadata:
    return CorruptMetadata(f"an inline deletion vector is not valid Base85: {text[:40]!r}. {ADVICE}")


def delete_table(vectors: pa.StructArray, location: str, *, kept: bool = False) -> pa.Table:
    """Return the delete table of non-null descriptors, one row each; `location` is the table's folder.

    With `kept`, the vectors contain the rows to read instead of the deleted rows. Raises `CorruptMetadata` for a
    descriptor that is not valid Base85.
    """
    kinds, where, offsets, sizes, counts = (vectors.field(f.name) for f in vectors.type)
    rows = len(vectors)
    inline = pc.equal(kinds, "i")
    try:
        paths, bitmaps = _paths(kinds, where, location), _inline(where, inline, sizes)
    except CorruptMetadata as error:
        raise CorruptMetadata(f"{location}: {error}") from error
    lengths = pc.add(sizes.cast(pa.int64()), _SIZE_AND_CRC)
    return pa.table(
        {
            "kind": pa.repeat(pa.scalar(DeleteKind.VECTOR), rows),
            "path": paths,
            "file_format": pa.nulls(rows, pa.string()),
            "offset": pc.if_else(inline, pa.scalar(None, pa.int64()), pc.fill_null(offsets.cast(pa.int64()), 0)),
            "length": pc.if_else(inline, pa.scalar(None, pa.int64()), lengths),
            "inline": bitmaps,
            "record_count": counts,
            "size": lengths,
            "sequence_number": pa.nulls(rows, pa.int64()),
            "equality_ids": pa.nulls(rows, pa.list_(pa.int32())),
            "key_metadata": pa.nulls(rows, pa.binary()),
            "scope": pa.nulls(rows, pa.string()),
            "kept": pa.repeat(kept, rows),
        },
        schema=DELETES,
    )


def _paths(kinds: pa.Array, where: pa.Array, location: str) -> pa.Array:
    is_uuid = pc.equal(kinds, "u")
    uris = pc.if_else(pc.equal(kinds, "p"), where, pa.scalar(None, pa.string()))
    absolute = adopt_root(decoded_paths(uris), location)  # like paths of adds
    if not pc.any(is_uuid).as_py():
        return absolute
    encoded = where.filter(is_uuid)
    prefixes = pc.utf8_slice_codeunits(encoded, 0, -_UUID_LENGTH)
    folders = pc.if_else(
        pc.equal(prefixes, ""),
        join(location, ""),
        pc.binary_join_element_wise(join(location, ""), prefixes, "/", ""),
    )
    names = pc.binary_join_element_wise(folders, "deletion_vector_", _uuids(encoded), ".bin", "")
    return pc.replace_with_mask(absolute, is_uuid, names)


def _uuids(encoded: pa.Array) -> pa.Array:
    """Decode UUIDs from the last 20 characters of descriptors, and return them as text; raises `CorruptMetadata`."""
    texts = pc.utf8_slice_codeunits(encoded, -_UUID_LENGTH).cast(pa.binary())
    if (at := pc.index(pc.equal(pc.binary_length(texts), _UUID_LENGTH), False).as_py()) >= 0:
        raise CorruptMetadata(
            f"a deletion vector's path is not a Base85 UUID: {short_json(encoded[at].as_py())}. {ADVICE}"
        )
    last = texts.cast(pa.binary(_UUID_LENGTH))
    raw = np.frombuffer(last.buffers()[1], dtype=np.uint8, count=len(last) * _UUID_LENGTH, offset=last.offset * 20)
    digits = _DIGIT[raw].reshape(-1, 4, 5)
    words = _words(digits)
    if (wrong := ((digits == 255) | (words > _LARGEST)[..., None]).any(axis=(1, 2))).any():
        text = short_json(encoded[int(wrong.argmax())].as_py())
        raise CorruptMetadata(f"a deletion vector's path is not a Base85 UUID: {text}. {ADVICE}")
    return format_uuids(np.ascontiguousarray(words.astype(">u4")).view(np.uint8).reshape(-1, 16))


def _inline(where: pa.Array, inline: pa.Array, sizes: pa.Array) -> pa.Array:
    """Decode inline vectors and cut them to their size, at one Python call per vector; null for others."""
    rows = zip(where.to_pylist(), inline.to_pylist(), sizes.to_pylist(), strict=True)
    return pa.array(
        [decode_z85(text.encode())[:size] if is_inline else None for text, is_inline, size in rows],
        pa.binary(),
    )
