"""One manifest as described by its manifest list (specification, "Manifest Lists")."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import pyarrow as pa

DATA, DELETES = 0, 1  # `content` of a manifest


@dataclass(frozen=True)
class ManifestFile:
    """A manifest as in its manifest list; None for values that the list lacks. The list's counts can be wrong.

    `content` is DATA or DELETES; `manifest_length` is in bytes.
    """

    manifest_path: str
    manifest_length: int | None = None
    partition_spec_id: int = 0
    content: int = DATA
    sequence_number: int = 0
    min_sequence_number: int | None = None
    added_snapshot_id: int | None = None
    added_files_count: int | None = None
    existing_files_count: int | None = None
    deleted_files_count: int | None = None
    key_metadata: bytes | None = field(default=None, repr=False)
    first_row_id: int | None = None


_NAMES = tuple(each.name for each in fields(ManifestFile))


def manifest_files(manifests: pa.Table) -> list[ManifestFile]:
    """Return the manifests of a list (`manifest_list.MANIFESTS`), in order."""
    rows = zip(*(manifests[name].to_pylist() for name in _NAMES), strict=True)
    return [ManifestFile(*row) for row in rows]


EXISTING, ADDED, DELETED = 0, 1, 2  # `status` of an entry
DATA_FILE, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2  # `content` of a file; deletion vectors are position deletes
