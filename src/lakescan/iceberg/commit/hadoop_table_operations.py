"""Metadata files of tables without a catalog, by Iceberg's protocol for file systems (Java's `HadoopTableOperations`).

Version N of the table is `metadata/vN.metadata.json`. A commit creates the file of the next version, which succeeds for
one writer, and then writes the number to `version-hint.text`, where readers begin to look.

Java renames a draft to the new name, after it has looked whether the name is taken. HDFS refuses to replace a file. A
local rename replaces it: between Java's look and its rename, another writer can create the file. A commit here
therefore removes the drafts of other writers once its file exists, so that their renames fail and are retried, and then
reads its file again: if a rename came first, the commit has failed. So it has if the file of the version before is not
what it was based on: the table was dropped, or made again, or a rename replaced that version.
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
_READS = 10  # of a current file that other writers remove meanwhile
_CATALOGS = (
    "Commits go through a catalog: use the name catalog.namespace.table (see lakescan.catalog), or give the table a "
    "name there, with Catalog.register_table."
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
        """Read the current metadata file; return its location and its content.

        Raises `NotATable` if there is none.
        """
        for number in range(_READS):
            location = current_metadata(self.folder, self.storage)
            try:
                return location, self.storage.read(location)
            except MissingFile:  # a commit of another writer has removed it (write.metadata.delete-after-commit)
                if number == _READS - 1:
                    raise
        raise AssertionError

    def check_writable(self, location: str, table_location: str, properties: Any) -> None:
        """Raise `UnsupportedFeature` for a table whose commits are not made by creating the file of a version.

        Args:
            location: The current metadata file.
            table_location: The table's location, as its metadata records it.
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
        """Raise `UnsupportedFeature` if a catalog has committed to the table, or its location is a metadata file."""
        doing = f"writing to the Iceberg table at {self.folder}"
        if is_metadata_file(self.folder):
            raise UnsupportedFeature(
                f"writing to an Iceberg table by its metadata file ({self.folder})",
                f"It is one state of a table. A table without a catalog is written by its folder. {_CATALOGS}",
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
        """Create the metadata file of a version; return its location, or None if another writer has made the version.

        None is also returned if the version before is not what the commit is based on any more: the table was dropped,
        and another may have its folder, or a rename has replaced the file.

        Args:
            version: The number after that of the state that the commit is based on.
            metadata: The table's new metadata, as pyiceberg's.
            added: The snapshots (pyiceberg's) that the new metadata adds to the state that the commit is based on.
            previous: The metadata file that the commit is based on, and its content; None for a new table.
            is_compressed: Whether the state that the commit is based on has its metadata compressed: all writers of a
                version must create a file of the same name.

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
            # Hadoop's checksum, if an earlier file of this name had one, would not fit.
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
        """Whether no rename of another writer has replaced, or can still replace, a file that was just created."""
        # The writer of an empty draft has yet to look whether the name is taken.
        drafts = [each.name for each in self.storage.list(self._metadata, is_draft_name) if each.size]
        if drafts:
            _LOG.info("%s: %d drafts of concurrent commits are removed, which will be retried", location, len(drafts))
            self.storage.remove([join(self._metadata, name) for name in drafts])
            self.storage.remove([self._checksum(name) for name in drafts])
        return self.storage.read(location) == data

    def _is_current(
        self, version: int, name: str, metadata: Any, added: Sequence[Any], previous: tuple[str, bytes] | None
    ) -> bool:
        """Whether the file that was just created is the table's newest version, or later versions are based on it.

        It is not if other writers had made the version before, and have removed its file since as an old one; not if
        one of them has made the version under the name of another codec; and not if the version before has changed.
        Raises `StorageError` if the later versions do not show it.
        """
        # Later versions may remove the one before, so it is read before they are listed.
        is_unchanged = previous is None or self._is_unchanged(*previous)
        files = self.storage.list(self._metadata, lambda name: VERSION_NAME.fullmatch(name) is not None)
        versions = {each.name: version_of(each.name) for each in files}
        twins = [each for each, number in versions.items() if number == version and each != name]
        if twins and (version > 1 or name != f"v{version}.metadata.json"):  # of two new tables, the plain file stays
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
        """Whether a metadata file is there with this content. No commit but the next ones removes it."""
        try:
            return self.storage.read(location) == content
        except MissingFile:
            return False

    def _write_hint(self, version: int) -> None:
        """Write the version hint, unless it names a later version. Readers look for later versions than the hint's."""
        location = join(self._metadata, HINT)
        try:
            try:
                known = self.storage.read(location).decode(errors="replace").strip()
            except MissingFile:
                known = ""
            if not (known.isascii() and known.isdecimal() and int(known) > version):
                publish(self.storage, location, str(version).encode())
        except LakescanError as error:
            _LOG.warning("%s was not written, and readers list the folder: %s", location, error)

    def _checksum(self, name: str) -> str:
        return join(self._metadata, f".{name}.crc")


def _is_based_on(now: TableMetadata, version: int, location: str, metadata: Any, added: Sequence[Any]) -> bool | None:
    """Whether the current state of a table is based on a version's metadata file; None if it does not show.

    A snapshot that the version added proves it. Another snapshot with its sequence number disproves it, as does a log
    that names another file, or another time, for the version. That the log names the file with its time proves it only
    for versions that add no snapshot: another writer may have made the version in the same millisecond, and the
    snapshot of this one may have expired.

    Args:
        now: The current state, of a later version.
        version: The number of the version.
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
    """The version of a metadata file by its name, `vN.metadata.json`; raises `NotATable` for other names."""
    found = VERSION_NAME.fullmatch(_name_of(location))
    if found is None:
        raise NotATable(f"{location} is not the metadata file of a table without a catalog")
    return int(found[1])


def _needs_a_catalog(doing: str, location: str) -> UnsupportedFeature:
    return UnsupportedFeature(f"{doing}, whose metadata file {location} was written by a catalog", _CATALOGS)
