"""The tables below folders."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakescan.api.open import table
from lakescan.conformance.engines import Job
from lakescan.errors import LakescanError, StorageError


def find_tables(place: str) -> Iterator[str]:
    """The tables below a local folder, in the order of their paths; anything else is taken to be a table itself.

    Raises:
        StorageError: A folder cannot be listed: there may be tables in it.
    """
    if not os.path.isdir(place) or _is_table(Path(place)):
        yield place
        return
    for folder, names, _ in os.walk(place, onerror=_raise_listing_error):
        names.sort()
        if _is_table(Path(folder)):
            names.clear()
            yield folder


def _raise_listing_error(error: OSError) -> None:
    raise StorageError(
        f"cannot list {error.filename}: {error.strerror}. There may be tables in it: name those that can be read"
    ) from error


def _is_table(folder: Path) -> bool:
    return (folder / "_delta_log").is_dir() or any((folder / "metadata").glob("*.metadata.json"))


def job_of(location: str, relocate: Mapping[str, str], storage_options: Mapping[str, str]) -> Job:
    """What engines are asked of a table: its format, and an Iceberg table's newest metadata file."""
    try:
        opened = table(location, relocate=relocate or None, storage_options=storage_options or None)
        kind, metadata = opened.format, ""
        if kind == "iceberg":
            metadata = str(opened.inspect("metadata_log_entries").column("file")[-1].as_py())
            for old, new in relocate.items():
                if metadata.startswith(old):
                    metadata = new + metadata[len(old) :]
                    break
        if location.endswith(".json"):
            metadata = location
        elif opened.name is not None:  # another process does not know its catalog
            location = metadata if kind == "iceberg" else opened.folder
    except LakescanError:
        # What it is follows from its place; the reason is lakescan's answer.
        kind = "delta" if Path(location, "_delta_log").is_dir() else "iceberg"
        metadata = location if location.endswith(".json") else _newest(Path(location))
    return Job(kind, location, metadata, relocate, storage_options)


def _newest(folder: Path) -> str:
    found = sorted((folder / "metadata").glob("*.metadata.json"), key=lambda path: (path.stat().st_mtime, path.name))
    return str(found[-1]) if found else ""
