"""Create the filesystem of a location, by its scheme, with the storage options."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.errors import InvalidOption
from lakescan.storage import hdfs
from lakescan.storage.options import StorageOptions

CONNECTIONS = 64  # to one S3 endpoint; Arrow's own number is 25
_IO_THREADS = threading.Lock()


def connected(scheme: str, authority: str, options: StorageOptions) -> pafs.FileSystem:
    """The filesystem, without contacting it (except HDFS). Raises `InvalidOption` for an unknown scheme."""
    match scheme:
        case "file":
            return pafs.LocalFileSystem()
        case "s3":
            return _s3(options.s3())
        case "gcs":
            return pafs.GcsFileSystem(**options.gcs())
        case "abfs":
            return pafs.AzureFileSystem(**options.abfs(account_of(authority, options)))
        case "hdfs":
            return hdfs.connected(authority, options)
    raise InvalidOption(
        f"no filesystem for {scheme}:// locations: supported are file, s3, gs, abfs, hdfs; "
        "for a table that was copied, pass relocate={old_prefix: new_prefix}"
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


def account_of(authority: str, options: StorageOptions) -> str:
    """The Azure account in an authority `container@account.host`; that of the options in one without an account.

    Raises `InvalidOption` if neither has any.
    """
    _, at, host = authority.rpartition("@")
    if at:
        return host.partition(".")[0].lower()
    if options.azure_account is None:
        raise InvalidOption(
            f"abfss://{authority} names no account: write abfss://{authority}@ACCOUNT.dfs.core.windows.net/..., or set "
            "adls.account-name"
        )
    return options.azure_account.lower()
