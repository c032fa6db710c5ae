"""Validate manifest lists: against themselves, the table's specs and the snapshot's summary."""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CorruptMetadata
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot
from lakescan.storage.faults import redact

_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count", "sequence_number", "partition_spec_id")
_SUMMARY_COUNTS = ("total-data-files", "total-delete-files", "added-data-files", "added-delete-files")


def check_manifests(manifests: pa.Table, source: str) -> None:
    """Check that each manifest is listed once, with a path, valid content and counts; raises `CorruptMetadata`."""
    paths, content = manifests["manifest_path"], manifests["content"]
    if paths.null_count:
        raise fault(source, "it has a manifest without a manifest_path")
    if len(pc.unique(paths)) < len(paths):
        counted = paths.value_counts()
        twice = counted.field("values")[pc.index(pc.greater(counted.field("counts"), 1), True).as_py()].as_py()
        raise fault(source, f"it lists the manifest {redact(twice)} more than once")
    if (place := pc.index(pc.is_in(content, value_set=pa.array([0, 1], content.type)), False).as_py()) >= 0:
        raise fault(source, f"{redact(paths[place].as_py())} has content {content[place].as_py()}, not 0 or 1")
    for name in _COUNTS:
        if (place := pc.index(pc.less(manifests[name], 0), True).as_py()) >= 0:
            raise fault(source, f"{redact(paths[place].as_py())} has {manifests[name][place].as_py()} for {name}")


def check_specs(manifests: pa.Table, specs: Collection[int]) -> None:
    """Check that each manifest has a partition spec of the table; raises `CorruptMetadata`."""
    known = pc.is_in(manifests["partition_spec_id"], value_set=pa.array(sorted(specs), pa.int32()))
    if (place := pc.index(known, False).as_py()) >= 0:
        path, spec_id = (manifests[name][place].as_py() for name in ("manifest_path", "partition_spec_id"))
        raise CorruptMetadata(
            f"manifest {redact(path)}: its manifest list says partition spec {spec_id}, but the table has only "
            f"{sorted(specs)}. Restore the list, or open a newer metadata file of the table."
        )


def check_whole(manifests: pa.Table, snapshot: IcebergSnapshot) -> None:
    """Check that an empty list belongs to a snapshot without files, by its summary; raises `CorruptMetadata`."""
    if manifests.num_rows:
        return
    for name in _SUMMARY_COUNTS:
        count = snapshot.summary.get(name, "0")
        if count.strip("0"):
            problem = f"it lists no manifest, but the summary of snapshot {snapshot.id} says {name}={count[:40]}"
            raise fault(snapshot.manifest_list or "the table's metadata", problem)


def fault(source: str, problem: str) -> CorruptMetadata:
    """The error for a damaged manifest list, with a remedy."""
    return CorruptMetadata(f"manifest list {redact(source)}: {problem}. Restore the file, or read an older snapshot.")
