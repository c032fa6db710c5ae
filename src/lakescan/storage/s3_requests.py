"""S3 access by obstore with one request where pyarrow needs two: whole files, and listings that start after a name.

pyarrow requests the size of a file before it reads it, and lists folders from their first name. obstore gets the size
with the content, and starts a listing anywhere. It is used if it is installed, and provably accesses the same store
with the same credentials as pyarrow. Otherwise, and after any failure, pyarrow reads.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakescan.storage.locations import split_location, store_of
from lakescan.storage.object_clients import (
    PLAIN_KEY,
    client_config,
    environment_of_clients,
    may_replace_arrow,
    object_store,
)
from lakescan.storage.settings import StorageOptions

if TYPE_CHECKING:
    from lakescan.storage.signed_s3_client import SignedBucket

MOST_AT_ONCE = 128  # concurrent requests; the client opens a connection for each
_LOG = logging.getLogger("lakescan")
# Settings with the same meaning in both clients. With any other setting, pyarrow reads.
_COMMON = {"access_key", "secret_key", "session_token", "region", "endpoint_override", "anonymous", "aws_allow_http"}
_COMMON |= {"aws_use_ssl", "tls_ca_file_path", "max_retries"}
_RETRIES = 3
_PAGE = 1000  # names in a response of S3


@dataclass(frozen=True)
class ListedName:
    """A file's name relative to the listed folder, its size in bytes, and its modification time in whole seconds."""

    name: str
    size: int
    modified: datetime


class ReadFailure(Exception):
    """A request by obstore failed. The caller reads by pyarrow instead."""


@dataclass
class SingleRequests:
    """An S3 bucket, accessed by the obstore client `store`.

    `is_usable` becomes False after any failure except a missing file, so that pyarrow reads from then on.
    """

    store: Any
    is_usable: bool = True

    def whole(self, key: str, most: int) -> bytes | None:
        """Read a whole file; None if it has more than `most` bytes. Raises `FileNotFoundError`, `ReadFailure`."""
        import obstore

        try:
            found = obstore.get(self.store, key)
            size = int(found.meta["size"])
            if size > most:
                return None
            data = bytes(found.bytes())
        except FileNotFoundError as error:
            if "NoSuchKey" in str(error):
                raise
            raise self._failure(key, error) from error
        except Exception as error:  # clients raise arbitrary types
            raise self._failure(key, error) from error
        if len(data) != size:
            raise self._failure(key, f"{len(data):,} of {size:,} bytes")
        return data

    def names_after(self, folder: str, after: str) -> Iterator[list[ListedName]]:
        """List the files under a folder whose names come after `after`, page by page, in order; raises `ReadFailure`.

        Files in subfolders are included. Names are relative to the folder.
        """
        import obstore

        start = len(folder) + 1
        try:
            for page in obstore.list(self.store, f"{folder}/", offset=f"{folder}/{after}", chunk_size=_PAGE):
                # Times are truncated to seconds, as in other responses, so that they compare as equal.
                yield [
                    ListedName(each["path"][start:], each["size"], each["last_modified"].replace(microsecond=0))
                    for each in page
                ]
        except Exception as error:
            raise self._failure(folder, error) from error

    def _failure(self, key: str, error: object) -> ReadFailure:
        self.is_usable = False
        _LOG.info("reading from the bucket of %s by pyarrow from now on: %s", key, error)
        return ReadFailure(str(error))


@dataclass
class SignedRequests:
    """An S3 bucket whose requests a catalog signs, with the methods of `SingleRequests`."""

    bucket: SignedBucket

    def whole(self, key: str, most: int) -> bytes | None:
        """Read a whole file; None if it has more than `most` bytes. Raises `FileNotFoundError`, `OSError`."""
        return self.bucket.whole(key, most)

    def names_after(self, folder: str, after: str) -> Iterator[list[ListedName]]:
        """List the files under a folder whose names come after `after`; see `SingleRequests.names_after`.

        Raises `OSError` instead of `ReadFailure`.
        """
        start = len(folder) + 1
        for keys, _ in self.bucket.pages(f"{folder}/", after=f"{folder}/{after}"):
            yield [ListedName(each.key[start:], each.size, each.modified) for each in keys]


def single_requests(
    place: str, settings: StorageOptions, signed: SignedBucket | None
) -> tuple[SingleRequests | SignedRequests, str] | None:
    """Return the client of a location's S3 bucket, and the key; None if pyarrow must read.

    pyarrow must read other stores, keys with special characters, and buckets with settings that obstore treats
    differently.

    Args:
        place: The current location, after relocation.
        settings: The settings of connections to it.
        signed: The bucket's client if a catalog signs its requests, else None.
    """
    scheme, bucket, path = split_location(place)
    key = path.removeprefix("/")
    if signed is not None:
        return SignedRequests(signed), key
    if store_of(scheme) != "s3" or not PLAIN_KEY.fullmatch(key):
        return None
    names = {name for store, name in settings.values if store == "s3"}
    # Without keys, the clients search for them in different places, and may wait for a service that does not exist.
    has_keys = "access_key" in names or "anonymous" in names or bool(os.environ.get("AWS_ACCESS_KEY_ID"))
    if not names <= _COMMON or not has_keys or not may_replace_arrow(settings):
        return None
    root = f"s3://{bucket}"
    found = _bucket(root, client_config(settings, root), environment_of_clients())
    return (found, key) if found is not None and found.is_usable else None


@lru_cache(maxsize=32)
def _bucket(
    root: str, settings: tuple[tuple[str, str], ...], environment: tuple[tuple[str, str], ...]
) -> SingleRequests | None:
    """Return the client of a bucket; None if obstore rejects the settings. `environment` is part of the cache key."""
    try:
        return SingleRequests(object_store(root, settings, retries=_RETRIES))
    except Exception as error:  # clients raise arbitrary types
        _LOG.info("reading from the bucket %s by pyarrow: %s", root, error)
        return None
