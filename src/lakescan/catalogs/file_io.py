"""pyiceberg's files by Arrow's filesystems, as lakescan connects to them.

Tables are read and written by the same clients. pyiceberg itself would take adlfs for locations in Azure, or hand
container and account to Arrow as one name. For HDFS it leaves out Hadoop's settings and locations without a host, and
for Google's storage tokens without an expiry. All locations pass the limits of the catalog: pyiceberg opens the
metadata file that a catalog's entry names before lakescan does.
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
    """The files of a catalog's tables: metadata, manifests. pyiceberg itself opens local ones."""

    @staticmethod
    def parse_location(location: str, properties: Any = None) -> tuple[str, str, str]:
        """The scheme and authority of a location, and its path in its filesystem."""
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
        """Access to stores, which sends secrets of Azure to their own account alone."""
        return Storage(io_properties=storage_properties(self.properties), allowed=AllowedLocations(is_named=False))

    def new_input(self, location: str) -> PyArrowFile:
        """Open a file to be read; raises `LocationRefused` for one outside of the catalog's limits."""
        self._location_limits.check(location)
        return super().new_input(location)

    def new_output(self, location: str) -> PyArrowFile:
        """Open a file to be written; raises `LocationRefused`."""
        self._location_limits.check(location)
        return super().new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file; raises `LocationRefused`."""
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
