"""Find a table's current metadata file in its folder, for tables without a catalog."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from lakescan.errors import MissingFile, NotATable
from lakescan.storage import FileEntry, Storage, join

_EXTENSION = r"(?:\.gz)?\.metadata\.json(?:\.gz)?"
_METADATA = re.compile(rf"v?(\d+)(?:-[^/]*)?{_EXTENSION}")
# The file that a writer without a catalog renames to vN.metadata.json. Its leading digits are not a version.
_DRAFT = re.compile(rf"[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_EXTENSION}")
VERSION_NAME = re.compile(rf"v(\d+){_EXTENSION}")  # a metadata file of a table without a catalog
HINT = "version-hint.text"


class MetadataSource(Protocol):
    """Finds the current metadata file of a table, in a catalog or a folder."""

    def current(self) -> str:
        """Return the location of the current metadata file."""


@dataclass(frozen=True)
class FolderSource:
    """A table folder, whose newest metadata file is current, or one fixed metadata file."""

    location: str
    storage: Storage

    def current(self) -> str:
        """Return the location of the current metadata file; raises `NotATable` for a folder without metadata files."""
        return self.location if is_metadata_file(self.location) else current_metadata(self.location, self.storage)


def is_metadata_file(location: str) -> bool:
    """Return whether a location names one metadata JSON file rather than a table folder."""
    return location.endswith((".metadata.json", ".metadata.json.gz", ".json"))


def is_draft_name(name: str) -> bool:
    """Return whether a file name is that of a draft: `<uuid>.metadata.json`.

    Without a catalog, writers create metadata as a draft, and commit it by renaming the draft.
    """
    return _DRAFT.fullmatch(name) is not None


def is_catalog_name(name: str) -> bool:
    """Return whether a file name is that of a metadata file in a catalog: `00001-<uuid>.metadata.json`."""
    return _METADATA.fullmatch(name) is not None and not is_draft_name(name) and not name.startswith("v")


def current_metadata(location: str, storage: Storage) -> str:
    """Return the current metadata file of a table folder: the one that `version-hint.text` names, else the newest.

    Raises `NotATable` if the folder has no metadata file.
    """
    folder = join(location, "metadata")
    files = {entry.name: entry for entry in storage.list(folder, _is_wanted)}
    candidates = {name: int(match[1]) for name in files if (match := _METADATA.fullmatch(name))}
    if not candidates:
        raise NotATable(f"{location} is not an Iceberg table: {folder} has no *.metadata.json")
    newest = max(candidates, key=lambda name: (candidates[name], _modification_time(files[name]), _is_plain(name)))
    hinted = _read_hint(join(folder, HINT), candidates, storage) if HINT in files else None
    return join(folder, hinted or newest)


def _is_wanted(name: str) -> bool:
    return name == HINT or (_METADATA.fullmatch(name) is not None and not is_draft_name(name))


def _read_hint(path: str, candidates: dict[str, int], storage: Storage) -> str | None:
    """Return the name of the metadata file that `version-hint.text` leads to; None without a hint or such a file.

    `candidates` are the names of the metadata files in the folder. A hint is a version number, or a file name without
    extension. A Hadoop-style commit writes the metadata first and then the hint, so later versions that follow the
    number without a gap count too.
    """
    try:
        text = storage.read(path).decode(errors="replace").strip()
    except MissingFile:  # Java deletes the hint before it renames the next one
        return None
    names = sorted(candidates, key=_is_plain)  # if a version has two files, Java reads the uncompressed one
    by_stem = {name.removesuffix(".gz").removesuffix(".metadata.json").removesuffix(".gz"): name for name in names}
    if text in by_stem or f"v{text}" not in by_stem:
        return by_stem.get(text)
    version = int(text)
    while f"v{version + 1}" in by_stem:
        version += 1
    return by_stem[f"v{version}"]


def _is_plain(name: str) -> bool:
    return ".gz" not in name


def _modification_time(entry: FileEntry) -> float:
    return entry.modified.timestamp() if entry.modified is not None else 0.0
