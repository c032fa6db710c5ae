"""Rewrite the metadata of a table with other paths into a staging folder, and list the files to copy.

The order follows from file sizes: rewritten delete files have new sizes, which manifests record, as manifest lists
record those of manifests.
"""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import PlanningExecutor
from lakescan.errors import InvalidOption, MissingFile, UnsupportedFeature, nearest
from lakescan.iceberg.maintenance.rewrite_table_path.rewrite_files import (
    COPIES,
    DeleteFileMove,
    ManifestMove,
    PositionDeletes,
    Prefixes,
    move_manifest_list,
)
from lakescan.iceberg.manifests.manifest_file import DELETES, ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_list import snapshot_manifests
from lakescan.iceberg.metadata.json_document import read_document
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage, join

_LIST = "file-list"
_SPECIAL = '[",\r\n]'  # characters in paths that require quotes in the list


@dataclass(frozen=True)
class PathRewriteResult:
    """The result of `rewrite_paths`; see `tables.results.PathsResult`."""

    latest_version: str
    file_list: str | None
    staging: str
    manifests: int
    delete_files: int


@dataclass(frozen=True)
class _Version:
    """A metadata file: its JSON, and the parsed metadata."""

    location: str
    document: Mapping[str, Any]
    metadata: TableMetadata

    @staticmethod
    def read(location: str, storage: Storage) -> _Version:
        data = storage.read(location)
        document = read_document(data, location).value
        check_document(document, location)
        return _Version(location, document, parse_metadata(data, location))


def rewrite_paths(
    table: IcebergTable,
    prefixes: tuple[str, str],
    versions: tuple[str | None, str | None],
    executor: PlanningExecutor,
    staging: str | None,
    *,
    lists_files: bool,
) -> PathRewriteResult:
    """Rewrite the paths of a table; see `Table.rewrite_paths`.

    `prefixes` are those of the source and the target. `versions` are the names of two metadata files: the last one that
    is already copied, or None, and the last one to copy. Raises `InvalidOption` for invalid prefixes and versions.
    """
    source, target = prefixes
    for name, value in (("source_prefix", source), ("target_prefix", target)):
        if not value.strip("/"):
            raise InvalidOption(f"{name}={value!r}: expected the prefix of paths")
    if source.rstrip("/") == target.rstrip("/"):
        raise InvalidOption(f"source_prefix and target_prefix are the same: {source!r}")
    storage, metadata = table.storage, table.metadata
    metadata.check_log("metadata-log")
    folder = staging or f"{metadata.source.rpartition('/')[0]}/copy-table-staging-{uuid.uuid4()}"
    work = _Rewrite(Prefixes(source, target), Prefixes(source, folder), storage, executor)
    known = {file.rpartition("/")[2]: file for file in (*(file for _, file in metadata.metadata_log), metadata.source)}
    first, last = (None if each is None else _find_version(each, known) for each in versions)
    end = _Version.read(last or metadata.source, storage)
    since = _earlier_versions(end, first, storage)
    start = None if first is None else _Version.read(first, storage)
    moved = {each.location: move_document(each.document, work.prefixes) for each in (*since, end)}
    try:
        copies = work.files(end.metadata, None if start is None else start.metadata, [each.metadata for each in since])
        copies.append(
            work.versions(moved, [path for each in (*since, end) for path in statistics_paths(each.document)])
        )
        listed = work.write_file_list(copies) if lists_files else None
    except BaseException:
        if staging is None:  # a new folder that nobody else uses
            storage.remove([each.location for each in storage.walk(folder)])
        raise
    return PathRewriteResult(end.location.rpartition("/")[2], listed, folder, work.manifests, work.delete_files)


def _find_version(name: str, known: Mapping[str, str]) -> str:
    found = known.get(name)
    if found is None:
        raise InvalidOption(
            f"the table's metadata log has no version {name!r}: expected the name of a metadata file"
            f"{nearest(name, known)}"
        )
    return found


