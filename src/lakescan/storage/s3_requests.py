"""S3 with one request for what pyarrow needs two for, by obstore: a whole file, and names after a given one.

pyarrow asks for the size of a file before it reads it, and lists folders from their first name on. Here, the answer
to a read tells the size, and a listing starts where it is needed. Used where obstore is installed and provably means
the same store with the same credentials as pyarrow; else, and after any failure, pyarrow reads.
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

MOST_AT_ONCE = 128  # requests; the client opens a connection for each
_LOG = logging.getLogger("lakescan")
# The settings that both clients have, and understand alike: with any other one, pyarrow reads.
_COMMON = {"access_key", "secret_key", "session_token", "region", "endpoint_override", "anonymous", "aws_allow_http"}
_COMMON |= {"aws_use_ssl", "tls_ca_file_path", "max_retries"}
_RETRIES = 3
_PAGE = 1000  # names that S3 returns at once


@dataclass(frozen=True)
class ListedName:
    """A name in a folder, with the file's size in bytes and the second of its last modification."""

    name: str
    size: int
    modified: datetime


class ReadFailure(Exception):
    """The client cannot read this: pyarrow is to read it, or to say what is wrong."""


@dataclass
class SingleRequests:
    """A bucket. `is_usable` until a request failed for another reason than a missing file."""

    store: Any
    is_usable: bool = True

    def whole(self, key: str, most: int) -> bytes | None:
        """A whole file; None if it has more bytes than `most`. Raises `FileNotFoundError`, and `Failed`."""
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
        except Exception as error:  # whatever a client raises
            raise self._failure(key, error) from error
        if len(data) != size:
            raise self._failure(key, f"{len(data):,} of {size:,} bytes")
        return data

    def names_after(self, folder: str, after: str) -> Iterator[list[ListedName]]:
        """The names in a folder that come after a name, page by page, in order; those in its folders, too.

        Raises `Failed`.
        """
        import obstore

        start = len(folder) + 1
        try:
            for page in obstore.list(self.store, f"{folder}/", offset=f"{folder}/{after}", chunk_size=_PAGE):
                # As in the answers to other requests, times have whole seconds, so that they compare as equal.
                yield [
                    ListedName(each["path"][start:], each["size"], each["last_modified"].replace(microsecond=0))
                    for each in page
                ]
        except Exception as error:
            raise self._failure(folder, error) from error

    def _failure(self, key: str, error: object) -> ReadFailure:
        self.is_usable = False
        _LOG.info("pyarrow reads from the bucket of %s from now on: %s", key, error)
        return ReadFailure(str(error))


@dataclass
class SignedRequests:
    """A bucket whose requests a catalog signs; as `SingleRequests`."""

    bucket: SignedBucket

    def whole(self, key: str, most: int) -> bytes | None:
        """A whole file; None if it has more bytes than `most`. Raises `FileNotFoundError`, `OSError`."""
        return self.bucket.whole(key, most)

    def names_after(self, folder: str, after: str) -> Iterator[list[ListedName]]:
        """The names in a folder that come after a name, page by page, in order; those in its folders, too."""
        start = len(folder) + 1
        for keys, _ in self.bucket.pages(f"{folder}/", after=f"{folder}/{after}"):
            yield [ListedName(each.key[start:], each.size, each.modified) for each in keys]


def single_requests(
    place: str, settings: StorageOptions, signed: SignedBucket | None
) -> tuple[SingleRequests | SignedRequests, str] | None:
    """Return the bucket of a location in S3 and the key in it; None if pyarrow has to read.

    Args:
        place: The location where it is now.
        settings: The settings of connections to it.
        signed: The bucket, if a catalog signs its requests.
    """
    scheme, bucket, path = split_location(place)
    key = path.removeprefix("/")
    if signed is not None:
        return SignedRequests(signed), key
    if store_of(scheme) != "s3" or not PLAIN_KEY.fullmatch(key):
        return None
    names = {name for store, name in settings.values if store == "s3"}
    # Without keys, the clients look for them in different places, and may wait for a service that is not there.
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
    """A bucket as `settings` and `environment` say, which is the process's own; None for what no client takes."""
    try:
        return SingleRequests(object_store(root, settings, retries=_RETRIES))
    except Exception as error:  # whatever a client raises
        _LOG.info("pyarrow reads from the bucket %s: %s", root, error)
        return None
