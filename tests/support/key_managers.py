"""Key managers for tests: keys in memory, wrapped as Java's `MemoryMockKMS` wraps them."""

from __future__ import annotations

from typing import ClassVar

from lakescan.storage.encryption import KeyManager
from lakescan.storage.encryption.gcm_stream import Cipher, TagMismatch


class TestKeys(KeyManager):
    """The master keys of Java's `UnitestKMS`. `calls` counts the requests."""

    __test__ = False
    master: ClassVar[dict[str, bytes]] = {"keyA": b"0123456789012345", "keyB": b"1123456789012345"}

    def __init__(self) -> None:
        self.calls = {"wrap": 0, "unwrap": 0}

    def wrap_key(self, key: bytes, wrapping_key_id: str) -> bytes:
        self.calls["wrap"] += 1
        return Cipher(self.master[wrapping_key_id]).encrypt(key, b"")

    def unwrap_key(self, wrapped_key: bytes, wrapping_key_id: str) -> bytes:
        self.calls["unwrap"] += 1
        try:
            return Cipher(self.master[wrapping_key_id]).decrypt(wrapped_key, b"")
        except TagMismatch:
            raise ValueError(f"not wrapped by {wrapping_key_id}") from None


class OtherKeys(TestKeys):
    """Keys of the same names with other bytes."""

    master: ClassVar[dict[str, bytes]] = {"keyA": b"another master k", "keyB": b"another master l"}


NAME = f"{__name__}:TestKeys"
