"""AES GCM streams: files encrypted in blocks of 1 MiB (Iceberg's "AES GCM Stream file format extension").

A file consists of `AGS1`, the block length, and blocks of nonce, ciphertext and tag. The AAD of a block is the file's
prefix and the block's number, so that blocks cannot be exchanged. The file length in the key metadata shows whether
blocks are missing at the end.
"""

from __future__ import annotations

import io
import os
import secrets
import struct
from collections.abc import Iterator
from typing import Any

from lakescan.errors import CorruptData, CorruptMetadata, missing_dependency
from lakescan.storage.encryption.key_manager import FileKey

NONCE, TAG = 12, 16
OVERHEAD = NONCE + TAG
KEY_LENGTHS = (16, 24, 32)


class TagMismatch(Exception):
    """The authentication tag does not match: another key, another AAD, or changed bytes."""


class Cipher:
    """Encrypts and decrypts by AES GCM with a key of 16, 24 or 32 bytes.

    Raises `CorruptMetadata` for a key of another length, and `MissingDependency` if cryptography is not installed.

    Example:
        >>> Cipher(key).decrypt(Cipher(key).encrypt(b"text", b"aad"), b"aad")
        b'text'
    """

    def __init__(self, key: bytes) -> None:
        if len(key) not in KEY_LENGTHS:
            raise CorruptMetadata(f"an encryption key has {len(key)} bytes; AES keys have 16, 24 or 32")
        self._cipher = _aes_gcm()(bytes(key))

    def encrypt(self, plain: bytes | memoryview, aad: bytes) -> bytes:
        """Encrypt with a new random nonce; return nonce, ciphertext and tag, joined. `aad` is authenticated only."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + bytes(self._cipher.encrypt(nonce, plain, aad))

    def decrypt(self, data: bytes | memoryview, aad: bytes) -> bytes:
        """Decrypt and authenticate a result of `encrypt` with the same `aad`; raises `TagMismatch`."""
        from cryptography.exceptions import InvalidTag

        if len(data) < OVERHEAD:
            raise TagMismatch
        view = memoryview(data)
        try:
            return bytes(self._cipher.decrypt(bytes(view[:NONCE]), view[NONCE:], aad))
        except InvalidTag:
            raise TagMismatch from None


def new_key(length: int) -> bytes:
    """Return a random key of `length` bytes."""
    return secrets.token_bytes(length)


def _aes_gcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise missing_dependency("cryptography", "encryption", "an encrypted table") from error
    return AESGCM


MAGIC = b"AGS1"
BLOCK = 1 << 20  # bytes of a block before encryption; readers refuse any other size, like Java's
_HEADER = MAGIC + struct.pack("<i", BLOCK)
_CIPHER_BLOCK = BLOCK + OVERHEAD


def plain_length(length: int) -> int:
    """Return the decrypted length of an AES GCM stream of `length` bytes; raises `ValueError` if it is impossible."""
    full, rest = divmod(length - len(_HEADER), _CIPHER_BLOCK)
    if full < 0 or (not full and not rest) or 0 < rest < OVERHEAD or (full and rest == OVERHEAD):
        raise ValueError(f"no stream has {length:,} bytes")
    return full * BLOCK + (rest - OVERHEAD if rest else 0)


def encrypt_stream(plain: bytes, key: FileKey) -> bytes:
    """Encrypt a whole file; return the bytes of an AES GCM stream.

    Example:
        >>> decrypt_stream(encrypt_stream(b"rows", key), key, "f", len(data))
        b'rows'
    """
    sink = io.BytesIO()
    with GcmWriter(sink, key) as writer:
        writer.write(plain)
    return sink.getvalue()


def decrypt_stream(data: bytes, key: FileKey, path: str) -> bytes:
    """Decrypt a whole file; raises `CorruptData` and `CorruptMetadata` like `GcmReader`. `path` is for messages."""
    return GcmReader(io.BytesIO(data), len(data), key, path).read()


class GcmWriter(io.RawIOBase):
    """A writable file that encrypts into `sink`. `length` is the number of encrypted bytes written to the sink.

    An empty file has one empty block, as in Java. `close` writes the last block, and leaves the sink open.
    """

    def __init__(self, sink: Any, key: FileKey) -> None:
        self._sink, self._cipher, self._prefix = sink, Cipher(key.key), key.aad_prefix or b""
        self._kept, self._blocks, self._plain = bytearray(), 0, 0
        sink.write(_HEADER)
        self.length: int = len(_HEADER)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Encrypt and write all full blocks, and buffer the rest; return the number of bytes of `data`."""
        view = memoryview(data).cast("B")
        self._plain += len(view)
        start = 0
        if self._kept:
            start = min(BLOCK - len(self._kept), len(view))
            self._kept += view[:start]
            if len(self._kept) == BLOCK:
                self._write_block(memoryview(bytes(self._kept)))
                self._kept.clear()
        while len(view) - start >= BLOCK:
            self._write_block(view[start : start + BLOCK])
            start += BLOCK
        self._kept += view[start:]
        return len(view)

    def tell(self) -> int:
        """Return the number of bytes written, before encryption."""
        return self._plain

    def close(self) -> None:
        """Write the last block. The sink stays open."""
        if not self.closed:
            if self._kept or not self._blocks:
                self._write_block(memoryview(bytes(self._kept)))
                self._kept.clear()
            super().close()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()

    def __del__(self) -> None:
        """Do nothing, so that an abandoned file is not completed."""

    def _write_block(self, block: memoryview) -> None:
        data = self._cipher.encrypt(block, self._prefix + struct.pack("<i", self._blocks))
        self._sink.write(data)
        self._blocks += 1
        self.length += len(data)


