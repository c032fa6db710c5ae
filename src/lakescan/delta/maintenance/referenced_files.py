"""Find all files that VACUUM keeps: those that a Delta table references now, or has referenced since a time.

A removed file is kept until its tombstone is older than the retention, and its deletion vector is kept with it
(protocol, "Remove"). Change data files are kept until their commit is older than the retention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import from_millis
from lakescan.delta.log.actions import VECTOR, ActionReader
from lakescan.delta.log.json_lines import parse_log_texts
from lakescan.delta.log.log_pieces import batches, pieces_of, read_commits
from lakescan.delta.log.log_text import LogText
from lakescan.delta.log.replay import canonical_paths, file_locations, identity, newest_mask
from lakescan.delta.log.segment import LogFile, LogListing, list_log
from lakescan.delta.scan.deletion_vectors import delete_table
from lakescan.errors import CorruptMetadata, StorageError
from lakescan.reading.parquet.footer import open_lenient
from lakescan.storage import Storage, join

_FILE = [pa.field("path", pa.string()), pa.field("deletionVector", VECTOR)]
_ACTIONS = pa.schema(
    [
        pa.field("add", pa.struct(_FILE)),
        pa.field("remove", pa.struct([*_FILE, pa.field("deletionTimestamp", pa.int64())])),
        pa.field("cdc", pa.struct([pa.field("path", pa.string())])),
    ]
)


_LEAVES = [f"{action}.{name}" for action in ("add", "remove") for name in ("path", "deletionVector")]
_LEAVES.append("remove.deletionTimestamp")
_ROWS = 100_000  # actions of a checkpoint per batch

CLAIMS = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("entry", pa.string()),
        pa.field("rank", pa.int64()),
        pa.field("holds", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class LogPart:
    """A checkpoint file or some commits; a worker reads the files in use from it.

    - `location`: the table's folder.
    - `checkpoint`, `commits`: the location of the checkpoint file, or the commits.
    - `cutoff`: milliseconds since 1970; files removed since then are in use.
    - `changed`: the versions whose change data files are in use.
    - `since`: for commits before the checkpoint, the versions whose files are in use regardless of later actions; else
      None.
    """

    location: str
    storage: Storage
    cutoff: int
    changed: pa.Array
    checkpoint: str | None = None
    commits: tuple[LogFile, ...] = ()
    since: pa.Array | None = None

    def locations(self) -> Iterator[pa.Array]:
        """Yield the locations of files that are in use, unless later actions in other parts of the log remove them."""
        for some in self.claims():
            yield some.filter(some["holds"])["location"].combine_chunks()

    def claims(self) -> Iterator[pa.Table]:
        """Yield a claim (`CLAIMS`) for each file of each action: whether the file is in use by that action.

        A claim `holds` if the action adds the file, or removed it since the cutoff. Among claims with the same `entry`,
        which identifies file and deletion vector, the one with the highest `rank` counts. Claims without `entry` always
        count.
        """
        for part in self._parts():
            for each in _spellings(part.changes_of(self.changed), self.location):
                yield _claims(each)
            if self.since is not None:
                mine = part.actions.filter(pc.is_in(part.actions["version"], value_set=self.since))
                for each in _action_locations(mine, self.location):
                    yield _claims(each)
            else:
                yield from self._action_claims(part.actions)

    def _action_claims(self, actions: pa.Table) -> Iterator[pa.Table]:
        if not actions.num_rows:
            return
        entry = identity(actions)
        rank = pc.add(pc.multiply(actions["version"], 2), actions["is_add"].cast(pa.int64()))
        recent = pc.fill_null(pc.greater_equal(actions["removed_at"], self.cutoff), True)
        holds = pc.or_(actions["is_add"], recent)
        for each in _spellings(actions["path"].combine_chunks(), self.location):
            yield pa.table([each, entry, rank, holds], schema=CLAIMS)
        vectors = actions["vector"].combine_chunks()
        present = pc.is_valid(pc.struct_field(vectors, "storageType"))
        if not pc.any(present).as_py():
            return
        paths = delete_table(vectors.filter(present), self.location)["path"].combine_chunks()
        own = pc.is_valid(paths)  # inline vectors have no file
        columns = [paths, *(each.filter(present) for each in (entry, rank, holds))]
        chosen = pa.table(columns, schema=CLAIMS).filter(own)
        for each in _spellings(chosen["location"].combine_chunks(), self.location):
            yield chosen.set_column(0, CLAIMS.field(0), each)

    def _parts(self) -> Iterator[_ActionBatch]:
        if self.checkpoint is not None:
            yield from _ActionBatch.read_checkpoint(self.checkpoint, self.storage)
        else:
            yield _ActionBatch.parse_commits(self.commits, self.storage)


def _claims(locations: pa.Array) -> pa.Table:
    """Return claims without `entry`: these locations are in use whatever other actions there are."""
    count = len(locations)
    columns = [locations, pa.nulls(count, pa.string()), pa.nulls(count, pa.int64()), pa.repeat(True, count)]
    return pa.table(columns, schema=CLAIMS)


def parts_in_use(location: str, storage: Storage, cutoff: int, changes_cutoff: int) -> Iterator[LogPart]:
    """Yield the parts of the log that decide which files are in use.

    The files in use are those of every version that was current since `cutoff` and is still in the log, with deletion
    vectors, and the change data files of commits since `changes_cutoff`. Cutoffs are in milliseconds since 1970. Lists
    the log again. The log's own files are not included.
    """
    listing = list_log(location, storage)
    since, changed = _versions_since(listing, cutoff), _versions_since(listing, changes_cutoff)
    segment = listing.segment()
    part = LogPart(location, storage, cutoff, changed)
    for piece in pieces_of(segment, ActionReader(storage, ())):
        if piece.checkpoint is not None:
            yield replace(part, checkpoint=piece.checkpoint.location)
    for batch in batches(segment.commits):
        yield replace(part, commits=batch)
    first = segment.version + 1 - len(segment.commits)
    earlier = tuple(each for each in listing.commits if each.version < first)
    # Versions before the checkpoint may have been current since the cutoff, and the checkpoint may have dropped
    # tombstones of their files.
    for batch in batches(earlier):
        yield replace(part, commits=batch, since=since)


def new_files_since(location: str, storage: Storage, version: int) -> Iterator[pa.Array]:
    """Yield the locations of all files added after a version.

    Raises `StorageError` if the log lacks one of its commits.
    """
    listing = list_log(location, storage)
    commits = tuple(each for each in listing.commits if each.version > version)
    if [each.version for each in commits] != list(range(version + 1, listing.latest + 1)):
        raise StorageError(f"{location}: some commits after version {version} were removed from the log")
    for batch in batches(commits):
        part = _ActionBatch.parse_commits(batch, storage)
        yield from _action_locations(part.actions.filter(part.actions["is_add"]), location)
        yield from _spellings(part.changes, location)


def removed_files(location: str, storage: Storage) -> Iterator[pa.Array]:
    """Yield the locations of files that the log's tombstones name, with deletion vectors, and of change data files.

    Some of them may be live again, or needed by earlier versions within the retention.
    """
    listing = list_log(location, storage)
    pieces = pieces_of(listing.segment(), ActionReader(storage, ()))
    for each in pieces:
        if each.checkpoint is not None:
            for part in _ActionBatch.read_checkpoint(each.checkpoint.location, storage):
                yield from _tombstone_locations(part, location)
    for batch in batches(listing.commits):
        yield from _tombstone_locations(_ActionBatch.parse_commits(batch, storage), location)


def vectors_of_removed(location: str, storage: Storage, cutoff: int) -> pa.Array:
    """Return the deletion vector files of data files that were removed since `cutoff`.

    They are paths relative to the table's folder, not percent-encoded. `cutoff` is in milliseconds since 1970. Files
    that are already named by a `remove` action of their own are left out, since the VACUUM of a writer without deletion
    vectors keeps those. Files outside the folder, as a clone has, are left out, too.
    """
    segment = list_log(location, storage).segment()
    pieces = pieces_of(segment, ActionReader(storage, ()))
    files = [each.checkpoint.location for each in pieces if each.checkpoint is not None]
    parts = [part for each in files for part in _ActionBatch.read_checkpoint(each, storage)]
    parts += [_ActionBatch.parse_commits(batch, storage) for batch in batches(segment.commits)]
    actions = _retain_actions([part.actions for part in parts], cutoff)
    removed = actions.filter(pc.invert(actions["is_add"]))
    vectors = removed["vector"].combine_chunks()
    vectors = vectors.filter(pc.is_in(vectors.field("storageType"), value_set=pa.array(["u", "p"])))
    found = canonical_paths(pc.unique(delete_table(vectors, location)["path"].combine_chunks()))
    folder = canonical_paths(pa.array([join(location, "")]))[0].as_py()
    known = canonical_paths(file_locations(removed["path"].combine_chunks(), location))
    inside = found.filter(pc.and_not(pc.starts_with(found, folder), pc.is_in(found, value_set=known)))
    return pc.utf8_slice_codeunits(inside, len(folder))


def _tombstone_locations(part: _ActionBatch, location: str) -> Iterator[pa.Array]:
    yield from _action_locations(part.actions.filter(pc.invert(part.actions["is_add"])), location)
    yield from _spellings(part.changes, location)


class _ActionBatch:
    """The file actions of a batch of commits, or of a batch of rows of a checkpoint file.

    `actions` are its adds and removes, and `changes` the paths of its change data files. `source` is the file, for
    messages.
    """

    def __init__(self, rows: pa.Table, source: str) -> None:
        self.actions = pa.concat_tables([_actions(rows, name, source) for name in ("remove", "add")])
        cdc = rows["cdc"].combine_chunks()
        self.changes = _paths(cdc, source)
        self._changed = rows["version"].combine_chunks().filter(pc.is_valid(pc.struct_field(cdc, "path")))

    def changes_of(self, versions: pa.Array) -> pa.Array:
        """Return the paths of the change data files of these versions."""
        return self.changes.filter(pc.is_in(self._changed, value_set=versions))

    @staticmethod
    def parse_commits(commits: Sequence[LogFile], storage: Storage) -> _ActionBatch:
        return _ActionBatch(_parse_actions(read_commits(commits, storage)), commits[0].entry.location)

    @staticmethod
    def read_checkpoint(location: str, storage: Storage) -> Iterator[_ActionBatch]:
        """Yield a checkpoint file in batches, without statistics and other fields that are not needed."""
        if location.endswith(".json"):
            yield _ActionBatch(_parse_actions([LogText(location, storage.read(location))]), location)
            return
        with storage.open(location) as handle:
            try:
                file = open_lenient(handle, location)
                for batch in file.iter_batches(_ROWS, columns=_LEAVES):
                    yield _ActionBatch(_cast_actions(pa.Table.from_batches([batch])), location)
            except (pa.ArrowException, OSError) as error:
                raise CorruptMetadata(f"{location}: the checkpoint cannot be read: {error}") from error


def _parse_actions(texts: Sequence[LogText]) -> pa.Table:
    """Return the actions of commits or a JSON checkpoint, with their versions."""
    parts = [lines.rows.append_column("version", pa.array(lines.version)) for lines in parse_log_texts(texts, _ACTIONS)]
    return pa.concat_tables(parts)


def _cast_actions(rows: pa.Table) -> pa.Table:
    """Return a Parquet checkpoint's actions in the schema of commits, without other fields; missing fields are null."""
    columns = []
    for field in _ACTIONS:
        actions = rows[field.name].combine_chunks() if field.name in rows.column_names else None
        columns.append(pa.nulls(rows.num_rows, field.type) if actions is None else _as(actions, field.type))
    no_version = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
    return pa.table(columns, schema=_ACTIONS).append_column("version", no_version)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return values.cast(kind)
    members = []
    for field in kind:
        at = values.type.get_field_index(field.name)
        empty = pa.nulls(len(values), field.type)
        members.append(empty if at < 0 else _as(pc.struct_field(values, [at]), field.type))
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=values.is_null())


