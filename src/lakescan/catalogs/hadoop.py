"""Iceberg tables without a catalog service: a table is a folder, and a commit creates its next metadata file.

`HadoopTables` opens tables by their folders; `HadoopCatalog` finds them in a warehouse, by the names that Spark's and
Flink's catalogs of type hadoop give them: namespaces and tables are folders. Both are catalogs for pyiceberg.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pyarrow import fs as pafs
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from lakescan.catalogs.properties import warn_of_metadata
from lakescan.catalogs.shared_files import referenced_files, tables_inside, tables_that_may_share
from lakescan.common.identifiers import Identifier, folder_of
from lakescan.errors import InvalidOption, NotATable, UnsupportedFeature
from lakescan.iceberg.commit.hadoop_table_operations import VersionFiles, version_of
from lakescan.iceberg.metadata.json_document import decompress
from lakescan.iceberg.metadata.metadata_location import current_metadata, is_metadata_file
from lakescan.iceberg.metadata.pyiceberg_metadata import MetadataNotWritten, extend_catalog, parse_pyiceberg_metadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage import Storage, join
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.errors import storage_boundary, storage_error
from lakescan.storage.locations import is_below_any
from lakescan.storage.put_if_absent import NotCreated
from lakescan.storage.settings.catalog_properties import storage_properties

_Name = str | tuple[str, ...]


class _NoFiles(FileIO):
    """A `FileIO` that only carries properties: its methods raise `NotImplementedError`. lakescan opens the files."""

    def new_input(self, location: str) -> Any:
        raise NotImplementedError

    def new_output(self, location: str) -> Any:
        raise NotImplementedError

    def delete(self, location: Any) -> None:
        raise NotImplementedError


class HadoopTables(MetastoreCatalog):
    """A pyiceberg catalog of tables by their folders. The name of a table is its location."""

    def __init__(self, storage: Storage, name: str = "", **properties: str) -> None:
        super().__init__(name, **properties)
        self._storage = storage

    def _load_file_io(self, properties: Any = None, location: str | None = None) -> FileIO:
        """Return a `FileIO` that opens no files: a table's own properties could name classes to import.

        Warns about table properties (`properties`) that would configure a reader.
        """
        warn_of_metadata(properties or {}, (location or "a table").rpartition("/metadata/")[0])
        return _NoFiles(self.properties)

    def _folder(self, name: _Name) -> str:
        """Return the location of a table's folder: the name itself, or the last element of a tuple."""
        return name if isinstance(name, str) else name[-1]

    def _files(self, name: _Name) -> VersionFiles:
        return VersionFiles(self._folder(name), self._storage)

    def load_table(self, identifier: _Name) -> Table:
        """Open a table at its current version; raises pyiceberg's `NoSuchTableError`."""
        name = self.identifier_to_tuple(identifier)
        return self._read_table(name)[0]

    def _read_table(self, name: tuple[str, ...]) -> tuple[Table, bytes]:
        """Return a table at its current version, and the bytes of its metadata file; raises `NoSuchTableError`."""
        try:
            location, data = self._files(name).read()
        except NotATable as error:
            raise NoSuchTableError(f"Table does not exist: {'.'.join(name)}") from error
        # Decompress by the first bytes: pyiceberg does not recognize the suffix `.metadata.json.gz`.
        metadata = parse_pyiceberg_metadata(decompress(data, location), join(self._folder(name), "metadata.json"))
        return Table(name, metadata, location, _NoFiles(self.properties), self), data

    def current(self, identifier: _Name) -> str | None:
        """Return the location of a table's current metadata file; None if the table does not exist."""
        try:
            return current_metadata(self._folder(self.identifier_to_tuple(identifier)), self._storage)
        except NotATable:
            return None

    def check_writable(self, table: Table) -> None:
        """Raise `UnsupportedFeature` for a table that cannot be committed to by creating the next version file.

        For example, a catalog owns it, its metadata records another location, or it was opened with `relocate`.
        """
        self._files(table.name()).check_writable(
            table.metadata_location, table.metadata.location, table.metadata.properties
        )

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit to the current version of a table by creating the metadata file of the next version.

        Creates no version if the updates change nothing. Raises `UnsupportedFeature`, and `CommitFailedException` if
        the requirements are not met or another writer created the version.
        """
        now, data = self._read_table(self.identifier_to_tuple(table.name()))
        self.check_writable(now)
        staged = self._update_and_stage_table(now, now.name(), requirements, updates)
        if staged.metadata == now.metadata:
            return CommitTableResponse(metadata=now.metadata, metadata_location=now.metadata_location)
        # The new metadata is checked like the old: a commit must not move the table or its metadata.
        files = self._files(now.name())
        files.check_writable(now.metadata_location, staged.metadata.location, staged.metadata.properties)
        location = self._create_version(files, staged.metadata, (now, data))
        if location is None:
            raise CommitFailedException(f"{'.'.join(now.name())} has been updated by another writer")
        return CommitTableResponse(metadata=staged.metadata, metadata_location=location)

    def make_table(self, staged: StagedTable, metadata: Any) -> None:
        """Create the table of `staged` with this metadata, as version 1.

        Raises `TableAlreadyExistsError` and `UnsupportedFeature`.
        """
        name, files = staged.name(), self._files(staged.name())
        if self.current(name) is not None:
            raise TableAlreadyExistsError(f"Table already exists: {'.'.join(name)}")
        files.check_writable(
            join(self._folder(name), "metadata/v1.metadata.json"), metadata.location, metadata.properties
        )
        if self._create_version(files, metadata) is None:
            raise TableAlreadyExistsError(f"Table already exists: {'.'.join(name)}")

    def _create_version(
        self, files: VersionFiles, metadata: Any, base: tuple[Table, bytes] | None = None
    ) -> str | None:
        """Create the metadata file of the version after `base`, and return its location.

        Returns None if another writer created that version. `base` is the table with the bytes of its current metadata
        file, or None for a new table. Raises `MetadataNotWritten` if the file was provably not created.
        """
        before = metadata if base is None else base[0].metadata
        is_compressed = IcebergProperties(before.properties, files.folder).metadata_codec == "gzip"
        known = set() if base is None else {each.snapshot_id for each in before.snapshots}
        added = [each for each in metadata.snapshots if each.snapshot_id not in known]
        previous = None if base is None else (base[0].metadata_location, base[1])
        version = 1 if previous is None else version_of(previous[0]) + 1
        try:
            return files.create(version, metadata, added, previous, is_compressed=is_compressed)
        except NotCreated as error:
            raise MetadataNotWritten(str(error)) from error

    def _create_staged_table(
        self,
        identifier: _Name,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> StagedTable:
        name = self.identifier_to_tuple(identifier)
        folder = self._folder(name)
        if location is not None and location.rstrip("/") != folder:
            raise NotImplementedError(
                f"a table without a catalog is found by its folder, {folder}: it cannot have the location {location}"
            )
        if not self.accepts_tables(name[:-1]):
            raise NoSuchNamespaceError(f"Namespace does not exist: {'.'.join(name[:-1])}")
        properties = dict(properties or {})
        metadata = new_table_metadata(schema, partition_spec, sort_order, folder, properties)
        at = join(folder, "metadata/v1.metadata.json")
        return StagedTable(name, metadata, at, _NoFiles(self.properties), self)

    def create_table(
        self,
        identifier: _Name,
        schema: Any,
        location: str | None = None,
        partition_spec: Any = UNPARTITIONED_PARTITION_SPEC,
        sort_order: Any = UNSORTED_SORT_ORDER,
        properties: Any = None,
    ) -> Table:
        """Create a table in its folder; raises `TableAlreadyExistsError` and `NoSuchNamespaceError`.

        Raises `NotImplementedError` if `location` is another folder.
        """
        converted = self._convert_schema_if_needed(schema)
        staged = self._create_staged_table(identifier, converted, location, partition_spec, sort_order, properties)
        self.make_table(staged, staged.metadata)
        return self.load_table(identifier)

    def register_table(self, identifier: _Name, metadata_location: str, overwrite: bool = False) -> Table:
        """Raise `NotImplementedError`: the name of a table is its folder."""
        raise NotImplementedError("Tables of a catalog of type hadoop are found by their folders: open it by its path.")

    def rename_table(self, from_identifier: _Name, to_identifier: _Name) -> Table:
        """Raise `NotImplementedError`: a table's metadata and manifests record its folder."""
        raise NotImplementedError(
            "Tables of a catalog of type hadoop cannot be renamed: their metadata records their folder."
        )

    def namespace_exists(self, namespace: _Name) -> bool:
        """Return True: tables opened by their folders have no namespaces."""
        return True

    def accepts_tables(self, namespace: _Name) -> bool:
        """Return whether a table may be created in a namespace, which is so in every existing one."""
        return self.namespace_exists(namespace)

    def list_namespaces(self, namespace: _Name = ()) -> list[tuple[str, ...]]:
        """Return an empty list: only a catalog can list namespaces."""
        return []

    def list_tables(self, namespace: _Name) -> list[tuple[str, ...]]:
        """Return an empty list: only a catalog can list tables."""
        return []

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("A catalog of type hadoop has only folders.")

    create_namespace = drop_namespace = drop_table = load_namespace_properties = _refuse
    update_namespace_properties = load_view = drop_view = register_view = _refuse

    def list_views(self, namespace: _Name) -> list[tuple[str, ...]]:
        """Return an empty list: views are not supported."""
        return []

    def view_exists(self, identifier: _Name) -> bool:
        """Return False: views are not supported."""
        return False