class GcmReader(io.RawIOBase):
    """The decrypted content of an AES GCM stream, for random access. Blocks are decrypted when they are read.

    `file` is the open encrypted file, with `seek` and `read`, of `size` bytes. `path` names it in errors. Raises
    `CorruptData` if the file is not a stream or its size differs from its key metadata, and `CorruptMetadata` if the
    key metadata has no length. `read` raises `CorruptData` for a block that is not authentic.
    """

    def __init__(self, file: Any, size: int, key: FileKey, path: str) -> None:
        self._file, self._path, self._prefix = file, path, key.aad_prefix or b""
        self._at, self._number, self._block = 0, -1, b""
        if key.file_length is None:
            raise CorruptMetadata(
                f"{path}: its key metadata has no file length, which is needed to detect truncated files"
            )
        if size != key.file_length:
            what = "truncated" if size < key.file_length else "appended to, or replaced"
            raise self._fault(f"it has {size:,} bytes, but {key.file_length:,} by its key metadata: it was {what}")
        try:
            self.size: int = plain_length(size)
        except ValueError as error:
            raise self._fault(str(error)) from None
        file.seek(0)
        header = _read_all(file, len(_HEADER))
        if header[: len(MAGIC)] != MAGIC:
            raise self._fault(f"it starts with {header[: len(MAGIC)]!r}, but encrypted streams with {MAGIC!r}")
        if header != _HEADER:
            (block,) = struct.unpack("<i", header[len(MAGIC) :])
            raise self._fault(f"its blocks have {block:,} bytes, but those of Iceberg's streams {BLOCK:,}")
        self._cipher = Cipher(key.key)

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position in the decrypted content."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a position in the decrypted content, and return it; raises `ValueError` for a negative one."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._at = start + offset
        return self._at

    def read(self, count: int | None = -1, /) -> bytes:
        """Read `count` bytes, or all remaining ones. Returns fewer bytes only at the end."""
        left = max(self.size - self._at, 0)
        parts = list(self._parts(left if count is None or count < 0 else min(count, left)))
        self._at += sum(map(len, parts))
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer, and return the number of bytes read: 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def _parts(self, count: int) -> Iterator[memoryview]:
        if not self.size:
            self._read_block(0)  # authenticate an empty file, too
        at, stop = self._at, self._at + count
        while at < stop:
            number, start = divmod(at, BLOCK)
            self._read_block(number)
            part = memoryview(self._block)[start : start + stop - at]
            yield part
            at += len(part)

    def _read_block(self, number: int) -> None:
        if number == self._number:
            return
        length = min(BLOCK, self.size - number * BLOCK) + OVERHEAD
        self._file.seek(len(_HEADER) + number * _CIPHER_BLOCK)
        data = _read_all(self._file, length)
        try:
            self._block = self._cipher.decrypt(data, self._prefix + struct.pack("<i", number))
        except TagMismatch:
            raise self._fault(
                f"its block {number} is not authentic: it was changed or moved, or its key metadata has another key"
            ) from None
        self._number = number

    def _fault(self, what: str) -> CorruptData:
        return CorruptData(f"{self._path}: {what}. Restore the file.")


def _read_all(file: Any, length: int) -> bytes:
    """Read `length` bytes, or fewer at the end of the file. Continues after short reads."""
    parts, left = [], length
    while left and (part := file.read(left)):
        parts.append(bytes(part))
        left -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
