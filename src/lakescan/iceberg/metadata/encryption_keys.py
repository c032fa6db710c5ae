"""The encryption keys in table metadata (specification, "Encryption Keys")."""

from __future__ import annotations

import base64
import binascii

from lakescan.iceberg.metadata.json_node import Node
from lakescan.storage.encryption.table_keys import EncryptedKey

NAME = "encryption-keys"


def parse_encryption_keys(node: Node) -> dict[str, EncryptedKey]:
    """The keys by id; raises `CorruptMetadata` for one that is damaged."""
    keys = [_parse_key(each) for each in node.children(NAME, [])]
    return {each.id: each for each in keys}


def _parse_key(node: Node) -> EncryptedKey:
    try:
        encrypted = base64.b64decode(node.text("encrypted-key-metadata"), validate=True)
    except (binascii.Error, ValueError):
        raise node.fault("has encrypted-key-metadata that is not base64") from None
    return EncryptedKey(node.text("key-id"), encrypted, node.text("encrypted-by-id", None), node.texts("properties"))
