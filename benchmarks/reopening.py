"""Open a table of 100,000 files again after the 1,001st commit since a checkpoint.

A process that has planned the table reads only the end of the log, or a manifest list and one manifest. The three
rows are opening, opening with the live files (no filter), and opening with the whole plan. The peers, deltalake and
pyiceberg, read the whole table again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import fastavro
from samples.iceberg_deletes import write_manifest_list
from samples.iceberg_table import SNAPSHOT

from benchmarks.data import FOLDER, write_delta_commit, write_delta_log
from benchmarks.harness import Result, compare
from benchmarks.planning_table import day_manifest, planning_table

_FILES, _COMMITS = 100_000, 1_000


def run(rows: int, runs: int) -> list[Result]:
    """Open a table of 100,000 files and 1,000 commits, whatever `rows` is."""
    results = []
    for name, (path, commit), peer in (
        ("Iceberg", _iceberg(), _pyiceberg),
        ("Delta", _delta(), _deltalake),
    ):
        for what, ours in (("open", _opened), ("open, live files", _live), ("open, plan", _planned)):
            _planned(path)  # fill the cache before the commit

            def again(ours: Callable[[str], object] = ours, path: str = path, commit: Any = commit) -> object:
                next(commit)
                return ours(path)

            theirs = ("opened anew by its library", lambda peer=peer, path=path: peer(path))
            results.append(compare(f"{name}: one commit later", (what, again), theirs, runs=runs))
    return results


def _opened(path: str) -> object:
    import lakescan

    return lakescan.table(path)


def _live(path: str) -> object:
    import lakescan

    return lakescan.table(path).scan().spec.file_table()


def _planned(path: str) -> object:
    import lakescan

    return lakescan.table(path).scan().plan()


def _pyiceberg(path: str) -> object:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(max((Path(path) / "metadata").glob("*.json"), key=_version)))


def _deltalake(path: str) -> object:
    from deltalake import DeltaTable

    return DeltaTable(path)


def _version(metadata: Path) -> int:
    return int(metadata.name[1:].split(".")[0])


def _delta() -> tuple[str, Iterator[None]]:
    """Return the folder of a copy of the Delta table, and an iterator that makes its next commits."""
    source, folder = FOLDER / "reopened_delta", FOLDER / "reopened_delta_copy"
    write_delta_log(source, _FILES, 10, 1_000, checkpoint=_FILES // 1_000)
    for number in range(_COMMITS):
        write_delta_commit(source, _FILES // 1_000 + 1 + number, _FILES + number)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder)
    return str(folder), (
        write_delta_commit(folder, _FILES // 1_000 + 1 + number, _FILES + number) for number in count(_COMMITS)
    )


def _iceberg() -> tuple[str, Iterator[None]]:
    """Return the folder of an Iceberg table with one more manifest per commit, and an iterator that makes its next
    commits.
    """
    folder = FOLDER / "reopened_iceberg"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "metadata").mkdir(parents=True)
    source = Path(planning_table(_FILES, _FILES // 1_000))
    with (source / "metadata" / "snap.avro").open("rb") as file:
        listed: list[dict[str, Any]] = list(fastavro.reader(file))
    metadata = json.loads((source / "metadata" / "v1.metadata.json").read_text())
    metadata["location"] = location = f"file://{folder}"

    def commit(number: int, *, seen: bool = True) -> None:
        own = day_manifest(folder, location, _FILES + number, 1)
        listed.insert(0, own | {"sequence_number": number + 2, "min_sequence_number": number + 2})
        snapshot = {
            "snapshot-id": SNAPSHOT + 1 + number,
            "parent-snapshot-id": SNAPSHOT + number,
            "sequence-number": number + 2,
            "timestamp-ms": metadata["last-updated-ms"] + 1,
            "manifest-list": f"{location}/metadata/snap-{number}.avro",
            "summary": {"operation": "append", "added-data-files": "1", "total-data-files": str(_FILES + 1 + number)},
            "schema-id": 0,
        }
        metadata["snapshots"].append(snapshot)
        metadata["snapshot-log"].append({name: snapshot[name] for name in ("snapshot-id", "timestamp-ms")})
        metadata["current-snapshot-id"] = snapshot["snapshot-id"]
        metadata["last-sequence-number"], metadata["last-updated-ms"] = number + 2, snapshot["timestamp-ms"]
        if seen:
            write_manifest_list(f"{folder}/metadata/snap-{number}.avro", listed)
            (folder / "metadata" / f"v{number + 1}.metadata.json").write_text(json.dumps(metadata))
            (folder / "metadata" / "version-hint.text").write_text(str(number + 1))

    for number in range(_COMMITS):
        commit(number, seen=number == _COMMITS - 1)
    return str(folder), (commit(number) for number in count(_COMMITS))
