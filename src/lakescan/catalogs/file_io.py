"""A pyiceberg `FileIO` that opens files by the same Arrow filesystems as lakescan.

By itself, pyiceberg uses adlfs for Azure locations, or passes container and account to Arrow as one name. It ignores
Hadoop's settings, HDFS locations without a host, and Google storage tokens without an expiry. All locations are checked
against the catalog's allowed locations, since pyiceberg opens a catalog entry's metadata file before lakescan does.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pyarrow import fs as pafs
from pyiceberg.io import PY_IO_IMPL, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.clients import connect_by_catalog
from lakescan.storage.locations import split_location, store_of
from lakescan.storage.settings.catalog_properties import storage_properties

_OWN = ("abfs", "gcs", "hdfs")


class ArrowFiles(PyArrowFileIO):
    """Opens, writes and deletes the metadata files and manifests of a catalog's tables.

    Local files are opened by pyiceberg itself.
    """

    @staticmethod
    def parse_location(location: str, properties: Any = None) -> tuple[str, str, str]:
        """Split a location into its scheme, its authority, and its path in the Arrow filesystem.

        In Azure and Google's storage, the path starts with the container or bucket. pyiceberg splits S3 and local
        locations, with `properties`.
        """
        scheme, authority, path = split_location(location)
        match store_of(scheme):
            case "abfs":
                return scheme, authority, authority.partition("@")[0] + path
            case "gcs":
                return scheme, authority, authority + path
            case "hdfs":
                return scheme, authority, path
        found: tuple[str, str, str] = PyArrowFileIO.parse_location(location, properties or {})
        return found

    @cached_property
    def _location_limits(self) -> AllowedLocations:
        return AllowedLocations.catalog_limits(self.properties)

    @cached_property
    def _storage(self) -> Storage:
        """The storage that connects to Azure, Google's storage and HDFS with the catalog's properties.

        Azure secrets are sent only to their own account. Locations are not checked here.
        """
        return Storage(io_properties=storage_properties(self.properties), allowed=AllowedLocations(is_named=False))

    def new_input(self, location: str) -> PyArrowFile:
        """Return a handle to read a file, without opening it.

        Raises `LocationRefused` outside the catalog's allowed locations.
        """
        self._location_limits.check(location)
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        """Return a handle to write a file; raises `LocationRefused` outside the catalog's allowed locations."""
        self._location_limits.check(location)
        return super().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; raises `LocationRefused` outside the catalog's allowed locations."""
        self._location_limits.check(location if isinstance(location, str) else location.location)
        super().delete(location)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> pafs.FileSystem:
        kind = store_of(scheme)
        if kind == "s3":
            properties = storage_properties(self.properties)
            return connect_by_catalog(kind, netloc or "", properties, None, f"{scheme}://{netloc or ''}/")
        if kind in _OWN:
            return self._storage.resolve(f"{scheme}://{netloc or ''}/")[0]
        return super()._initialize_fs(scheme, netloc)


FILES = {PY_IO_IMPL: f"{ArrowFiles.__module__}.{ArrowFiles.__name__}"}
