"""The objects of an in-memory Google Cloud Storage, with their generations and uploads."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

_CHUNK = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


@dataclass
class Blob:
    """An object."""

    data: bytes
    generation: int
    metadata: dict[str, Any] = field(default_factory=dict)
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))


class Refused(Exception):
    """A request that is refused, with a status."""

    def __init__(self, status: int) -> None:
        self.status = status


class GoogleStorage:
    """Buckets with their objects."""

    def __init__(self, *buckets: str) -> None:
        self.buckets: dict[str, dict[str, Blob]] = {each: {} for each in buckets}
        self._lock, self._numbers = threading.Lock(), count(1)
        self._uploads: dict[str, tuple[str, str, dict[str, Any], dict[str, str], bytearray]] = {}
        self._parts: dict[str, dict[int, bytes]] = {}

    def blob(self, bucket: str, key: str) -> Blob:
        try:
            return self.buckets[bucket][key]
        except KeyError:
            raise Refused(404) from None

    def put(self, bucket: str, key: str, data: bytes, match: str | None, metadata: dict[str, Any]) -> Blob:
        """Store an object if its generation equals `match` (0: the object does not exist)."""
        with self._lock:
            if bucket not in self.buckets:
                raise Refused(404)
            known = self.buckets[bucket].get(key)
            if match is not None and int(match) != (0 if known is None else known.generation):
                raise Refused(412)
            self.buckets[bucket][key] = made = Blob(data, next(self._numbers), metadata)
            return made

    def delete(self, bucket: str, key: str) -> None:
        with self._lock:
            self.blob(bucket, key)
            del self.buckets[bucket][key]

    def listed(self, bucket: str, query: dict[str, str], after: str, most: int) -> tuple[list[str], list[str], str]:
        """Return the names and prefixes of a page, and the last one of them if there are more pages."""
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        if bucket not in self.buckets:
            raise Refused(404)
        entries = set()
        for key in list(self.buckets[bucket]):
            if key.startswith(prefix):
                head, mark, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
                entries.add((prefix + head + mark, True) if mark else (key, False))
        page = sorted(each for each in entries if each[0] > after)
        some, more = page[:most], len(page) > most
        keys = [name for name, is_prefix in some if not is_prefix]
        if query.get("includeTrailingDelimiter") == "true":  # markers of folders
            keys += [name for name, is_prefix in some if is_prefix and name in self.buckets[bucket]]
        return keys, [name for name, is_prefix in some if is_prefix], some[-1][0] if more else ""

    def begun(self, bucket: str, key: str, metadata: dict[str, Any], query: dict[str, str]) -> str:
        number = str(next(self._numbers))
        self._uploads[number] = (bucket, key, metadata, query, bytearray())
        return number

    def continued(self, number: str, body: bytes, chunk: str | None) -> tuple[str, str, Blob | None, int]:
        """Accept a part of a resumable upload; return the object once it is whole, and the number of bytes so far."""
        bucket, key, metadata, query, data = self._uploads[number]
        start, size = _CHUNK.fullmatch(chunk).groups() if chunk else ("0", str(len(body)))  # type: ignore[union-attr]
        if start is not None:
            data[int(start) :] = body
        if size == "*" or len(data) < int(size):
            return bucket, key, None, len(data)
        known = self.buckets[bucket].get(key)
        if known is None or known.metadata.get("upload") != number:  # otherwise the client asks for a lost answer
            known = self.put(bucket, key, bytes(data), query.get("ifGenerationMatch"), {**metadata, "upload": number})
        return bucket, key, known, len(data)
