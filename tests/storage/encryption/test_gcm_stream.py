"""AES GCM streams: a file is decrypted correctly from any position, or not at all."""

from __future__ import annotations

import io
import struct

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.storage.encryption import FileKey
from lakescan.storage.encryption.gcm_stream import (
    BLOCK,
    GcmReader,
    GcmWriter,
    decrypt_stream,
    encrypt_stream,
    plain_length,
)
from lakescan.storage.encryption.key_manager import StandardMetadata

KEY, PREFIX = b"0123456789012345", b"1234567890123456"
WHOLE = 8 + (BLOCK + 28)  # bytes of a file of one whole block
PLAIN = bytes(range(256)) * (BLOCK // 256) * 2 + b"the rest"  # two blocks and a bit


def key_of(data: bytes, key: bytes = KEY, prefix: bytes | None = PREFIX) -> FileKey:
    return FileKey(key, prefix, len(data))


STREAM = encrypt_stream(PLAIN, FileKey(KEY, PREFIX))


@pytest.mark.parametrize("length", [0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
@pytest.mark.parametrize("key", [b"k" * 16, b"k" * 24, b"k" * 32])
def test_a_file_is_read_as_it_was_written(length: int, key: bytes) -> None:
    plain = PLAIN[:length]
    data = encrypt_stream(plain, FileKey(key, PREFIX))
    assert plain_length(len(data)) == length
    assert decrypt_stream(data, FileKey(key, PREFIX, len(data)), "f") == plain


def test_the_layout_follows_the_specification() -> None:
    """Magic and block length, then blocks of nonce, ciphertext and tag; the AAD is the prefix and a number."""
    assert STREAM[:8] == b"AGS1" + struct.pack("<I", 1024 * 1024)
    blocks = [STREAM[8:][start : start + BLOCK + 28] for start in range(0, len(STREAM) - 8, BLOCK + 28)]
    plain = [AESGCM(KEY).decrypt(b[:12], b[12:], PREFIX + struct.pack("<I", i)) for i, b in enumerate(blocks)]
    assert b"".join(plain) == PLAIN
    assert [len(each) for each in plain] == [BLOCK, BLOCK, 8]


def test_a_block_made_by_the_cipher_alone_is_read() -> None:
    data = bytes.fromhex("4147533100001000") + bytes(12) + AESGCM(KEY).encrypt(bytes(12), b"known", PREFIX + bytes(4))
    assert decrypt_stream(data, key_of(data), "f") == b"known"


def test_test_case_4_of_the_gcm_specification_holds() -> None:
    from lakescan.storage.encryption.gcm_stream import Cipher

    key, nonce = bytes.fromhex("feffe9928665731c6d6a8f9467308308"), bytes.fromhex("cafebabefacedbaddecaf888")
    aad = bytes.fromhex("feedfacedeadbeeffeedfacedeadbeefabaddad2")
    text = (
        "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
        "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"
    )
    plain = Cipher(key).decrypt(nonce + bytes.fromhex(text), aad)
    assert plain.hex().startswith("d9313225f88406e5a55909c5aff5269a")
    assert len(plain) == 60


def test_an_empty_file_has_one_empty_block() -> None:
    assert len(encrypt_stream(b"", FileKey(KEY, PREFIX))) == 36


@given(st.lists(st.tuples(st.integers(0, len(PLAIN) + 10), st.integers(0, BLOCK + 50)), max_size=8))
def test_any_range_is_read(ranges: list[tuple[int, int]]) -> None:
    reader = GcmReader(io.BytesIO(STREAM), len(STREAM), key_of(STREAM), "f")
    for start, count in ranges:
        reader.seek(start)
        assert reader.read(count) == PLAIN[start : start + count]
        assert reader.tell() == start + len(PLAIN[start : start + count])


@given(st.lists(st.integers(0, 3 * BLOCK // 2), max_size=5))
def test_pieces_of_any_size_are_written(sizes: list[int]) -> None:
    sink, plain = io.BytesIO(), b"".join(PLAIN[:size] for size in sizes)
    with GcmWriter(sink, FileKey(KEY, PREFIX)) as writer:
        for size in sizes:
            writer.write(PLAIN[:size])
    data = sink.getvalue()
    assert writer.length == len(data)
    assert decrypt_stream(data, key_of(data), "f") == plain


def test_equal_files_have_different_bytes() -> None:
    assert encrypt_stream(b"same", FileKey(KEY, PREFIX)) != encrypt_stream(b"same", FileKey(KEY, PREFIX))


BLOCKS = [STREAM[8 : 8 + BLOCK + 28], STREAM[8 + BLOCK + 28 : 8 + 2 * (BLOCK + 28)], STREAM[8 + 2 * (BLOCK + 28) :]]
TAMPERED = {
    "a changed byte": STREAM[:500] + bytes([STREAM[500] ^ 1]) + STREAM[501:],
    "blocks exchanged": STREAM[:8] + BLOCKS[1] + BLOCKS[0] + BLOCKS[2],
    "a block twice": STREAM[:8] + BLOCKS[0] + BLOCKS[0] + BLOCKS[2],
    "blocks of another file": STREAM[:8] + encrypt_stream(PLAIN, FileKey(KEY, b"another"))[8:],
}


@pytest.mark.parametrize("name", TAMPERED)
def test_changed_files_are_not_read(name: str) -> None:
    data = TAMPERED[name]
    with pytest.raises(lakescan.CorruptData, match=r"f: its block \d is not authentic"):
        decrypt_stream(data, key_of(data), "f")


@pytest.mark.parametrize("removed", [1, 36, len(BLOCKS[2]), len(BLOCKS[2]) + BLOCK + 28, len(STREAM) - 8])
def test_truncated_files_are_not_read(removed: int) -> None:
    with pytest.raises(lakescan.CorruptData, match="truncated"):
        decrypt_stream(STREAM[:-removed], key_of(STREAM), "f")


def test_appended_files_are_not_read() -> None:
    with pytest.raises(lakescan.CorruptData, match="appended to"):
        decrypt_stream(STREAM + bytes(40), key_of(STREAM), "f")


def test_without_a_file_length_nothing_is_read() -> None:
    with pytest.raises(lakescan.CorruptMetadata, match="no file length"):
        decrypt_stream(STREAM, FileKey(KEY, PREFIX), "f")


@pytest.mark.parametrize("length", [0, 7, 8, 9, 35, WHOLE + 1, WHOLE + 28])
def test_impossible_lengths_are_not_read(length: int) -> None:
    with pytest.raises(lakescan.CorruptData, match="no stream has"):
        decrypt_stream(STREAM[:length], FileKey(KEY, PREFIX, length), "f")


def test_other_files_are_not_read() -> None:
    for data in (b"PAR1" + STREAM[4:], STREAM[:4] + struct.pack("<i", 4096) + STREAM[8:]):
        with pytest.raises(lakescan.CorruptData, match=r"starts with|its blocks have"):
            decrypt_stream(data, key_of(data), "f")


@pytest.mark.parametrize("key", [FileKey(b"f" * 16, PREFIX, len(STREAM)), FileKey(KEY, b"x", len(STREAM))])
def test_another_key_or_prefix_reads_nothing(key: FileKey) -> None:
    with pytest.raises(lakescan.CorruptData, match="block 0 is not authentic"):
        decrypt_stream(STREAM, key, "f")
    with pytest.raises(lakescan.CorruptMetadata, match="has 5 bytes"):
        decrypt_stream(STREAM, FileKey(b"short", PREFIX, len(STREAM)), "f")


def test_the_standard_key_metadata_equals_that_of_java() -> None:
    """Version 1, then Avro: bytes, a union of null and bytes, a union of null and long."""
    made = StandardMetadata(KEY, PREFIX, 1000).encode()
    assert made == b"\x01\x20" + KEY + b"\x02\x20" + PREFIX + b"\x02\xd0\x0f"
    assert StandardMetadata.parse(made, "f") == StandardMetadata(KEY, PREFIX, 1000)
    assert KEY.decode() not in repr(StandardMetadata(KEY, PREFIX, 1000))