def _actions(rows: pa.Table, name: str, source: str) -> pa.Table:
    column = rows[name].combine_chunks()
    paths = _paths(column, source)
    present = pc.is_valid(pc.struct_field(column, "path"))
    actions = column.filter(present)
    times = pa.nulls(len(paths), pa.int64()) if name == "add" else pc.struct_field(actions, "deletionTimestamp")
    return pa.table(
        {
            "version": rows["version"].combine_chunks().filter(present),
            "is_add": pa.repeat(pa.scalar(name == "add"), len(paths)),
            "path": paths,
            "vector": pc.struct_field(actions, "deletionVector"),
            "removed_at": times,
        }
    )


def _paths(actions: pa.StructArray, source: str) -> pa.Array:
    """Return the paths of the actions that are not null; raises `CorruptMetadata` for a JSON action without one.

    `source` is the file. Rows of a Parquet checkpoint without the action may hold a struct of nulls.
    """
    paths = pc.struct_field(actions, "path")
    lacking = pc.and_(actions.is_valid(), pc.is_null(paths))
    if not source.endswith(".parquet") and pc.any(lacking).as_py():
        raise CorruptMetadata(f"{source}: a file action has no path, so the files of the table are unknown")
    return paths.drop_null()


def _retain_actions(tables: list[pa.Table], cutoff: int) -> pa.Table:
    """Return the newest action per file and deletion vector, if it is an add, or a remove since `cutoff`."""
    actions = pa.concat_tables(tables).combine_chunks()
    if not actions.num_rows:
        return actions
    last = actions.filter(pa.array(newest_mask(actions)))
    recent = pc.fill_null(pc.greater_equal(last["removed_at"], cutoff), True)
    return last.filter(pc.or_(last["is_add"], recent))


