"""The encryption keys in table metadata (specification, "Encryption Keys")."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakescan.iceberg.metadata.json_document import Node
from lakescan.storage.encryption.table_keys import EncryptedKey

NAME = "encryption-keys"


def parse_encryption_keys(node: Node) -> dict[str, EncryptedKey]:
    """Return the encryption keys of a metadata document by id; raises `CorruptMetadata` for a damaged key."""
    keys = [_parse_key(each) for each in node.children(NAME, [])]
    return {each.id: each for each in keys}


def _parse_key(node: Node) -> EncryptedKey:
    try:
        encrypted = base64.b64decode(node.text("encrypted-key-metadata"), validate=True)
    except (binascii.Error, ValueError):
        raise node.fault("has encrypted-key-metadata that is not base64") from None
    return EncryptedKey(node.text("key-id"), encrypted, node.text("encrypted-by-id", None), node.texts("properties"))


# pyiceberg's models drop encryption keys. A commit without the functions below would make the table unreadable.

_KEY_ID = "key-id"  # the member of a snapshot


@dataclass(frozen=True)
class AddEncryptionKeys:
    """A metadata update that adds encryption keys, for catalogs whose metadata files lakescan writes."""

    keys: tuple[EncryptedKey, ...]


def keep_encryption_keys() -> None:
    """Configure pyiceberg's models of snapshots and of version 3 metadata to keep unknown members, such as keys."""
    from pyiceberg.table.metadata import TableMetadataV3, TableMetadataWrapper
    from pyiceberg.table.snapshots import Snapshot

    if TableMetadataV3.model_config.get("extra") == "allow":
        return
    for model in (Snapshot, TableMetadataV3):
        model.model_config["extra"] = "allow"
    for model in (Snapshot, TableMetadataV3, TableMetadataWrapper):
        model.model_rebuild(force=True)


def add_keys(metadata: Any, updates: Sequence[AddEncryptionKeys]) -> Any:
    """Return pyiceberg's metadata with the keys of `updates` added; existing keys stay."""
    known = list((metadata.model_extra or {}).get(NAME, ()))
    ids = {each[_KEY_ID] for each in known}
    new = [key.document for each in updates for key in each.keys if key.id not in ids]
    return metadata.model_copy(update={NAME: [*known, *new]}) if new else metadata


def split_key_updates(updates: Sequence[Any]) -> tuple[tuple[Any, ...], list[AddEncryptionKeys]]:
    """Split updates into pyiceberg's own and the `AddEncryptionKeys` among them."""
    plain = tuple(each for each in updates if not isinstance(each, AddEncryptionKeys))
    return plain, [each for each in updates if isinstance(each, AddEncryptionKeys)]


def snapshot_key_member(key_id: str | None) -> dict[str, str]:
    """Return the member of a (pyiceberg) snapshot that names the key of its manifest list; empty without a key."""
    return {} if key_id is None else {_KEY_ID: key_id}
