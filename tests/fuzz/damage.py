"""The kinds of damage: each is drawn from a seed, and declares the answers that reading may give afterwards."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.fuzz import avro_files, bombs, json_values, parquet_files, vectors
from tests.fuzz.tables import Sample

# Allowed outcomes of reading, apart from a lakescan error. `rows`: as many rows as before, with any values.
SAME, ROWS, ANY = "same", "rows", "any"


@dataclass(frozen=True)
class Case:
    """A copy of a table in a folder, to be damaged, and its source of randomness."""

    sample: Sample
    folder: Path
    random: random.Random

    @property
    def is_delta(self) -> bool:
        """Return whether the table is a Delta table."""
        return self.sample.name.startswith("delta")

    def files(self, *kinds: str) -> list[Path]:
        """Return the table's files of these kinds (see `kind_of`), or all files."""
        found = sorted(p for p in self.folder.rglob("*") if p.is_file())
        return [p for p in found if not kinds or kind_of(p) in kinds]

    def any_file(self, *kinds: str) -> Path:
        """Choose a file, each kind being equally likely, or raise `NothingToDamage`."""
        found = self.files(*kinds)
        if not found:
            raise NothingToDamage
        kind = self.random.choice(sorted({kind_of(p) for p in found}))
        return self.random.choice([p for p in found if kind_of(p) == kind])

    def rows_or_any(self) -> str:
        """Return `ROWS`, or `ANY` if the number of rows depends on the table's values."""
        return ROWS if self.sample.rows_are_counted else ANY


@dataclass(frozen=True)
class Damage:
    """A description of the damage, and the answers that reading may give: `SAME`, `ROWS` or `ANY`."""

    told: str
    allows: str = ANY
    faults: dict[str, Any] = field(default_factory=dict)  # a patch of the storage, applied before reading


class NothingToDamage(Exception):
    """The table has no file of the kind."""


def kind_of(path: Path) -> str:
    """Return a file's kind: data, position, key, vector, manifest, list, metadata, commit, checkpoint, other."""
    name = path.name
    if name.endswith((".puffin", ".bin")):
        return "vector"
    if "-deletes" in name:
        return "position" if name.startswith("d-") else "key"
    if path.parent.name == "_delta_log":
        return "commit" if name.endswith(".json") else "checkpoint" if name.endswith(".parquet") else "pointer"
    if path.parent.name == "metadata":
        return "metadata" if name.endswith(".json") else "list" if name.startswith("snap-") else "manifest"
    return "data"


def damaged_bytes(case: Case) -> Damage:
    """Damage the bytes of one file: flipped bits, truncation, noise, or two files swapped."""
    path = case.any_file()
    data = bytearray(path.read_bytes())
    at, count = case.random.randrange(len(data)), case.random.choice([1, 2, 4, 16, 64, 256])
    how = case.random.choice(["bit", "bit", "bit", "bits", "cut", "tail", "zeros", "noise", "insert", "remove", "swap"])
    match how:
        case "bit":
            data[at] ^= 1 << case.random.randrange(8)
        case "bits":
            for _ in range(8):
                data[case.random.randrange(len(data))] ^= 1 << case.random.randrange(8)
        case "cut":
            del data[at:]
        case "tail":
            data += data[-count:]
        case "zeros":
            data[at : at + count] = bytes(len(data[at : at + count]))
        case "noise":
            data[at : at + count] = case.random.randbytes(len(data[at : at + count]))
        case "insert":
            data[at:at] = case.random.randbytes(count)
        case "remove":
            del data[at : at + count]
        case "swap":
            data[:] = case.any_file().read_bytes()
    path.write_bytes(data)
    return Damage(f"{how} at {at} ({count}) of {_told(case, path)}", _allowed(case, path, how))


def _allowed(case: Case, path: Path, how: str) -> str:
    """Return the answers allowed after the damage, given the checks that the formats have."""
    kind = kind_of(path)
    if kind == "vector":
        return SAME  # each has a length and a checksum, and its row count is recorded elsewhere
    if kind == "data" and how != "swap":
        return case.rows_or_any()
    if how == "cut" and kind in ("data", "position", "key", "manifest", "list", "metadata", "checkpoint"):
        return SAME
    return ANY  # an older commit may be complete without its last line; a path may now name another file


def damaged_json(case: Case) -> Damage:
    """Damage a value of the metadata: missing, of another type, hostile; or make the text invalid JSON."""
    path = case.any_file("metadata", "commit", "pointer")
    told, essential = json_values.change(case.random, path)
    return Damage(f"{told} in {_told(case, path)}", SAME if essential else ANY)


