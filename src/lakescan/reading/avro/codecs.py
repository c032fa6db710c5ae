"""Decompression of Avro blocks with a limit of the result's size, so that a hostile block cannot exhaust memory."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable

import cramjam
import pyarrow as pa

from lakescan.errors import UnsupportedFeature
from lakescan.storage.errors import redact

_PIECE = 1 << 20
_CHECKSUM = 4


class TooLarge(ValueError):
    """A block would decompress to more bytes than the limit (`most`)."""


def decompress_block(codec: str, block: bytes, most: int) -> bytes:
    """Decompress an Avro block; `codec` is a name that passed `check_codec`.

    Raises `TooLarge` for more than `most` bytes, `ValueError` if the codec fails.
    """
    try:
        return _CODECS[codec](block, most)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, pa.ArrowException) as error:
        raise ValueError(f"a block cannot be decompressed ({codec}): {error}") from None


def decompress_snappy(packed: bytes, most: int) -> bytes:
    """Decompress Snappy's raw format, which starts with the decompressed size; raises `TooLarge` above `most`."""
    size = 0
    for place, byte in enumerate(packed[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    if size > most:
        raise TooLarge
    data: bytes = pa.Codec("snappy").decompress(packed, decompressed_size=size, asbytes=True)
    return data


def decompress_lz4(packed: bytes, most: int) -> bytes:
    """Decompress an LZ4 block, which does not record its size; allocates `most` bytes.

    Raises `ValueError` for a damaged block or more than `most` bytes.
    """
    out = bytearray(most)
    try:
        return bytes(out[: cramjam.lz4.decompress_block_into(packed, out)])
    except cramjam.DecompressionError as error:
        raise ValueError(f"a block cannot be decompressed (lz4): {error}") from None


def check_codec(codec: str, source: str) -> None:
    """Raise `UnsupportedFeature` for a codec that is not in the Avro specification. `source` names the file."""
    if codec not in _CODECS:
        known = ", ".join(_CODECS)
        raise UnsupportedFeature(f"Avro codec {codec[:40]!r}", f"{redact(source)} declares it; supported are {known}.")


def _plain(block: bytes, most: int) -> bytes:
    if len(block) > most:
        raise TooLarge
    return block


def _deflate(block: bytes, most: int) -> bytes:
    return _decompress_stream(zlib.decompressobj(-15), block, most)


def _bzip2(block: bytes, most: int) -> bytes:
    return _decompress_stream(bz2.BZ2Decompressor(), block, most)


def _xz(block: bytes, most: int) -> bytes:
    return _decompress_stream(lzma.LZMADecompressor(memlimit=1 << 27), block, most)


def _decompress_stream(
    decompressor: zlib._Decompress | bz2.BZ2Decompressor | lzma.LZMADecompressor, block: bytes, most: int
) -> bytes:
    """Decompress a whole block; raises `TooLarge`, and `EOFError` if its compressed stream is incomplete."""
    data = decompressor.decompress(block, most + 1)
    if len(data) > most:
        raise TooLarge
    if not decompressor.eof:
        raise EOFError("it is truncated")
    return data


def _zstandard(block: bytes, most: int) -> bytes:
    stream, pieces, size = pa.CompressedInputStream(pa.BufferReader(block), "zstd"), [], 0
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise TooLarge
    return b"".join(pieces)


def _snappy(block: bytes, most: int) -> bytes:
    """Decompress Avro's Snappy codec: Snappy's raw format, followed by a CRC-32 of the uncompressed data.

    Raises `TooLarge`, and `EOFError` if the CRC does not match.
    """
    packed, checksum = block[:-_CHECKSUM], block[-_CHECKSUM:]
    data = decompress_snappy(packed, most)
    if zlib.crc32(data).to_bytes(4, "big") != checksum:
        raise EOFError("its checksum does not match")
    return data


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "null": _plain,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}
