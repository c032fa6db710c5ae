"""Restore an earlier version of a table: commit its files and metadata as a new version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.alter.table_state import parse_schema_tree, schema_text
from lakescan.delta.commit.actions import DeltaFileChanges, remove_actions
from lakescan.delta.commit.commit import DeltaCommit, Operation
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.commit.file_actions import live_adds, whole_adds
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.log.replay import identity
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.new_schema import IDENTITY_MARK, IDENTITY_STEP
from lakescan.delta.metadata.protocol import CLUSTERING, Metadata
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.deletion_vectors import delete_table
from lakescan.delta.table import DeltaTable
from lakescan.errors import MissingFile
from lakescan.formats.table_format import SnapshotSelector
from lakescan.storage import Storage
from lakescan.tables.results import RestoreResult
from lakescan.tables.scan_spec import ScanSpec

_LAST_ID = DeltaProperties.max_column_id.name
_PROTECTED = DeltaProperties.protected_before.name
_SHOWN = 3  # number of missing files that an error lists


@dataclass(frozen=True)
class RestoredFiles:
    """The difference between the current and a restored version, in rows of `live_adds`.

    `back` are files to add again, `gone` files to remove, and `kept` files that both versions have.
    """

    back: pa.Table
    gone: pa.Table
    kept: pa.Table

    @staticmethod
    def compare(now: DeltaVersion, earlier: DeltaVersion, storage: Storage) -> RestoredFiles:
        """Compare the live files of two versions; the same path with another deletion vector counts as another file."""
        live, before = live_adds(now, storage), live_adds(earlier, storage)
        mine, theirs = (_identities(each) for each in (live, before))
        stays = pc.is_in(theirs, value_set=mine)
        return RestoredFiles(
            before.filter(pc.invert(stays)),
            live.filter(pc.invert(pc.is_in(mine, value_set=theirs))),
            before.filter(stays),
        )

    def check_present(self, version: int, location: str, storage: Storage) -> None:
        """Raise `MissingFile` if a file to add again, or its deletion vector, is no longer in storage.

        `version` is the version to restore, for the message, and `location` the table's folder.
        """
        vectors = self.back["vector"].combine_chunks()
        with_vector = vectors.filter(pc.is_valid(vectors.field("storageType")))
        beside = delete_table(with_vector, location)["path"] if len(with_vector) else pa.array([], pa.string())
        paths = {*self.back["path"].to_pylist(), *(each for each in beside.to_pylist() if each)}
        ordered = sorted(paths)
        missing = [path for path, entry in zip(ordered, storage.look_up(ordered), strict=True) if entry is None]
        if missing:
            more = f", and {len(missing) - _SHOWN:,} others" if len(missing) > _SHOWN else ""
            raise MissingFile(
                f"{location}: version {version} cannot be restored: {len(missing):,} of its files are missing, "
                f"{', '.join(missing[:_SHOWN])}{more}. They were deleted by VACUUM, or by hand: restore a newer version"
            )

    def changes(self, earlier: DeltaVersion, storage: Storage) -> DeltaFileChanges:
        """Return the file actions of the commit that restores the version `earlier`."""
        return DeltaFileChanges(whole_adds(earlier, storage, self.back), remove_actions(self.gone))

    @property
    def metrics(self) -> dict[str, int]:
        """Delta's operation metrics of RESTORE; sizes in bytes."""
        back, gone, kept = (_size(each) for each in (self.back, self.gone, self.kept))
        return {
            "tableSizeAfterRestore": kept + back,
            "numOfFilesAfterRestore": self.kept.num_rows + self.back.num_rows,
            "numRemovedFiles": self.gone.num_rows,
            "numRestoredFiles": self.back.num_rows,
            "removedFilesSize": gone,
            "restoredFilesSize": back,
        }


def restored_metadata(now: Metadata, earlier: Metadata) -> Metadata:
    """Return the earlier metadata with the current table id, and with later column ids, identity values and protection.

    Ids and identity values that are assigned later so continue after all assigned ones. Protected checkpoints stay
    protected, since their versions remain in the table's history.
    """
    configuration = keep_protection(earlier.configuration, now)
    if _LAST_ID in configuration:
        last = max(now.properties.max_column_id, earlier.properties.max_column_id)
        configuration[_LAST_ID] = str(last)
    schema = keep_identity_marks(earlier.schema_string, now.schema_string)
    return replace(earlier, schema_string=schema, configuration=configuration, id=now.id)