def _action_locations(actions: pa.Table, location: str) -> Iterator[pa.Array]:
    """Yield the locations of the actions' files and deletion vector files."""
    yield from _spellings(actions["path"].combine_chunks(), location)
    vectors = actions["vector"].combine_chunks()
    present = vectors.filter(pc.is_valid(pc.struct_field(vectors, "storageType")))
    yield from _spellings(delete_table(present, location)["path"].combine_chunks().drop_null(), location)


def _spellings(paths: pa.Array, location: str) -> Iterable[pa.Array]:
    """Return two arrays of locations for paths in the log: percent-decoded, as the protocol requires, and undecoded."""
    raw = pc.if_else(
        pc.match_substring_regex(paths, "^(?:/|[a-zA-Z][a-zA-Z0-9+.-]+:)"),
        paths,
        pc.binary_join_element_wise(location.rstrip("/"), paths, "/"),
    )
    return file_locations(paths, location), raw


def _versions_since(listing: LogListing, cutoff: int) -> pa.Array:
    """Return the versions of commits at or after `cutoff`, in milliseconds since 1970, or with an unknown time."""
    times = ((each.version, each.entry.modified) for each in listing.commits)
    return pa.array([version for version, at in times if at is None or at >= from_millis(cutoff)], pa.int64())