def _earlier_versions(end: _Version, first: str | None, storage: Storage) -> list[_Version]:
    """Return the versions before `end`, newest first, which come after the metadata file `first` (None: all).

    Raises `InvalidOption` if the metadata log lacks `first`, `MissingFile` for a file that no longer exists.
    """
    earlier = [file for _, file in reversed(end.metadata.metadata_log)]
    if first is not None:
        if first not in earlier:
            raise InvalidOption(f"{first.rpartition('/')[2]} is not before {end.location.rpartition('/')[2]}")
        earlier = earlier[: earlier.index(first)]
    try:
        return [_Version.read(each, storage) for each in earlier]
    except MissingFile as error:
        raise MissingFile(
            f"{error}. The metadata log names it: begin after it with start_version if everything before is already "
            "copied. With write.metadata.delete-after-commit.enabled, the log names only files that exist"
        ) from error


class _Rewrite:
    """Rewrites one table, and counts the manifests and delete files that it has rewritten."""

    def __init__(self, prefixes: Prefixes, staging: Prefixes, storage: Storage, executor: PlanningExecutor) -> None:
        self.prefixes, self._staging, self._storage, self._executor = prefixes, staging, storage, executor
        self.manifests = self.delete_files = 0

    def files(
        self, end: TableMetadata, start: TableMetadata | None, between: Sequence[TableMetadata]
    ) -> list[pa.Table]:
        """Rewrite delete files, manifests and manifest lists that `start` lacks; return the files to copy (`COPIES`).

        If `start` is None, all are rewritten. `end` is the last version. `between` are those before it that are copied
        too, whose snapshots may have expired.
        """
        before = {} if start is None else start.snapshots
        snapshots = [each for each in end.snapshots.values() if each.id not in before]
        new = {each for one in (end, *between) for each in one.snapshots if each not in before}
        lists = [snapshot_manifests(each, end, self._storage) for each in snapshots]
        chosen: dict[str, ManifestFile] = {}
        for manifest in (each for some in lists for each in manifest_files(some)):
            if manifest.key_metadata is not None:
                raise UnsupportedFeature("rewriting the paths of encrypted manifests", manifest.manifest_path)
            if start is None or manifest.added_snapshot_id in new or manifest.added_snapshot_id is None:
                chosen.setdefault(manifest.manifest_path, manifest)
        deletes = [each for each in chosen.values() if each.content == DELETES]
        moving = ManifestMove(
            *(self.prefixes, self._staging, end.specs, self._storage, None if start is None else frozenset(new)),
            sizes=self._deletes(end, deletes),
        )
        sizes, copies = {}, [COPIES.empty_table()]
        for path, size, files in self._executor.map(moving, chosen.values()):
            sizes[path] = size
            copies.append(files)
        self.manifests = len(sizes)
        copies.append(self._staging_copies(list(sizes)))
        copies.append(self._lists(snapshots, lists, sizes))
        return copies

    def _deletes(self, end: TableMetadata, manifests: Sequence[ManifestFile]) -> tuple[pa.Array, pa.Array]:
        """Rewrite the position delete files of manifests; return their paths and their new sizes in bytes."""
        finding = PositionDeletes(end.specs, self._storage)
        found = [each for each in self._executor.map(finding, manifests) if each.num_rows]
        if not found:
            return pa.array([], pa.string()), pa.array([], pa.int64())
        files = pa.concat_tables(found).group_by(["file_path", "content_offset"])
        deletes = files.aggregate([("file_format", "min"), ("key_metadata", "count")])
        if pc.any(pc.greater(deletes["key_metadata_count"], 0)).as_py():
            raise UnsupportedFeature("rewriting the paths of encrypted delete files", "Rewrite them as plain files.")
        self.delete_files = deletes.num_rows
        once = deletes.group_by("file_path").aggregate([("file_format_min", "min")])
        wanted = zip(once["file_path"].to_pylist(), pc.utf8_lower(once["file_format_min_min"]).to_pylist(), strict=True)
        moving = DeleteFileMove(self.prefixes, self._staging, self._storage)
        sizes = dict(self._executor.map(moving, list(wanted)))
        return pa.array(list(sizes), pa.string()), pa.array(list(sizes.values()), pa.int64())

    def _lists(
        self, snapshots: Sequence[IcebergSnapshot], lists: Sequence[pa.Table], sizes: Mapping[str, int]
    ) -> pa.Table:
        for snapshot, manifests in zip(snapshots, lists, strict=True):
            data = move_manifest_list(snapshot, manifests, sizes, self.prefixes, self._storage)
            self._write(str(snapshot.manifest_list), data)
        return self._staging_copies([str(each.manifest_list) for each in snapshots])

    def versions(self, documents: Mapping[str, Mapping[str, Any]], statistics: Sequence[str]) -> pa.Table:
        """Write metadata files (JSON objects by location); return the files to copy (`COPIES`).

        These are the metadata files and the statistics files, which contain no paths and are copied as they are.
        """
        for location, document in documents.items():
            self._write(location, encode_document(document, location))
        paths = pa.array(dict.fromkeys(statistics), pa.string())
        as_they_are = pa.table([paths, self.prefixes.move_all(paths, "the statistics file")], schema=COPIES)
        return pa.concat_tables([as_they_are, self._staging_copies(list(documents))])

    def write_file_list(self, copies: Sequence[pa.Table]) -> str:
        """Write the list of files to copy as CSV, and return its location.

        Each file is in it once, with data first and the last metadata file at the end.
        """
        whole = pa.concat_tables(copies)
        first = whole.append_column("place", pa.array(range(len(whole)))).group_by(COPIES.names)
        ordered = first.aggregate([("place", "min")]).sort_by("place_min")
        lines = pc.binary_join_element_wise(*(_quote_paths(ordered[name]) for name in COPIES.names), ",")
        location = join(self._staging.target, _LIST)
        with self._storage.writing(location) as sink:
            sink.write("".join(f"{line}\n" for line in lines.to_pylist()).encode())
        return location

    def _write(self, path: str, data: bytes) -> None:
        with self._storage.writing(self._staging.move(path, "the file")) as sink:
            sink.write(data)

    def _staging_copies(self, paths: Sequence[str]) -> pa.Table:
        """Return rewritten files as copies from their staging locations to their target locations."""
        array = pa.array(paths, pa.string())
        return pa.table(
            [self._staging.move_all(array, "the file"), self.prefixes.move_all(array, "the file")], schema=COPIES
        )


