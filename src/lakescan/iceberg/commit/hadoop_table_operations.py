"""Metadata files of tables without a catalog, by Iceberg's protocol for file systems (Java's `HadoopTableOperations`).

Version N of the table is `metadata/vN.metadata.json`. A commit creates the file of the next version, which only one
writer can do, and then writes the number to `version-hint.text`, where readers start.

Java checks that the name is free and then renames a draft to it. HDFS refuses to replace a file, but a local rename
replaces it, so another writer can create the file between Java's check and its rename. A commit here therefore removes
the drafts of other writers once its file exists, so that their renames fail and are retried. Then it reads its file
again: if a rename came first, the commit has failed. The commit has also failed if the file of the previous version is
not the one that it was based on. Then the table was dropped or created again, or a rename replaced that version.
"""

from __future__ import annotations

import gzip
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow import fs as pafs

from lakescan.errors import LakescanError, MissingFile, NotATable, StorageError, UnsupportedFeature
from lakescan.iceberg.metadata.metadata_location import (
    HINT,
    VERSION_NAME,
    current_metadata,
    is_catalog_name,
    is_draft_name,
    is_metadata_file,
)
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_text
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage, join
from lakescan.storage.locations import is_same_place, normal
from lakescan.storage.put_if_absent import publish, put_if_absent

_LOG = logging.getLogger("lakescan")
_READS = 10  # attempts to read the current file while concurrent commits remove it
_CATALOGS = (
    "Commits go through a catalog: use the name catalog.namespace.table (see lakescan.catalog), or register the table "
    "in a catalog with Catalog.register_table."
)


@dataclass(frozen=True)
class VersionFiles:
    """The metadata files of the table in a folder."""

    folder: str
    storage: Storage

    @property
    def _metadata(self) -> str:
        return join(self.folder, "metadata")

    def read(self) -> tuple[str, bytes]:
        """Read the current metadata file, and return its location and content.

        Raises `NotATable` without one, and `MissingFile` if concurrent commits remove each file before it is read.
        """
        for number in range(_READS):
            location = current_metadata(self.folder, self.storage)
            try:
                return location, self.storage.read(location)
            except MissingFile:  # a concurrent commit removed it (write.metadata.delete-after-commit)
                if number == _READS - 1:
                    raise
        raise AssertionError

    def check_writable(self, location: str, table_location: str, properties: Any) -> None:
        """Raise `UnsupportedFeature` for a table that cannot be committed to by creating the file of a version.

        Args:
            location: The current metadata file.
            table_location: The table's location, as recorded in its metadata.
            properties: The table's properties.
        """
        doing = f"writing to the Iceberg table at {self.folder}"
        self.check_owner()
        if self.storage.relocate:
            raise UnsupportedFeature(
                f"{doing}, which was opened with relocate",
                "New files would be recorded at its old location. Copy its rows to a new table, and write to that.",
            )
        if not is_same_place(table_location, self.folder):
            raise UnsupportedFeature(
                f"{doing}, whose metadata records the location {table_location}",
                "A table without a catalog is written at its own location. Open it there; if it was moved or copied, "
                "copy its rows to a new table.",
            )
        if "write.metadata.path" in properties:
            raise UnsupportedFeature(
                f"{doing}, which has the property write.metadata.path",
                "Without a catalog, readers find metadata in the table's own folder. Unset the property.",
            )
        if VERSION_NAME.fullmatch(_name_of(location)) is None:
            raise _needs_a_catalog(doing, location)

    def check_owner(self) -> None:
        """Raise `UnsupportedFeature` if a catalog has committed to the table, or the folder is a metadata file."""
        doing = f"writing to the Iceberg table at {self.folder}"
        if is_metadata_file(self.folder):
            raise UnsupportedFeature(
                f"writing to an Iceberg table by its metadata file ({self.folder})",
                f"A metadata file is one version of a table. Without a catalog, write to its folder. {_CATALOGS}",
            )
        named = [each.name for each in self.storage.list(self._metadata, is_catalog_name)]
        if named:
            raise _needs_a_catalog(doing, join(self._metadata, max(named)))

    def create(
        self,
        version: int,
        metadata: Any,
        added: Sequence[Any] = (),
        previous: tuple[str, bytes] | None = None,
        *,
        is_compressed: bool = False,
    ) -> str | None:
        """Create the metadata file of a version; return its location, or None if another writer created the version.

        None is also returned if the previous version is no longer the one that the commit is based on: the table was
        dropped, possibly with another table in its folder now, or a rename replaced the file.

        Args:
            version: The number after that of the version that the commit is based on.
            metadata: The table's new metadata, as pyiceberg's.
            added: The snapshots (pyiceberg's) that the new metadata adds.
            previous: The metadata file that the commit is based on, and its content; None for a new table.
            is_compressed: Whether the metadata that the commit is based on is compressed. All writers of a version must
                create a file of the same name.

        Raises:
            UnsupportedFeature: The store cannot create a file exclusively. Nothing was written.
            NotCreated: Nothing was written.
            StorageError: The file may have been created, and may be a version of the table.
        """
        text = metadata_text(metadata)
        name = f"v{version}{'.gz' if is_compressed else ''}.metadata.json"
        location = join(self._metadata, name)
        data = gzip.compress(text.encode()) if is_compressed else text.encode()
        is_local = isinstance(self.storage.resolve(location)[0], pafs.LocalFileSystem)
        if is_local:
            # A Hadoop checksum of an earlier file with this name would not match.
            self.storage.remove([self._checksum(name)])
        if not put_if_absent(self.storage, location, data):
            return None
        if is_local and not self._is_kept(location, data):
            return None
        if not self._is_current(version, name, metadata, added, previous):
            self.storage.remove([location])
            return None
        self._write_hint(version)
        return location

    def _is_kept(self, location: str, data: bytes) -> bool:
        """Remove other writers' drafts, and return whether the file just created at `location` still contains `data`.

        A rename of a draft could have replaced the file. Without the drafts, none can replace it later.
        """
        # The writer of an empty draft has yet to check whether the name is free.
        drafts = [each.name for each in self.storage.list(self._metadata, is_draft_name) if each.size]
        if drafts:
            _LOG.info("%s: removing %d drafts of concurrent commits, which will be retried", location, len(drafts))
            self.storage.remove([join(self._metadata, name) for name in drafts])
            self.storage.remove([self._checksum(name) for name in drafts])
        return self.storage.read(location) == data

    def _is_current(
        self, version: int, name: str, metadata: Any, added: Sequence[Any], previous: tuple[str, bytes] | None
    ) -> bool:
        """Return whether the file just created is the newest version, or later versions are based on it.

        The result is False in three cases: other writers had already created this version and have since removed its
        file as an old one, one of them created the version under the name of another codec, or the previous version has
        changed. Raises `StorageError` if the later versions do not show it.
        """
        # Later versions may remove the previous one, so it is read before they are listed.
        is_unchanged = previous is None or self._is_unchanged(*previous)
        files = self.storage.list(self._metadata, lambda name: VERSION_NAME.fullmatch(name) is not None)
        versions = {each.name: version_of(each.name) for each in files}
        twins = [each for each, number in versions.items() if number == version and each != name]
        if twins and (version > 1 or name != f"v{version}.metadata.json"):  # of two new tables, the plain file wins
            return False
        if max(versions.values(), default=0) <= version:
            return is_unchanged
        now = IcebergTable.open(self.folder, self.storage).metadata
        found = _is_based_on(now, version, join(self._metadata, name), metadata, added)
        if found is None:
            raise StorageError(
                f"{join(self._metadata, name)} was created, but there are later versions, and neither their snapshots "
                "nor their metadata log show whether they are based on it"
            )
        return found

    def _is_unchanged(self, location: str, content: bytes) -> bool:
        """Return whether a metadata file still has this content; False if it is missing."""
        try:
            return self.storage.read(location) == content
        except MissingFile:
            return False

    def _write_hint(self, version: int) -> None:
        """Write the version hint, unless it names a later version; readers also look for versions after the hint."""
        location = join(self._metadata, HINT)
        try:
            try:
                known = self.storage.read(location).decode(errors="replace").strip()
            except MissingFile:
                known = ""
            if not (known.isascii() and known.isdecimal() and int(known) > version):
                publish(self.storage, location, str(version).encode())
        except LakescanError as error:
            _LOG.warning("%s was not written, so readers must list the folder: %s", location, error)

    def _checksum(self, name: str) -> str:
        return join(self._metadata, f".{name}.crc")


