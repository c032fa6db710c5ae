"""Deletion of many S3 files by bulk requests (DeleteObjects) of a thousand keys each."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakescan.storage.locations import split_location, store_of
from lakescan.storage.object_clients import PLAIN_KEY, client_config, may_replace_arrow, object_store
from lakescan.storage.settings import StorageOptions

if TYPE_CHECKING:
    from lakescan.storage.signed_s3_client import SignedBucket

_LOG = logging.getLogger("lakescan")
_FEW = 20  # fewer files are deleted by single requests
_KEYS = 1000  # the limit of keys in a bulk request
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff]")  # characters that XML forbids or changes
_FAILED: set[tuple[str, str | None]] = set()  # buckets and endpoints that have refused bulk requests


def remove_in_bulk(locations: Sequence[str], relocated: Sequence[str], settings: StorageOptions) -> list[str]:
    """Delete files by obstore's bulk requests; return the locations that are left, which may or may not be deleted.

    `relocated` are the current locations of the same files. All are left if they are fewer than 20, or obstore cannot
    be used. Files outside S3, with special characters, or in a bucket whose bulk request failed are left, too.
    """
    endpoint = settings.endpoint("s3")
    if len(locations) < _FEW or not may_replace_arrow(settings):
        return list(locations)
    left, by_bucket = list[str](), defaultdict[str, list[tuple[str, str]]](list)
    for location, place in zip(locations, relocated, strict=True):
        scheme, bucket, path = split_location(place)
        key = path[1:]
        if store_of(scheme) == "s3" and (bucket, endpoint) not in _FAILED and PLAIN_KEY.fullmatch(key):
            by_bucket[bucket].append((location, key))
        else:
            left.append(location)
    for bucket, pairs in by_bucket.items():
        if not _delete_keys(bucket, [key for _, key in pairs], settings):
            _FAILED.add((bucket, endpoint))
            left += [location for location, _ in pairs]
    return left


def remove_by_signed_requests(
    locations: Sequence[str], relocated: Sequence[str], signed_bucket: Callable[[str], SignedBucket | None]
) -> list[str]:
    """Delete files by bulk requests that a catalog signs; return the locations that are left.

    `relocated` are the current locations of the same files. `signed_bucket` returns the bucket of a location, or None
    if the catalog does not sign its requests, in which case the location is left. All are left if they are fewer than
    20.
    """
    if len(locations) < _FEW:
        return list(locations)
    left = list[str]()
    by_bucket: dict[str, tuple[SignedBucket, dict[str, str]]] = {}  # client, and locations by key
    for location, place in zip(locations, relocated, strict=True):
        _, name, path = split_location(place)
        if not _UNFIT.search(path) and (bucket := signed_bucket(location)) is not None:
            by_bucket.setdefault(name, (bucket, {}))[1][path[1:]] = location
        else:
            left.append(location)
    for client, found in by_bucket.values():
        keys = list(found)
        for start in range(0, len(keys), _KEYS):
            some = keys[start : start + _KEYS]
            try:
                left += [found[key] for key in client.delete_all(some)]
            except Exception as error:
                _LOG.info("bulk deletion from %s failed, deleting files one by one: %s", client.name, error)
                left += [found[key] for key in keys[start:]]
                break
    return left


def _delete_keys(bucket: str, keys: list[str], settings: StorageOptions) -> bool:
    """Delete keys by bulk requests; return False if any error occurred, or obstore is not installed."""
    try:
        import obstore

        root = f"s3://{bucket}"
        obstore.delete(object_store(root, client_config(settings, root)), keys)
    except Exception as error:  # clients raise arbitrary types
        _LOG.info("bulk deletion from %s failed, deleting files one by one: %s", bucket, error)
        return False
    return True
