"""The clients of each kind of store.

Arrow's filesystems read, write and list in every store, because Arrow's readers, writers and datasets require them.
obstore sends requests that Arrow's clients cannot send: conditional puts and, in S3, reads of whole files by one
request, listings that start after a name, and bulk deletes. Requests to S3 that a REST catalog must sign are sent by
lakescan's own client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.storage import hdfs
from lakescan.storage.reachable import check_reachable
from lakescan.storage.remote_signing import RequestSigner
from lakescan.storage.settings import StorageOptions
from lakescan.storage.settings.azure_endpoints import account_of
from lakescan.storage.settings.catalog_properties import catalog_s3_arguments, is_signed_remotely

CONNECTIONS = 64  # connections to an S3 endpoint; Arrow's default is 25
_IO_THREADS = threading.Lock()
_AUTHORITIES = ("blob_storage_authority", "dfs_storage_authority")


def open_filesystem(scheme: str, authority: str, options: StorageOptions) -> pafs.FileSystem:
    """Open the filesystem of a store, without contacting it (except HDFS).

    `scheme` is the kind of store (`store_of`), and `authority` the bucket, container or host. Raises `InvalidOption`
    for an unknown scheme.
    """
    if scheme not in CLIENTS:
        raise InvalidOption(
            f"no filesystem for {scheme}:// locations: supported are file, s3, gs, abfs, hdfs; "
            "for a table that was copied, pass relocate={old_prefix: new_prefix}"
        )
    return CLIENTS[scheme].connect(authority, options)


def connect(scheme: str, authority: str, options: StorageOptions, location: str) -> pafs.FileSystem:
    """Open the filesystem of a location with the user's options; see `open_filesystem`.

    `location` is only for messages. Raises `StorageError` for a host that does not respond, `InvalidOption` for an
    unknown scheme.
    """
    if scheme in CLIENTS and CLIENTS[scheme].is_asked_first:
        check_reachable(scheme, authority, options, location)
    return open_filesystem(scheme, authority, options)


def connect_by_catalog(
    scheme: str, authority: str, properties: Mapping[str, str], signer: RequestSigner | None, location: str
) -> pafs.FileSystem:
    """Open the filesystem of a location with the properties of a catalog; see `open_filesystem`.

    `signer` signs requests to S3 if the properties enable remote signing. Raises `StorageError` for a host that does
    not respond, `InvalidOption` for an unknown scheme, and `UnsupportedFeature` if a signer is needed but missing.
    """
    if scheme == "viewfs":  # federated namenodes; only catalogs use this scheme
        return pafs.HadoopFileSystem.from_uri(f"viewfs://{authority}")
    if scheme != "s3":
        return connect(scheme, authority, StorageOptions.parse(properties, ignore_unknown=True), location)
    if not is_signed_remotely(properties):
        return _open_s3(catalog_s3_arguments(properties, authority))
    if signer is None:
        raise UnsupportedFeature(
            "S3 requests that a catalog signs (s3.remote-signing-enabled) without a catalog of type rest",
            "Only REST catalogs sign. Open the table by its name in one, or set s3.access-key-id.",
        )
    return _connect_signed(authority, StorageOptions.parse(properties, ignore_unknown=True), signer)


def _connect_local(authority: str, options: StorageOptions) -> pafs.FileSystem:
    return pafs.LocalFileSystem()


def _connect_s3(bucket: str, options: StorageOptions) -> pafs.FileSystem:
    return _open_s3(options.s3())


def _open_s3(arguments: dict[str, Any]) -> pafs.FileSystem:
    """Open an S3 filesystem with at least 64 connections; Arrow derives their number from its I/O thread count."""
    with _IO_THREADS:
        before = pa.io_thread_count()
        pa.set_io_thread_count(max(before, CONNECTIONS))
        try:
            return pafs.S3FileSystem(**arguments)
        finally:
            pa.set_io_thread_count(before)


def _connect_signed(bucket: str, options: StorageOptions, signer: RequestSigner) -> pafs.FileSystem:
    """Return the filesystem of an S3 bucket whose requests a catalog signs."""
    from lakescan.storage.signed_s3_client import SignedBucket
    from lakescan.storage.signed_s3_filesystem import SignedFiles

    return pafs.PyFileSystem(SignedFiles(SignedBucket(bucket, options, signer)))


def _connect_gcs(bucket: str, options: StorageOptions) -> pafs.FileSystem:
    return pafs.GcsFileSystem(**options.gcs())


def _connect_azure(authority: str, options: StorageOptions) -> pafs.FileSystem:
    """Open the filesystem of an Azure account. pyarrow supports anonymous access only by a URI.

    `authority` is `container@account.host`, or just the container. Raises `InvalidOption` if the account is unknown.
    """
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


@dataclass(frozen=True)
class StoreClients:
    """The clients of one kind of store.

    Attributes:
        connect: Opens Arrow's filesystem for a location's authority and the settings.
        obstore_scheme: The scheme of the store's URIs in obstore; None if obstore is not used.
        is_asked_first: Whether to check first that the host responds, because Arrow's client would retry for minutes.
        has_buckets: Whether paths in the filesystem start with the name of a bucket or container.
    """

    connect: Callable[[str, StorageOptions], pafs.FileSystem]
    obstore_scheme: str | None = None
    is_asked_first: bool = False
    has_buckets: bool = False


CLIENTS: Mapping[str, StoreClients] = {
    "file": StoreClients(_connect_local),
    "s3": StoreClients(_connect_s3, obstore_scheme="s3", has_buckets=True),
    "gcs": StoreClients(_connect_gcs, obstore_scheme="gs", has_buckets=True, is_asked_first=True),
    "abfs": StoreClients(_connect_azure, obstore_scheme="abfss", has_buckets=True, is_asked_first=True),
    "hdfs": StoreClients(hdfs.connect),
}
