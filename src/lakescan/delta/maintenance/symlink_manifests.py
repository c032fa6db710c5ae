"""Symlink manifests, text files that list a table's data files so that Presto, Athena and Hive can read it.

They are in `_symlink_format_manifest`, one per partition, in folders named after the partition. Later commits do not
update them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.delta.commit.file_actions import live_adds
from lakescan.delta.data_files.delta_writes import escape_name
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import UnsupportedFeature
from lakescan.storage import Storage, join
from lakescan.storage.locations import normal

FOLDER = "_symlink_format_manifest"


def write_symlink_manifests(version: DeltaVersion, storage: Storage) -> tuple[int, int]:
    """Write the manifests of a version, and remove those of partitions that it does not have.

    Returns the numbers of manifests and of files that they list. Raises `UnsupportedFeature` for a version with
    deletion vectors, whose deleted rows would be read, or with physical column names that differ from the logical ones.
    """
    location, schema = version.segment.location, version.schema()
    if renamed := [each.name for each in t.walk(schema.fields) if each.physical_name != each.name]:
        raise UnsupportedFeature(
            f"manifests of {location}, whose column {renamed[0]!r} has another name in its files",
            "Readers of manifests find columns by the names that files have.",
        )
    live = live_adds(version, storage)
    if pc.any(pc.is_valid(pc.struct_field(live["vector"].combine_chunks(), "storageType"))).as_py():
        raise UnsupportedFeature(
            f"manifests of {location}, which has deletion vectors",
            "Readers of manifests would see deleted rows: apply the vectors first, compact(purge=True).",
        )
    written = set()
    for folder, paths in _partitions(live, list(version.metadata.partition_columns)):
        file = join(location, FOLDER, *folder, "manifest")
        with storage.writing(file) as sink:
            sink.write("".join(f"{_uri(path)}\n" for path in paths).encode())
        written.add(normal(file))
    if not version.metadata.partition_columns and not written:
        file = join(location, FOLDER, "manifest")
        with storage.writing(file) as sink:
            sink.write(b"")
        written.add(normal(file))
    storage.remove([e.location for e in storage.walk(join(location, FOLDER)) if normal(e.location) not in written])
    return len(written), live.num_rows


def _partitions(live: pa.Table, columns: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the folder of each partition, as a list of path segments, and the locations of its files."""
    if not columns:
        if live.num_rows:
            yield [], live["path"].to_pylist()
        return
    values = live["partition"].combine_chunks()
    texts = [pc.if_else(pc.equal(v, ""), None, v) for v in (values.field(n).cast(pa.string()) for n in columns)]
    keys = [str(place) for place in range(len(columns))]
    grouped = pa.table([*texts, live["path"]], names=[*keys, "path"]).group_by(keys).aggregate([("path", "list")])
    for row in grouped.to_pylist():
        named = zip(columns, (row[key] for key in keys), strict=True)
        yield (
            [f"{escape_name(n)}={NULL_PARTITION if v is None else escape_name(v)}" for n, v in named],
            row["path_list"],
        )


def _uri(path: str) -> str:
    return f"file://{path}" if path.startswith("/") else path