def _quote_paths(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return paths as CSV fields, quoted only if they have characters that need it."""
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(paths, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(paths, _SPECIAL), quoted, paths)


_PROPERTIES = (
    "write.object-storage.path",
    "write.folder-storage.path",
    "write.data.path",
    "write.metadata.path",
)
_STATISTICS = ("statistics", "partition-statistics")


def check_document(document: Mapping[str, Any], source: str) -> None:
    """Raise `UnsupportedFeature` for encrypted metadata, and for version 1 snapshots without a manifest list."""
    if document.get("encryption-keys"):
        raise UnsupportedFeature("rewriting the paths of encrypted metadata", f"{source} has encryption keys.")
    if any("manifest-list" not in each for each in document.get("snapshots") or ()):
        raise UnsupportedFeature(
            "rewriting the paths of snapshots without a manifest list",
            f"{source} has such a snapshot, of version 1. Expire it, or upgrade the table and write to it first.",
        )


def move_document(document: Mapping[str, Any], prefixes: Prefixes) -> dict[str, Any]:
    """Return a metadata file's JSON object with other paths.

    Raises `InvalidOption` for a path without the source prefix.
    """
    found = {**document, "location": prefixes.move(document["location"], "the table's location")}
    properties = document.get("properties") or {}
    moved = {
        name: prefixes.move(properties[name], f"the property {name}") for name in _PROPERTIES if name in properties
    }
    if moved:
        found["properties"] = {**properties, **moved}
    _move_member(found, "snapshots", "manifest-list", prefixes, "the manifest list")
    _move_member(found, "metadata-log", "metadata-file", prefixes, "the metadata file")
    for name in _STATISTICS:
        _move_member(found, name, "statistics-path", prefixes, "the statistics file")
    return found


def _move_member(document: dict[str, Any], name: str, member: str, prefixes: Prefixes, what: str) -> None:
    if document.get(name):
        document[name] = [{**each, member: prefixes.move(each[member], what)} for each in document[name]]


def statistics_paths(document: Mapping[str, Any]) -> list[str]:
    """Return the statistics files that a metadata file names."""
    return [each["statistics-path"] for name in _STATISTICS for each in document.get(name) or ()]


def encode_document(document: Mapping[str, Any], location: str) -> bytes:
    """Return the bytes of a metadata file, compressed if its name indicates it."""
    text = json.dumps(document, ensure_ascii=False).encode()
    return gzip.compress(text, mtime=0) if location.endswith((".gz.metadata.json", ".metadata.json.gz")) else text
