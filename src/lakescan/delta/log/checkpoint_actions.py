"""Read the non-file actions of a checkpoint: protocol, metaData, txn, domainMetadata, checkpointMetadata."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakescan.delta.log.checkpoint_files import CheckpointFile
from lakescan.delta.log.text import ADVICE, Action, LogText, single_actions
from lakescan.errors import CorruptMetadata
from lakescan.storage import FileEntry, Storage

# A required member of each action: rows of a Parquet checkpoint that hold the action have it.
_REQUIRED_MEMBER = {
    "protocol": "minReaderVersion",
    "metaData": "schemaString",
    "txn": "appId",
    "domainMetadata": "domain",
    "checkpointMetadata": "version",
}
_UNIQUE_NAME = re.compile(r"\d{20}\.checkpoint\.[0-9a-fA-F-]{36}\.(json|parquet)")


def checkpoint_actions(location: str, storage: Storage, names: tuple[str, ...]) -> Iterator[Action]:
    """The actions of these names in one checkpoint file, JSON or Parquet."""
    if location.endswith(".json"):
        yield from single_actions(LogText(location, storage.read(location)), names)
        return
    file = CheckpointFile(location, storage)
    for name in names:
        yield from file.single(name, _REQUIRED_MEMBER[name])


def check_checkpoint(file: FileEntry, version: int, storage: Storage) -> None:
    """Refuse a UUID-named checkpoint whose checkpointMetadata does not have its version (protocol, "V2 Spec").

    A truncated checkpoint may have lost the names of its sidecars.
    """
    if _UNIQUE_NAME.fullmatch(file.name) is None:
        return
    actions = checkpoint_actions(file.location, storage, ("checkpointMetadata",))
    versions = [action.whole_number("version") for action in actions]
    if versions != [version]:
        fault = "has no checkpointMetadata action" if not versions else f"has checkpointMetadata.version {versions[0]}"
        raise CorruptMetadata(
            f"{file.location} {fault}; its name says version {version}: it was cut off or renamed. {ADVICE}"
        )
