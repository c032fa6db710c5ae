"""Spark's hash functions, and its encodings of bytes as text."""

from __future__ import annotations

import base64 as base64_codec
import binascii
import hashlib
import struct
import zlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.udf import FailedValue, type_factory

_Family = tuple[Callable[[int, int], int], Callable[[int, int], int], Callable[[bytes, int], int]]


def md5(value: bytes) -> str:
    """Return the MD5 digest as hexadecimal digits."""
    return hashlib.md5(value, usedforsecurity=False).hexdigest()


def sha1(value: bytes) -> str:
    """Return the SHA-1 digest as hexadecimal digits."""
    return hashlib.sha1(value, usedforsecurity=False).hexdigest()


def sha2(value: bytes, bits: int) -> str | None:
    """Return the SHA-2 digest of 224, 256 (also for 0), 384 or 512 bits; None for other lengths."""
    name = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}.get(bits)
    return None if name is None else hashlib.new(name, value).hexdigest()


def crc32(value: bytes) -> int:
    """Return the CRC-32 checksum."""
    return zlib.crc32(value)


def base64(value: bytes) -> str:
    """Encode bytes in base 64."""
    return base64_codec.b64encode(value).decode()


_LETTERS = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def unbase64(text: str) -> bytes:
    """Decode a base 64 string, ignoring other characters; missing padding is added.

    Raises `FailedValue` for an impossible length or padding.
    """
    kept = bytes(each for each in text.encode() if each in _LETTERS)
    try:
        return base64_codec.b64decode(kept + b"=" * (-len(kept.rstrip(b"=")) % 4) if b"=" not in kept else kept)
    except binascii.Error as error:
        raise FailedValue(f"CONVERSION_INVALID_INPUT: the text {text!r} is not in base 64") from error


def to_base32(value: bytes) -> str:
    """Encode bytes in base 32."""
    return base64_codec.b32encode(value).decode()


def from_base32(text: str) -> bytes:
    """Decode a base 32 string, whose padding may be missing; raises `FailedValue` for other text."""
    try:
        return base64_codec.b32decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 8))
    except binascii.Error as error:
        raise FailedValue(f"CONVERSION_INVALID_INPUT: the text {text!r} is not in base 32") from error


def to_binary(text: str, form: str) -> bytes:
    """Convert a string to bytes by the format hex, utf-8 or base64.

    Raises `FailedValue` for a string that is not in the format, and for another format.
    """
    if form.lower() not in ("hex", "utf-8", "utf8", "base64"):
        raise FailedValue(f"INVALID_PARAMETER_VALUE.BINARY_FORMAT: {form!r} is not hex, utf-8 or base64")
    value = try_to_binary(text, form)
    if value is None:
        raise FailedValue(f"CONVERSION_INVALID_INPUT: the text {text!r} is not in {form}")
    return value


def try_to_binary(text: str, form: str) -> bytes | None:
    """Convert a string to bytes by the format hex, utf-8 or base64; None if it is invalid or the format is unknown."""
    from lakescan.expressions.scalar.python.texts import unhex

    match form.lower():
        case "hex":
            return unhex(text)
        case "utf-8" | "utf8":
            return text.encode()
        case "base64":
            return _strict_base64("".join(text.split()))
    return None


def _strict_base64(text: str) -> bytes | None:
    """Decode a base 64 string, whose padding may be missing; None for an invalid string."""
    digits = text.rstrip("=")
    padding = len(text) - len(digits)
    is_padded = padding <= 2 and len(text) % 4 == 0
    if not set(digits.encode()) <= _LETTERS or "=" in digits or len(digits) % 4 == 1 or (padding and not is_padded):
        return None
    return base64_codec.b64decode(digits + "=" * (-len(digits) % 4))


_MASK = 0xFFFFFFFFFFFFFFFF
_P = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _avalanche(value: int) -> int:
    value ^= value >> 33
    value = value * _P[1] & _MASK
    value ^= value >> 29
    value = value * _P[2] & _MASK
    return value ^ (value >> 32)