def _is_based_on(now: TableMetadata, version: int, location: str, metadata: Any, added: Sequence[Any]) -> bool | None:
    """Return whether a table's current version is based on an earlier version's metadata file; None if unknown.

    A snapshot that the earlier version added proves it. Another snapshot with its sequence number disproves it, as does
    a metadata log with another file or time for that version. A log entry with the same file and time proves it only
    for versions that add no snapshot: another writer may have created the version in the same millisecond, and the
    snapshot of this one may have expired.

    Args:
        now: The current metadata, of a later version.
        version: The number of the earlier version.
        location: The location of its metadata file.
        metadata: Its metadata, as pyiceberg's.
        added: The snapshots (pyiceberg's) that it added.
    """
    if now.uuid is not None and now.uuid != str(metadata.table_uuid):
        return False
    if any(each.snapshot_id in now.snapshots for each in added):
        return True
    if now.format_version > 1:
        taken = {each.sequence_number for each in now.snapshots.values()}
        if any(each.sequence_number in taken for each in added):
            return False
    logged = [at for at, file in now.metadata_log if normal(file) == normal(location)]
    numbers = [int(found[1]) for _, file in now.metadata_log if (found := VERSION_NAME.fullmatch(_name_of(file)))]
    if metadata.last_updated_ms not in logged and min(numbers, default=version + 1) <= version:
        return False
    return True if logged and not added else None


def _name_of(location: str) -> str:
    return location.rpartition("/")[2]


def version_of(location: str) -> int:
    """Return the version number in the name of a metadata file, `vN.metadata.json`.

    Raises `NotATable` for other names.
    """
    found = VERSION_NAME.fullmatch(_name_of(location))
    if found is None:
        raise NotATable(f"{location} is not the metadata file of a table without a catalog")
    return int(found[1])


def _needs_a_catalog(doing: str, location: str) -> UnsupportedFeature:
    return UnsupportedFeature(f"{doing}, whose metadata file {location} was written by a catalog", _CATALOGS)
