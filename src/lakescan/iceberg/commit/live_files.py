"""Which files are data files of a table already: a file that is added twice has its rows twice."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.commit.listed import listed_manifests
from lakescan.iceberg.manifests.codes import DELETED
from lakescan.iceberg.manifests.entries import entries_of
from lakescan.iceberg.manifests.manifest_file import DATA, manifest_files
from lakescan.storage import Storage


def find_live_files(locations: pa.Array, base: CommitBase, storage: Storage) -> pa.Array:
    """Those of the locations that are live data files of the branch, in any spelling: those of one manifest suffice."""
    places = storage.places(base.metadata.location)
    wanted = places.canonicalize(locations)
    listed = listed_manifests(base, storage)
    data = manifest_files(listed.filter(pc.equal(listed["content"], DATA)))
    for entries in entries_of(data, base.metadata.specs, storage):
        live = entries.filter(pc.not_equal(entries["status"], DELETED))["data_file"].combine_chunks()
        there = pc.is_in(wanted, value_set=places.canonicalize(live.field("file_path").cast(pa.string())))
        if pc.any(there).as_py():
            return locations.filter(there)
    return locations.slice(0, 0)
