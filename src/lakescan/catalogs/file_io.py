"""pyiceberg's files by Arrow's filesystems, as lakescan connects to them.

For locations in Azure, pyiceberg takes adlfs, or hands container and account to Arrow as one name. For HDFS it leaves
out Hadoop's settings and locations without a host, and for Google's storage tokens without an expiry.
"""

from __future__ import annotations

from typing import Any

from pyarrow import fs as pafs
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO

from lakescan.storage.filesystems import connected
from lakescan.storage.locations import ALIASES, split_location
from lakescan.storage.options import StorageOptions

_OWN = ("abfs", "gcs", "hdfs")


class ArrowFiles(PyArrowFileIO):
    """The files of a catalog's tables: metadata, manifests. Others than those of Azure, GCS and HDFS by pyiceberg."""

    @staticmethod
    def parse_location(location: str, properties: Any = None) -> tuple[str, str, str]:
        """The scheme and authority of a location, and its path in its filesystem."""
        scheme, authority, path = split_location(location)
        match ALIASES.get(scheme, scheme):
            case "abfs":
                return scheme, authority, authority.partition("@")[0] + path
            case "gcs":
                return scheme, authority, authority + path
            case "hdfs":
                return scheme, authority, path
        found: tuple[str, str, str] = PyArrowFileIO.parse_location(location, properties or {})
        return found

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> pafs.FileSystem:
        kind = ALIASES.get(scheme, scheme)
        if kind in _OWN:
            return connected(kind, netloc or "", StorageOptions.of(self.properties, ignore_unknown=True))
        return super()._initialize_fs(scheme, netloc)


FILES = {PY_IO_IMPL: f"{ArrowFiles.__module__}.{ArrowFiles.__name__}"}