def _signed64(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def xxhash64_of_bytes(value: bytes, seed: int) -> int:
    """Return the XXH64 hash of bytes with a seed, as a signed 64-bit integer."""
    seed &= _MASK
    size, at = len(value), 0
    if size >= 32:
        lanes = [(seed + _P[0] + _P[1]) & _MASK, (seed + _P[1]) & _MASK, seed, (seed - _P[0]) & _MASK]
        while at <= size - 32:
            for n in range(4):
                word = int.from_bytes(value[at : at + 8], "little")
                lanes[n] = _rotate((lanes[n] + word * _P[1]) & _MASK, 31) * _P[0] & _MASK
                at += 8
        found = sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            found ^= _rotate(lane * _P[1] & _MASK, 31) * _P[0] & _MASK
            found = (found * _P[0] + _P[3]) & _MASK
    else:
        found = (seed + _P[4]) & _MASK
    found = (found + size) & _MASK
    while at <= size - 8:
        word = int.from_bytes(value[at : at + 8], "little")
        found ^= _rotate(word * _P[1] & _MASK, 31) * _P[0] & _MASK
        found = (_rotate(found, 27) * _P[0] + _P[3]) & _MASK
        at += 8
    if at <= size - 4:
        found ^= int.from_bytes(value[at : at + 4], "little") * _P[0] & _MASK
        found = (_rotate(found, 23) * _P[1] + _P[2]) & _MASK
        at += 4
    for each in value[at:]:
        found ^= each * _P[4] & _MASK
        found = _rotate(found, 11) * _P[0] & _MASK
    return _signed64(_avalanche(found))


def _xx_int(value: int, seed: int) -> int:
    found = ((seed & _MASK) + _P[4] + 4) & _MASK
    found ^= (value & 0xFFFFFFFF) * _P[0] & _MASK
    return _signed64(_avalanche((_rotate(found, 23) * _P[1] + _P[2]) & _MASK))


def _xx_long(value: int, seed: int) -> int:
    found = ((seed & _MASK) + _P[4] + 8) & _MASK
    found ^= _rotate((value & _MASK) * _P[1] & _MASK, 31) * _P[0] & _MASK
    return _signed64(_avalanche((_rotate(found, 27) * _P[0] + _P[3]) & _MASK))


def _mix(hashed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & 0xFFFFFFFF
    word = ((word << 15) | (word >> 17)) & 0xFFFFFFFF
    hashed ^= word * 0x1B873593 & 0xFFFFFFFF
    hashed = ((hashed << 13) | (hashed >> 19)) & 0xFFFFFFFF
    return (hashed * 5 + 0xE6546B64) & 0xFFFFFFFF


def _final(hashed: int, size: int) -> int:
    hashed ^= size
    hashed ^= hashed >> 16
    hashed = hashed * 0x85EBCA6B & 0xFFFFFFFF
    hashed ^= hashed >> 13
    hashed = hashed * 0xC2B2AE35 & 0xFFFFFFFF
    hashed ^= hashed >> 16
    return hashed - 2**32 if hashed >= 2**31 else hashed


def _murmur_int(value: int, seed: int) -> int:
    return _final(_mix(seed & 0xFFFFFFFF, value & 0xFFFFFFFF), 4)


def _murmur_long(value: int, seed: int) -> int:
    low, high = value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
    return _final(_mix(_mix(seed & 0xFFFFFFFF, low), high), 8)


def _murmur_bytes(value: bytes, seed: int) -> int:
    hashed = seed & 0xFFFFFFFF
    whole = len(value) - len(value) % 4
    for at in range(0, whole, 4):
        hashed = _mix(hashed, int.from_bytes(value[at : at + 4], "little"))
    for each in value[whole:]:  # Spark hashes the remaining bytes as signed numbers
        hashed = _mix(hashed, (each - 256 if each > 127 else each) & 0xFFFFFFFF)
    return _final(hashed, len(value))


def _hash_of(kind: t.Type, family: _Family) -> Callable[[Any, int], int]:
    """Return the function that hashes a value of a type with a seed, as Spark does.

    `family` has the hash functions for 32-bit integers, 64-bit integers and bytes.
    """
    of_int, of_long, of_bytes = family
    match kind:
        case t.ListOf():
            element = _hash_of(kind.element.type, family)
            return lambda value, seed: reduce(lambda s, each: s if each is None else element(each, s), value, seed)
        case t.Struct():
            named = zip(member_names(kind), kind.fields, strict=True)
            members = [(name, _hash_of(each.type, family)) for name, each in named]
            return lambda value, seed: reduce(
                lambda s, member: s if value[member[0]] is None else member[1](value[member[0]], s), members, seed
            )
        case t.Decimal():
            unit = Decimal(1).scaleb(-kind.scale)
            if kind.precision <= 18:
                return lambda value, seed: of_long(int((value / unit).to_integral_value()), seed)

            def hash_decimal(value: Decimal, seed: int) -> int:
                digits = int("".join(map(str, value.as_tuple().digits)) or "0") * 10 ** (
                    kind.scale + int(value.as_tuple().exponent)
                )
                number = -digits if value.is_signed() else digits
                bits = (number if number >= 0 else ~number).bit_length()
                return of_bytes(number.to_bytes(bits // 8 + 1, "big", signed=True), seed)

            return hash_decimal
        case t.BOOLEAN:
            return lambda value, seed: of_int(int(value), seed)
        case t.BYTE | t.SHORT | t.INT | t.DATE:
            return of_int
        case t.LONG | t.Timestamp():
            return of_long
        case t.FLOAT:
            return lambda value, seed: of_int(struct.unpack("<i", struct.pack("<f", _plain_zero(value)))[0], seed)
        case t.DOUBLE:
            return lambda value, seed: of_long(struct.unpack("<q", struct.pack("<d", _plain_zero(value)))[0], seed)
        case t.STRING:
            return lambda value, seed: of_bytes(value.encode(), seed)
        case t.BINARY:
            return of_bytes
    return lambda value, seed: seed


def _plain_zero(value: float) -> float:
    return float("nan") if value != value else value or 0.0


def _hash_function(kinds: Sequence[t.Type], family: _Family) -> Callable[..., int]:
    hashes = [_hash_of(kind, family) for kind in kinds]

    def apply(*values: Any) -> int:
        seed = 42
        for value, one in zip(values, hashes, strict=True):
            seed = seed if value is None else one(value, seed)
        return seed

    return apply


@type_factory
def murmur3(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., int]:
    """Return the function of values for Spark's `hash(...)`: Murmur3 with the seed 42; nulls do not change the hash.

    `kinds` are the types of the values.
    """
    return _hash_function(kinds, (_murmur_int, _murmur_long, _murmur_bytes))


@type_factory
def xxhash64(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., int]:
    """Return the function of values for Spark's `xxhash64(...)`, with the seed 42; nulls do not change the hash.

    `kinds` are the types of the values.
    """
    return _hash_function(kinds, (_xx_int, _xx_long, xxhash64_of_bytes))
