"""AES GCM, as Iceberg uses it: a nonce of 12 random bytes, the ciphertext, a tag of 16 bytes."""

from __future__ import annotations

import secrets
from typing import Any

from lakescan.errors import CorruptMetadata, missing_dependency

NONCE, TAG = 12, 16
OVERHEAD = NONCE + TAG
KEY_LENGTHS = (16, 24, 32)


class TagMismatch(Exception):
    """The tag does not fit: another key, another place (AAD), or changed bytes. GCM cannot tell which."""


class Cipher:
    """Encrypts and decrypts with one key of 16, 24 or 32 bytes; raises `CorruptMetadata` for a key of another length.

    Example:
        >>> Cipher(key).decrypt(Cipher(key).encrypt(b"text", b"aad"), b"aad")
        b'text'
    """

    def __init__(self, key: bytes) -> None:
        if len(key) not in KEY_LENGTHS:
            raise CorruptMetadata(f"an encryption key has {len(key)} bytes; AES keys have 16, 24 or 32")
        self._cipher = _aes_gcm()(bytes(key))

    def encrypt(self, plain: bytes | memoryview, aad: bytes) -> bytes:
        """Encrypt with a new nonce."""
        nonce = secrets.token_bytes(NONCE)
        return nonce + bytes(self._cipher.encrypt(nonce, plain, aad))

    def decrypt(self, data: bytes | memoryview, aad: bytes) -> bytes:
        """Decrypt and check; raises `TagMismatch`."""
        from cryptography.exceptions import InvalidTag

        if len(data) < OVERHEAD:
            raise TagMismatch
        view = memoryview(data)
        try:
            return bytes(self._cipher.decrypt(bytes(view[:NONCE]), view[NONCE:], aad))
        except InvalidTag:
            raise TagMismatch from None


def new_key(length: int) -> bytes:
    """Return a random key of so many bytes."""
    return secrets.token_bytes(length)


def _aes_gcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise missing_dependency("cryptography", "encryption", "an encrypted table") from error
    return AESGCM
