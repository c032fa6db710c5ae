"""The files of equality deletes that a branch has, those that apply to no data file included."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.commit.listed import listed_manifests
from lakescan.iceberg.manifests.codes import DELETED, EQUALITY_DELETES
from lakescan.iceberg.manifests.entries import entries_of
from lakescan.iceberg.manifests.manifest_file import DELETES, manifest_files
from lakescan.storage import Storage


def equality_delete_files(base: CommitBase, storage: Storage) -> list[str]:
    """Return the locations of the equality delete files of a branch's newest snapshot."""
    manifests = listed_manifests(base, storage)
    of_deletes = manifests.filter(pc.equal(manifests["content"], DELETES))
    found: list[str] = []
    for entries in entries_of(manifest_files(of_deletes), base.metadata.specs, storage):
        files = entries["data_file"].combine_chunks()
        is_equality = pc.equal(files.field("content"), EQUALITY_DELETES)
        is_live = pc.not_equal(entries["status"].combine_chunks().cast(pa.int32()), DELETED)
        found += files.field("file_path").filter(pc.and_(is_equality, is_live)).to_pylist()
    return found