def keep_protection(configuration: Mapping[str, str], base: Metadata) -> dict[str, str]:
    """Return the properties with the checkpoint protection of `base`, if that is higher than their own."""
    before = max(base.properties.protected_before, DeltaProperties(configuration, base.where).protected_before)
    return {**configuration, **({_PROTECTED: str(before)} if before else {})}


def restored_domains(now: DeltaVersion, earlier: DeltaVersion, storage: Storage) -> dict[str, str | None]:
    """Return the change of the clustering domain that a restore needs; empty if it is the same in both versions.

    The value is the earlier configuration as JSON text, or None to remove the domain. Other domains are not restored.
    """
    reader = LogReader(now.segment.location, storage)
    mine, theirs = (_text(reader.domains(each.segment).get(CLUSTERING)) for each in (now, earlier))
    return {} if mine == theirs else {CLUSTERING: theirs}


def _text(action: Any) -> str | None:
    return None if action is None else action.text("configuration")


def keep_identity_marks(schema: str, now: str) -> str:
    """Return a schema's JSON with identity columns that continue after the values assigned in the schema `now`."""
    node, marks = parse_schema_tree(schema), _marks(now)
    changed = False
    for field in node["fields"]:
        metadata = field.get("metadata") or {}
        mark, step = marks.get(field["name"]), metadata.get(IDENTITY_STEP)
        if mark is None or step is None:
            continue
        known = metadata.get(IDENTITY_MARK, mark)
        metadata[IDENTITY_MARK] = max(known, mark) if step > 0 else min(known, mark)
        changed = True
    return schema_text(node) if changed else schema


def _marks(schema: str) -> Mapping[str, int]:
    fields = parse_schema_tree(schema)["fields"]
    return {
        each["name"]: each["metadata"][IDENTITY_MARK]
        for each in fields
        if IDENTITY_MARK in (each.get("metadata") or {})
    }


def _identities(files: pa.Table) -> pa.Array:
    return identity(files) if files.num_rows else pa.array([], pa.string())


def _size(files: pa.Table) -> int:
    total: int = pc.sum(files["size"]).as_py() or 0
    return total


def restore(
    scan: ScanSpec,
    now: DeltaVersion,
    storage: Storage,
    version: int | str | None,
    timestamp: datetime | None,
    check_removable: Callable[[], None],
) -> RestoreResult:
    """Commit an earlier version's state to the table of a scan, whose newest version is `now`; see `Target.restore`.

    Commits nothing if the earlier version is the newest one. `check_removable` is called before files are removed, and
    raises an error if the table does not allow that.
    """
    location, newest = now.segment.location, now.segment.version
    now.protocol.check_supports(Support.WRITE, "restoring", location)
    earlier = _version(scan, version, timestamp)
    wanted = earlier.segment.version
    earlier.protocol.check_readable(location)
    earlier.protocol.check_supports(Support.WRITE, f"restoring version {wanted} of", location)
    files = RestoredFiles.compare(now, earlier, storage)
    if files.gone.num_rows:
        check_removable()
    files.check_present(wanted, location, storage)
    if wanted != newest:
        metadata, protocol = restored_metadata(now.metadata, earlier.metadata), now.protocol
        upgraded = protocol.with_features(earlier.protocol.features)
        shown = None if timestamp is None else timestamp.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
        parameters = {"version": None if timestamp is not None else wanted, "timestamp": shown}
        DeltaCommit(
            now,
            storage,
            Operation("RESTORE", parameters, files.metrics),
            files.changes(earlier, storage),
            Reads.whole_table(),
            metadata,
            None if upgraded == protocol else upgraded,
            domains=restored_domains(now, earlier, storage),
        ).commit()
    counts = files.metrics
    return RestoreResult(
        wanted,
        counts["tableSizeAfterRestore"],
        counts["numOfFilesAfterRestore"],
        counts["numRemovedFiles"],
        counts["numRestoredFiles"],
        counts["removedFilesSize"],
        counts["restoredFilesSize"],
    )


def _version(scan: ScanSpec, version: int | str | None, timestamp: datetime | None) -> DeltaVersion:
    """Return the version to restore; raises `NoSuchSnapshot` for one that the log does not have."""
    table = scan.table
    assert isinstance(table, DeltaTable)
    return table.version_of(table.snapshot(SnapshotSelector(version=version, timestamp=timestamp)))