class HadoopCatalog(HadoopTables):
    """Iceberg tables in the folders of a warehouse: `warehouse/namespace/table`.

    Raises `ValueError` without the property `warehouse`.
    """

    def __init__(self, name: str, **properties: str) -> None:
        if not (warehouse := properties.get("warehouse", "").rstrip("/")):
            raise ValueError("a catalog of type hadoop needs its warehouse: the folder of its namespaces")
        allowed = AllowedLocations.catalog_limits(properties)
        super().__init__(Storage(io_properties=storage_properties(properties), allowed=allowed), name, **properties)
        self._warehouse = warehouse

    def _folder(self, name: _Name) -> str:
        return _folder_in(self._warehouse, self.identifier_to_tuple(name))

    def load_table(self, identifier: _Name) -> Table:
        """Open a table at its current version; raises `NoSuchTableError`, also for a name without a namespace."""
        if len(self.identifier_to_tuple(identifier)) < 2:
            raise NoSuchTableError(f"Table does not exist: {identifier}")
        return super().load_table(identifier)

    def drop_table(self, identifier: _Name) -> None:
        """Delete the folder of a table with all its files, as Java does; raises `NoSuchTableError`.

        Raises `UnsupportedFeature` if the folder contains another table or files of another table.
        """
        name = self.identifier_to_tuple(identifier)
        uuid = self.load_table(name).metadata.table_uuid
        folder, full = self._folder(name), Identifier(self.name, name[:-1], name[-1])
        if inside := tables_inside(self._storage, folder):
            raise UnsupportedFeature(
                f"dropping {full}, whose folder has the table at {inside[0]}",
                "A catalog of type hadoop drops a table by deleting its folder. Drop or move the other table first.",
            )
        for table in tables_that_may_share(self, full, [folder], "dropping"):
            for files in referenced_files([table], self._storage):
                if any(is_below_any(files, [folder]).to_pylist()):
                    raise UnsupportedFeature(
                        f"dropping {full}, whose folder has files of {'.'.join(table.name())}",
                        "A catalog of type hadoop drops a table by deleting its folder. Drop the other table first.",
                    )
        self._delete(folder)
        # In an object store, a concurrent commit may come between the listing and the deletion of the folder.
        while self._uuid(name) == uuid:
            self._delete(folder)

    def _uuid(self, name: tuple[str, ...]) -> Any:
        """Return the UUID of a table; None if the table does not exist."""
        try:
            return self.load_table(name).metadata.table_uuid
        except NoSuchTableError:
            return None

    def purge_table(self, identifier: _Name) -> None:
        """Delete the folder of a table, with the checks and errors of `drop_table`."""
        self.drop_table(identifier)

    def _delete(self, folder: str) -> None:
        """Delete a folder with everything in it; raises `StorageError`.

        Local and HDFS folders are renamed first, so that no reader sees a partly deleted table.
        """
        filesystem, path = self._storage.resolve(folder)
        with storage_boundary("deleted", folder):
            if filesystem.type_name in ("local", "hdfs"):
                parent, _, name = path.rpartition("/")
                hidden = f"{parent}/.{name}.{uuid4().hex}.dropped"
                filesystem.move(path, hidden)
                path = hidden
            filesystem.delete_dir(path)

    def namespace_exists(self, namespace: _Name) -> bool:
        """Return whether the warehouse has a folder of that name that is not a table. False for an empty name."""
        name = self.identifier_to_tuple(namespace) if namespace else ()
        return bool(name) and self._is_namespace(_folder_in(self._warehouse, name))

    def accepts_tables(self, namespace: _Name) -> bool:
        """Return whether a table may be created in a namespace, whose folder need not exist.

        False for an empty name, and for a missing namespace inside a table, whose folder is deleted with the table.
        """
        name = self.identifier_to_tuple(namespace) if namespace else ()
        if self.namespace_exists(name):
            return True
        return bool(name) and not any(self._is_table(self._folder(name[:n])) for n in range(1, len(name) + 1))

    def _create_staged_table(self, identifier: _Name, *definition: Any, **named: Any) -> StagedTable:
        name = self.identifier_to_tuple(identifier)
        if self.current(name) is None and (inside := tables_inside(self._storage, self._folder(name))):
            raise NotImplementedError(
                f"{'.'.join(name)} is a namespace, which has the table at {inside[0]}: choose another name"
            )
        return super()._create_staged_table(identifier, *definition, **named)

    def create_namespace(self, namespace: _Name, properties: Any = None) -> None:
        """Create the folder of a namespace.

        Raises `NamespaceAlreadyExistsError`, `NotImplementedError` for properties, and `NoSuchNamespaceError` inside a
        table, whose folder is deleted with the table.
        """
        if properties:
            raise NotImplementedError(
                f"Namespaces of a catalog of type hadoop are folders, without properties such as {min(properties)!r}."
            )
        name = self.identifier_to_tuple(namespace)
        for length in range(1, len(name)):
            if self._is_table(self._folder(name[:length])):
                raise NoSuchNamespaceError(f"{'.'.join(name[:length])} is a table, not a namespace")
        if self._storage.exists(folder := self._folder(name)):
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {'.'.join(name)}")
        self._storage.make_folder(folder)

    def drop_namespace(self, namespace: _Name) -> None:
        """Delete the folder of a namespace that has no folders and only files of zero bytes.

        Raises `NoSuchNamespaceError` and `NamespaceNotEmptyError`.
        """
        self._check_namespace(namespace)
        folder = self._folder(namespace)
        files, folders = self._storage.entries(folder)
        if folders or any(each.size for each in files):
            raise NamespaceNotEmptyError(f"Namespace is not empty: {namespace}")
        filesystem, path = self._storage.resolve(folder)
        if not isinstance(filesystem, pafs.LocalFileSystem):
            with storage_boundary("deleted", folder):
                filesystem.delete_dir(path)
            return
        self._storage.remove([each.location for each in files])
        try:
            os.rmdir(path)  # fails if a table was concurrently created in the folder
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise storage_error("deleted", folder, error) from error
            raise NamespaceNotEmptyError(f"Namespace is not empty: {namespace}") from error

    def load_namespace_properties(self, namespace: _Name) -> dict[str, str]:
        """Return the only property of a namespace, `location` (its folder); raises `NoSuchNamespaceError`."""
        self._check_namespace(namespace)
        return {"location": self._folder(namespace)}

    def list_namespaces(self, namespace: _Name = ()) -> list[tuple[str, ...]]:
        """Return the full names of the namespaces directly in a namespace, or by default in the warehouse, sorted.

        Raises `NoSuchNamespaceError`.
        """
        within = self.identifier_to_tuple(namespace) if namespace else ()
        if within:
            self._check_namespace(within)
        return [(*within, name) for name, folder in self._folders(within) if not self._is_table(folder)]

    def list_tables(self, namespace: _Name) -> list[tuple[str, ...]]:
        """Return the full names of the tables directly in a namespace, sorted; raises `NoSuchNamespaceError`."""
        within = self.identifier_to_tuple(namespace)
        self._check_namespace(within)
        return [(*within, name) for name, folder in self._folders(within) if self._is_table(folder)]

    def _folders(self, within: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return the names and locations of a namespace's folders, sorted, without hidden ones (of dropped tables)."""
        folders = self._storage.entries(_folder_in(self._warehouse, within))[1]
        named = sorted((each.rstrip("/").rpartition("/")[2], each.rstrip("/")) for each in folders)
        return [(name, folder) for name, folder in named if not name.startswith(".")]

    def _check_namespace(self, namespace: _Name) -> None:
        if not self.namespace_exists(namespace):
            raise NoSuchNamespaceError(f"Namespace does not exist: {namespace}")

    def _is_namespace(self, folder: str) -> bool:
        filesystem, path = self._storage.resolve(folder)
        with storage_boundary("looked up", folder):
            is_folder = filesystem.get_file_info(path).type == pafs.FileType.Directory
        return is_folder and not self._is_table(folder)

    def _is_table(self, folder: str) -> bool:
        """Return whether a folder has metadata files. Java, too, distinguishes tables from namespaces by them."""
        return any(True for _ in self._storage.list(join(folder, "metadata"), is_metadata_file))


def hadoop_catalog(name: str, properties: Mapping[str, str]) -> HadoopCatalog:
    """Open a catalog of type hadoop; raises `ValueError` without the property `warehouse`.

    Example:
        >>> hadoop_catalog("lake", {"warehouse": "/lake"}).list_namespaces()
        [('shop',)]
    """
    catalog = HadoopCatalog(name, **properties)
    extend_catalog(catalog)
    return catalog


def tables_in(storage: Storage) -> HadoopTables:
    """Return a pyiceberg catalog that opens tables by their folders, with the connections of `storage`."""
    tables = HadoopTables(storage)
    extend_catalog(tables)
    return tables


def _folder_in(warehouse: str, names: tuple[str, ...]) -> str:
    """Return the folder of a namespace or table; raises `InvalidOption` for a name that starts with a dot."""
    if hidden := next((each for each in names if each.startswith(".")), None):
        raise InvalidOption(f"{hidden!r} cannot be the name of a folder in a catalog of type hadoop: it is hidden")
    return folder_of(warehouse, *names)
