"""Manifests of a snapshot being produced: encoded in memory, and stored only if the snapshot keeps them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.manifests.manifest_list import MANIFESTS
from lakescan.storage import Storage, join
from lakescan.storage.encryption.gcm_stream import encrypt_stream
from lakescan.storage.encryption.table_keys import SnapshotKeys

_SAMPLE = 1000  # entries encoded to estimate the size of the others


@dataclass(frozen=True)
class ManifestDraft:
    """A manifest that is not stored yet: its entries, its bytes to store, and its row of the manifest list."""

    entries: pa.Table
    data: bytes
    listed: Mapping[str, Any]


@dataclass
class ManifestDrafts:
    """Encodes and stores the manifests of one snapshot, encrypted if the table has `keys`.

    `stored` are the locations of all files it has stored, `lists` those of the manifest lists among them.
    """

    base: CommitBase
    storage: Storage
    snapshot_id: int
    target_size: int
    keys: SnapshotKeys | None = None
    stored: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    _id: str = field(default_factory=lambda: str(uuid.uuid4()))
    _number: int = 0

    def draft(self, entries: pa.Table, spec_id: int, content: int) -> ManifestDraft:
        """Encode entries as one manifest, of data files or delete files by `content`, without storing it."""
        return self._build_draft(entries, self.base.writer(spec_id, content).write(entries), spec_id, content)

    def _build_draft(self, entries: pa.Table, data: bytes, spec_id: int, content: int) -> ManifestDraft:
        location = join(self.base.metadata.metadata_folder, f"{self._id}-m{self._number}.avro")
        self._number += 1
        key_metadata = None
        if self.keys is not None:
            key = self.keys.new_key()
            data = encrypt_stream(data, key.file_key)
            key_metadata = key.metadata(len(data))
        listed = self.base.writer(spec_id, content).manifest_list_row(entries, location, len(data), self.snapshot_id)
        return ManifestDraft(entries, data, {**listed, "key_metadata": key_metadata})

    def drafts(self, entries: pa.Table, spec_id: int, content: int) -> Iterator[ManifestDraft]:
        """Yield entries encoded as manifests of about the target size, not stored; nothing without entries."""
        if not entries.num_rows:
            return
        sample = self.base.writer(spec_id, content).write(entries.slice(0, _SAMPLE))
        rows = max(1, self.target_size * min(_SAMPLE, entries.num_rows) // len(sample))
        if entries.num_rows <= min(rows, _SAMPLE):
            yield self._build_draft(entries, sample, spec_id, content)
            return
        for start in range(0, entries.num_rows, rows):
            yield self.draft(entries.slice(start, rows), spec_id, content)

    def store(self, drafts: list[ManifestDraft]) -> pa.Table:
        """Store manifests, and return their rows of the manifest list (`MANIFESTS`)."""
        for each in drafts:
            self._write(str(each.listed["manifest_path"]), each.data)
        return pa.Table.from_pylist([dict(each.listed) for each in drafts], schema=MANIFESTS)

    def store_list(self, data: bytes) -> tuple[str, str | None]:
        """Store `data` (Avro) as the snapshot's manifest list, encrypted if the table is.

        Returns its location, and the id of its encryption key, or None.
        """
        key_id = None
        if self.keys is not None:
            key = self.keys.new_key()
            data = encrypt_stream(data, key.file_key)
            key_id = self.keys.add_list(key, len(data))
        location = join(self.base.metadata.metadata_folder, f"snap-{self.snapshot_id}-0-{self._id}.avro")
        self.lists.append(location)
        self._write(location, data)
        return location, key_id

    def _write(self, location: str, data: bytes) -> None:
        self.stored.append(location)  # before it is written, because a failed write may leave a file
        with self.storage.writing(location) as file:
            file.write(data)
