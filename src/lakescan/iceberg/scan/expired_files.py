"""The files that snapshots have, and that others of the same metadata do not list: candidates for removal."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.manifests.codes import DATA_FILE, DELETED, EQUALITY_DELETES, POSITION_DELETES
from lakescan.iceberg.manifests.entries import read_entries
from lakescan.iceberg.manifests.manifest_file import manifest_files
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.table import IcebergTable

FILES = pa.schema([pa.field("path", pa.string()), pa.field("kind", pa.string())])
_KINDS = {DATA_FILE: "data", POSITION_DELETES: "position deletes", EQUALITY_DELETES: "equality deletes"}


def files_of(table: IcebergTable, snapshots: Collection[int]) -> pa.Table:
    """The files (`FILES`) of snapshots: manifest lists, manifests that no other snapshot lists, their live files.

    Files may be in other manifests, too. Statistics are those of the whole table: metadata files say which stay.
    """
    return pa.concat_tables([FILES.empty_table(), *_files(table, frozenset(snapshots))])


def _files(table: IcebergTable, ids: frozenset[int]) -> Iterator[pa.Table]:
    metadata, storage = table.metadata, table.storage
    known = [metadata.snapshots[each] for each in ids if each in metadata.snapshots]
    yield _of([each.manifest_list for each in known if each.manifest_list is not None], "manifest list")
    yield _of(list(metadata.statistics_files), "statistics")
    lists = [read_manifest_list(each, storage) for each in known]
    if not lists:
        return
    others = [each for each in metadata.snapshots.values() if each.id not in ids]
    kept = [pc.unique(read_manifest_list(each, storage)["manifest_path"]).cast(pa.string()) for each in others]
    listed, seen = pa.concat_tables(lists), set[str]()
    if kept:
        listed = listed.filter(
            pc.invert(pc.is_in(listed["manifest_path"], value_set=pc.unique(pa.concat_arrays(kept))))
        )
    for manifest in manifest_files(listed):
        if manifest.manifest_path in seen:
            continue
        seen.add(manifest.manifest_path)
        entries = read_entries(manifest, metadata.specs[manifest.partition_spec_id], storage)
        files = entries.filter(pc.not_equal(entries["status"], DELETED))["data_file"].combine_chunks()
        for content, kind in _KINDS.items():
            mine = files.filter(pc.equal(files.field("content"), content))
            yield _of(mine.field("file_path").cast(pa.string()), kind)
    yield _of(sorted(seen), "manifest")


def _of(paths: list[str] | pa.Array, kind: str) -> pa.Table:
    column = paths if isinstance(paths, pa.Array) else pa.array(paths, pa.string())
    return pa.table([column, pa.repeat(pa.scalar(kind), len(column))], schema=FILES)
