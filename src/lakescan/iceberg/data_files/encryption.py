"""Encryption of written files: the keys of a snapshot, and checks whether an encrypted table can be written."""

from __future__ import annotations

from typing import Any

from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage import Storage
from lakescan.storage.encryption.table_keys import SnapshotKeys

_VERSION = 3  # the first format version whose metadata has encryption keys


def snapshot_keys(metadata: TableMetadata, storage: Storage) -> SnapshotKeys | None:
    """Return the keys of a new snapshot; None for a table that is not encrypted.

    Raises the errors of `check_encrypted`, and `CorruptMetadata` for a table that has encryption keys but lacks the
    property with its key id: its new files would not be encrypted.
    """
    properties = metadata.table_properties
    key = properties.encryption_key
    if key is None:
        if metadata.encryption_keys:
            raise CorruptMetadata(
                f"{metadata.source or metadata.location} has encryption-keys, but no property "
                f"{IcebergProperties.encryption_key.name}: new files would not be encrypted. Restore the property."
            )
        return None
    check_encrypted(properties, metadata.format_version, storage)
    assert storage.key_manager is not None
    assert storage.unwrapped_keys is not None
    return SnapshotKeys(
        storage.key_manager, storage.unwrapped_keys, key, properties.data_key_length, metadata.encryption_keys
    )


def check_encrypted(properties: IcebergProperties, version: int, storage: Storage) -> None:
    """Raise `UnsupportedFeature` if files of an encrypted table cannot be written; a table without encryption passes.

    Encryption requires format version 3 and a key manager.
    """
    if not properties.is_encrypted:
        return
    if version < _VERSION:
        raise UnsupportedFeature(
            f"writing to an encrypted Iceberg table of format version {version} ({properties.where})",
            "Encryption keys require version 3: upgrade the table first.",
        )
    if storage.key_manager is None:
        raise UnsupportedFeature(
            f"writing to an encrypted Iceberg table without a key manager ({properties.where})",
            "Set key-manager in the catalog's properties, or open the table with key_manager=.",
        )
    _ = properties.data_key_length


def check_catalog(catalog: Any, name: str, *, keeps_snapshots: bool = False) -> None:
    """Raise `UnsupportedFeature` for a catalog that cannot change encrypted tables.

    pyiceberg's requests to REST servers omit encryption keys, and its commits to other metastores lack properties that
    Java checks there. With `keeps_snapshots`, the change needs no keys, so REST servers are accepted.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.catalog.sql import SqlCatalog

    if isinstance(catalog, SqlCatalog) or (keeps_snapshots and not isinstance(catalog, MetastoreCatalog)):
        return
    raise UnsupportedFeature(
        f"changing the encrypted Iceberg table {name} in a catalog of type {type(catalog).__name__}",
        "Encrypted tables can be read in all catalogs, but changed only in SQL catalogs.",
    )
