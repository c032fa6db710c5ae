"""The few actions of a checkpoint that are not about files: protocol, metaData, domainMetadata, checkpointMetadata."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakescan.delta.log.checkpoint_files import CheckpointFile
from lakescan.delta.log.text import ADVICE, Action, LogText, single_actions
from lakescan.errors import CorruptMetadata
from lakescan.storage.storage import FileEntry, Storage

# A member that each of them has, by which rows of Parquet that hold one are known.
_KNOWN_BY = {
    "protocol": "minReaderVersion",
    "metaData": "schemaString",
    "domainMetadata": "domain",
    "checkpointMetadata": "version",
}
_UNIQUE_NAME = re.compile(r"\d{20}\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")


def checkpoint_actions(location: str, storage: Storage, names: tuple[str, ...]) -> Iterator[Action]:
    """The actions of these names in one file of a checkpoint, JSON or Parquet."""
    if location.endswith(".json"):
        yield from single_actions(LogText(location, storage.read(location)), names)
        return
    file = CheckpointFile(location, storage)
    for name in names:
        yield from file.single(name, _KNOWN_BY[name])


def check_checkpoint(file: FileEntry, version: int, storage: Storage) -> None:
    """Refuse a checkpoint with a unique name that is not one of its version: these say so themselves (V2 spec).

    One that was cut off may have lost the names of its sidecars.
    """
    if _UNIQUE_NAME.fullmatch(file.name) is None:
        return
    found = [
        each.whole_number("version") for each in checkpoint_actions(file.location, storage, ("checkpointMetadata",))
    ]
    if found != [version]:
        said = "has no checkpointMetadata action" if not found else f"says that it is of version {found[0]}"
        raise CorruptMetadata(
            f"{file.location} {said}, where one of version {version} belongs: it was cut off, or is not what its name "
            f"says. {ADVICE}"
        )
