"""An independent reader of the files that each version references, with checks of the metadata.

It uses only the library's Base85 code: otherwise an error in the library's reading could hide one in its writing.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote

import fastavro

from lakescan.delta.scan.deletion_vectors import decode_z85
from tests.simulation.store import Store
from tests.simulation.world import Broken

_WEEK = 7 * 24 * 3_600_000  # milliseconds that Delta keeps the files of earlier versions
_SLACK = 3 * 3_600_000  # how much older than its arrival a commit may be: it was stalled or late, and clocks jump
_GONE = 2  # status of a deleted manifest entry


def key_of(location: str) -> str:
    return location.partition("://")[2]


class Files(Protocol):
    """The files of a table, tracked commit by commit."""

    def note(self, location: str) -> None:
        """Record a committed version in this file; raise `Broken` if its metadata is wrong."""

    @property
    def newest(self) -> set[str]:
        """Return the keys of all files that the newest version needs."""

    def why_kept(self, key: str) -> str | None:
        """Return why a file must not be removed now; None if it may be removed."""

    def readable(self) -> dict[int, int]:
        """Return the versions that can still be read, with the table's number of each."""


def check_there(files: Files, store: Store) -> None:
    """Raise `Broken` if a file that the newest version needs is missing."""
    if missing := sorted(files.newest - store.objects.keys()):
        raise Broken(f"the newest version needs files that are missing: {', '.join(missing)}")


@dataclass
class IcebergFiles:
    """All snapshots that have not expired: their manifest lists, manifests, delete files and data files."""

    store: Store
    metadata: dict[str, Any] = field(default_factory=dict)
    location: str = ""
    heads: list[int] = field(default_factory=list)  # for each version, the snapshot of main
    _read: dict[str, set[str]] = field(default_factory=dict)

    def note(self, location: str) -> None:
        before, self.location = self.metadata, location
        self.metadata = json.loads(self.store.objects[key_of(location)][0])
        if before:
            _check_numbers(before, self.metadata)
            _check_times(before, self.metadata)
        self.heads.append(self.metadata["current-snapshot-id"])

    @property
    def _snapshots(self) -> dict[int, dict[str, Any]]:
        return {each["snapshot-id"]: each for each in self.metadata.get("snapshots", ())}

    @property
    def newest(self) -> set[str]:
        found = {key_of(self.location)}
        for each in self._snapshots.values():
            found |= self._of_list(each["manifest-list"])
        return found

    def why_kept(self, key: str) -> str | None:
        return "a snapshot that has not expired needs it" if key in self.newest else None

    def readable(self) -> dict[int, int]:
        return {number: head for number, head in enumerate(self.heads) if head in self._snapshots}

    def _of_list(self, location: str) -> set[str]:
        def manifests(rows: list[dict[str, Any]]) -> Iterable[str]:
            for each in rows:
                yield from self._once(each["manifest_path"], _paths)

        return self._once(location, manifests)

    def _once(self, location: str, of: Callable[[list[dict[str, Any]]], Iterable[str]]) -> set[str]:
        """Return a file and the files that it references, read only once because files do not change."""
        if location not in self._read:
            data = self.store.objects.get(key_of(location))
            if data is None:
                return {key_of(location)}
            self._read[location] = {key_of(location), *of(list(fastavro.reader(io.BytesIO(data[0]))))}
        return self._read[location]


def _paths(entries: list[dict[str, Any]]) -> Iterable[str]:
    return [key_of(each["data_file"]["file_path"]) for each in entries if each["status"] != _GONE]


