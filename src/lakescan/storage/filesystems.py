"""Create the filesystem of a location, by its scheme, with the storage options."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.storage import hdfs
from lakescan.storage.remote_signing import RequestSigner
from lakescan.storage.settings import StorageOptions
from lakescan.storage.settings.azure_endpoints import account_of
from lakescan.storage.settings.catalog_properties import is_signed_remotely

CONNECTIONS = 64  # to one S3 endpoint; Arrow's own number is 25
_IO_THREADS = threading.Lock()
_AUTHORITIES = ("blob_storage_authority", "dfs_storage_authority")


def open_filesystem(scheme: str, authority: str, options: StorageOptions) -> pafs.FileSystem:
    """The filesystem, without contacting it (except HDFS). Raises `InvalidOption` for an unknown scheme."""
    match scheme:
        case "file":
            return pafs.LocalFileSystem()
        case "s3":
            return _s3(options.s3())
        case "gcs":
            return pafs.GcsFileSystem(**options.gcs())
        case "abfs":
            return _azure(authority, options)
        case "hdfs":
            return hdfs.connect(authority, options)
    raise InvalidOption(
        f"no filesystem for {scheme}:// locations: supported are file, s3, gs, abfs, hdfs; "
        "for a table that was copied, pass relocate={old_prefix: new_prefix}"
    )


def signed_filesystem(bucket: str, options: StorageOptions, signer: RequestSigner) -> pafs.FileSystem:
    """A bucket of S3 whose requests a catalog signs."""
    from lakescan.storage.signed_s3_client import SignedBucket
    from lakescan.storage.signed_s3_filesystem import SignedFiles

    return pafs.PyFileSystem(SignedFiles(SignedBucket(bucket, options, signer)))


def check_not_signed_remotely(properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedFeature` if a catalog is to sign S3 requests, and none is known here that does."""
    if is_signed_remotely(properties):
        raise UnsupportedFeature(
            "S3 requests that a catalog signs (s3.remote-signing-enabled) without a catalog of type rest",
            "Only these have a signer. Open the table by its name in one, or give keys by s3.access-key-id.",
        )


def _s3(arguments: dict[str, Any]) -> pafs.FileSystem:
    """A client with as many connections as it may have threads: Arrow takes their number from its I/O threads."""
    with _IO_THREADS:
        before = pa.io_thread_count()
        pa.set_io_thread_count(max(before, CONNECTIONS))
        try:
            return pafs.S3FileSystem(**arguments)
        finally:
            pa.set_io_thread_count(before)


def _azure(authority: str, options: StorageOptions) -> pafs.FileSystem:
    """A client of an account; pyarrow has one without credentials by a URI alone."""
    account = account_of(authority, options.azure_account)
    arguments = options.abfs(account)
    if not options.is_anonymous_in_azure:
        return pafs.AzureFileSystem(**arguments)
    query = {"credential_kind": "anonymous"}
    query |= {name: arguments[name] for name in _AUTHORITIES if name in arguments}
    if arguments.get("blob_storage_scheme") == "http":
        query["enable_tls"] = "false"
    container = authority.partition("@")[0]
    return pafs.AzureFileSystem.from_uri(f"abfs://{container}@{account}.dfs.core.windows.net/?{urlencode(query)}")[0]