def damaged_manifests(case: Case) -> Damage:
    """Damage a record or the schema of a manifest or manifest list."""
    path = case.any_file("manifest", "list")
    return Damage(f"{avro_files.change(case.random, path)} in {_told(case, path)}")


def damaged_footer(case: Case) -> Damage:
    """Damage numbers and texts of a Parquet footer."""
    path = case.any_file("data", "position", "key", "checkpoint")
    if path.suffix != ".parquet":
        raise NothingToDamage
    told = parquet_files.change_footer(case.random, path)
    return Damage(f"{told} in {_told(case, path)}", case.rows_or_any() if kind_of(path) == "data" else ANY)


def damaged_parquet(case: Case) -> Damage:
    """Rewrite a Parquet file with other columns, types or rows."""
    path = case.any_file("data", "position", "key", "checkpoint")
    if path.suffix != ".parquet":
        raise NothingToDamage
    try:
        told = parquet_files.rewrite(case.random, path)
    except pa.ArrowException:
        raise NothingToDamage from None  # a required column has no nulls
    return Damage(f"{told} in {_told(case, path)}", case.rows_or_any() if kind_of(path) == "data" else ANY)


def damaged_vectors(case: Case) -> Damage:
    """Write deletion vectors with a valid length and checksum but a wrong bitmap."""
    if not case.files("vector"):
        raise NothingToDamage
    return Damage(vectors.change(case.random, case.folder, is_delta=case.is_delta))


def special_files(case: Case) -> Damage:
    """Replace a file by a folder, a pipe, a device, a link to itself, an unreadable file or a sparse file."""
    path = case.any_file()
    content = path.read_bytes()
    what = case.random.choice(["gone", "folder", "pipe", "zeros", "nothing", "itself", "nowhere", "empty", "sparse"])
    path.unlink()
    targets = {"zeros": "/dev/zero", "nothing": "/dev/null", "itself": str(path), "nowhere": "/nowhere/at/all"}
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    elif what in targets:
        path.symlink_to(targets[what])
    elif what == "empty":
        path.touch()
    elif what == "sparse":
        path.write_bytes(content)
        os.truncate(path, 8 * 2**30)
    told = f"{what} in the place of {_told(case, path)}"
    # A log that ends earlier is valid: a missing last commit or pointer cannot be noticed.
    is_log_end = kind_of(path) in ("commit", "pointer", "checkpoint") and what in ("gone", "itself", "nowhere")
    return Damage(told, ANY if is_log_end or kind_of(path) == "pointer" else SAME)


def hostile_paths(case: Case) -> Damage:
    """Make a path in the metadata lead elsewhere."""
    new = case.random.choice(_PATHS)
    if new == "PIPE":
        os.mkfifo(case.folder / "pipe")
        new = str(case.folder / "pipe")
    set_path = json_values.set_path if case.is_delta else avro_files.set_path
    told = set_path(case.random, case.folder, new)
    return Damage(f"{told} is {new[:40]!r}")


_PATHS = [
    "/dev/zero", "/dev/stdin", "/", "..", "", "../../x", "%zz", "%00", "\x00x", "x" * 5000, "PIPE", "file:", "s3:",
    "nosuch://x/y",
    "hdfs://h:port/x", "file://host/x", "http://127.0.0.1:1/x", "\ud800",
]  # fmt: skip


def small_that_becomes_large(case: Case) -> Damage:
    """Plant a few bytes that unpack to gigabytes, or that declare huge counts."""
    return Damage(bombs.plant(case.random, case.folder, is_delta=case.is_delta))


def faults_of_storage(case: Case) -> Damage:
    """Let storage calls fail, or reads return too few bytes."""
    place = case.random.choice(["open", "read", "close", "info", "list", "short", "empty"])
    fault = case.random.choice(["OSError", "TimeoutError", "PermissionError", "ConnectionResetError", "ValueError"])
    after = case.random.choice([0, 0, 1, 1, 2, 3, 4, 6, 9, 14])
    return Damage(f"{place} raises {fault} after {after}", SAME, {"place": place, "fault": fault, "after": after})


def _told(case: Case, path: Path) -> str:
    return str(path.relative_to(case.folder))


KINDS: dict[str, Callable[[Case], Damage]] = {
    "bytes": damaged_bytes,
    "json": damaged_json,
    "manifests": damaged_manifests,
    "footer": damaged_footer,
    "parquet": damaged_parquet,
    "vectors": damaged_vectors,
    "special": special_files,
    "paths": hostile_paths,
    "bombs": small_that_becomes_large,
    "storage": faults_of_storage,
}