def _check_numbers(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Check that new snapshots have greater sequence numbers than all before, and unique row ids."""
    known = {each["snapshot-id"] for each in before.get("snapshots", ())}
    last, next_row = before["last-sequence-number"], before.get("next-row-id") or 0
    for each in now.get("snapshots", ()):
        if each["snapshot-id"] in known:
            continue
        number = each["sequence-number"]
        if number <= last:
            raise Broken(f"the sequence number {number} is used twice: {last} was the last one")
        last = number
        if now["format-version"] > 2:
            if each["first-row-id"] < next_row:
                raise Broken(f"row ids from {each['first-row-id']} on are used twice: {next_row} was the next one")
            next_row = each["first-row-id"] + each["added-rows"]
    if now["last-sequence-number"] != last:
        raise Broken(f"the last sequence number is {now['last-sequence-number']}, not {last}")
    if now["format-version"] > 2 and now["next-row-id"] < next_row:
        raise Broken(f"the next row id is {now['next-row-id']}, although {next_row - 1} is used")


def _check_times(before: dict[str, Any], now: dict[str, Any]) -> None:
    """Check that times never run backwards: in the logs, from commit to commit, and from snapshot to snapshot."""
    for name in ("snapshot-log", "metadata-log"):
        times = [each["timestamp-ms"] for each in now.get(name, ())]
        if times != sorted(times) or (times and times[-1] > now["last-updated-ms"]):
            raise Broken(f"the times of the {name} run backwards: {times}, last-updated-ms {now['last-updated-ms']}")
    if now["last-updated-ms"] <= before["last-updated-ms"]:
        raise Broken(f"a commit of {now['last-updated-ms']} follows one of {before['last-updated-ms']}")
    known = {each["snapshot-id"]: each["timestamp-ms"] for each in before.get("snapshots", ())}
    new = {each["timestamp-ms"] for each in now.get("snapshots", ()) if each["snapshot-id"] not in known}
    if known and new and min(new) <= max(known.values()):
        raise Broken(f"a snapshot of {min(new)} follows one of {max(known.values())}")


Vector = tuple[str, str, int | None] | None  # how it is stored, where, and the offset


@dataclass
class DeltaFiles:
    """The log, replayed commit by commit: data files and vectors of each version, and the time of the next version."""

    store: Store
    folder: str
    live: dict[str, Vector] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    last_time: int = 0  # the in-commit timestamp of the newest version that has one
    _before: list[tuple[int, set[str]]] = field(default_factory=list)  # when it was replaced, and its files

    def note(self, location: str) -> None:
        if self.numbers:
            self._before.append((self.store.world.now, self.newest))
        self.numbers.append(int(location.rpartition("/")[2].removesuffix(".json")))
        text = self.store.objects[key_of(location)][0].decode()
        actions = [json.loads(line) for line in text.splitlines()]
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
        at = next((each["inCommitTimestamp"] for each in infos if "inCommitTimestamp" in each), None)
        if at is not None and at <= self.last_time:
            raise Broken(f"version {self.numbers[-1]} is of {at}, and follows one of {self.last_time}")
        self.last_time = self.last_time if at is None else at
        for each in (action["remove"] for action in actions if "remove" in action):
            path, vector = each["path"], _vector(each)
            if path not in self.live or self.live[path] != vector:
                raise Broken(f"version {self.numbers[-1]} removes a file that the table does not have: {path} {vector}")
            del self.live[path]
        for each in (action["add"] for action in actions if "add" in action):
            path, vector = each["path"], _vector(each)
            if path in self.live and self.live[path] != vector:
                raise Broken(f"version {self.numbers[-1]} adds a file a second time, with another vector: {path}")
            self.live[path] = vector

    @property
    def newest(self) -> set[str]:
        found = {f"{self.folder}/{unquote(path)}" for path in self.live}
        for each in filter(None, self.live.values()):
            kind, where, _ = each
            if kind == "u":
                number = uuid.UUID(bytes=decode_z85(where[-20:].encode()))
                found.add(f"{self.folder}/{where[:-20]}{'/' * (len(where) > 20)}deletion_vector_{number}.bin")
        return found

    def why_kept(self, key: str) -> str | None:
        if key in self.newest:
            return "the newest version needs it"
        since = self.store.world.now - _WEEK + _SLACK
        return (
            "a version of this week needs it"
            if any(at > since and key in files for at, files in self._before)
            else None
        )

    def readable(self) -> dict[int, int]:
        since = self.store.world.now - _WEEK + _SLACK
        times = [*(at for at, _ in self._before), self.store.world.now]
        return {place: number for place, number in enumerate(self.numbers) if times[place] > since}


def _vector(file: dict[str, Any]) -> Vector:
    found = file.get("deletionVector")
    return found and (found["storageType"], found["pathOrInlineDv"], found.get("offset"))
