"""Remove many files of an S3 bucket by its bulk requests (DeleteObjects), a thousand keys each, with obstore."""

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
_FEW = 20  # for fewer files, requests of their own are as good
_KEYS = 1000  # that a bulk request has at most
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff]")  # what XML cannot have, or reads as another character
_FAILED: set[tuple[str, str | None]] = set()  # buckets and endpoints that have refused bulk requests


def remove_in_bulk(locations: Sequence[str], relocated: Sequence[str], settings: StorageOptions) -> list[str]:
    """Remove what bulk requests can; return the locations that are left, which may be removed or not.

    `relocated` are the same locations where they are now.
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
    """Remove the same by bulk requests that a catalog signs; return the locations that are left.

    `signed_bucket` returns the bucket of a location; None if the catalog does not sign its requests, which leaves it.
    """
    if len(locations) < _FEW:
        return list(locations)
    left = list[str]()
    by_bucket: dict[str, tuple[SignedBucket, dict[str, str]]] = {}  # with locations by their keys
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
            except Exception as error:  # files are then removed one by one
                _LOG.info("bulk removal from %s failed, files are removed one by one: %s", client.name, error)
                left += [found[key] for key in keys[start:]]
                break
    return left


def _delete_keys(bucket: str, keys: list[str], settings: StorageOptions) -> bool:
    """Whether all keys are removed."""
    try:
        import obstore

        root = f"s3://{bucket}"
        obstore.delete(object_store(root, client_config(settings, root)), keys)
    except Exception as error:  # whatever a client raises: the files are then removed one by one
        _LOG.info("bulk removal from %s failed, files are removed one by one: %s", bucket, error)
        return False
    return True
