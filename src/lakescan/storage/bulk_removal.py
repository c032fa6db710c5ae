"""Remove many files of an S3 bucket by its bulk requests (DeleteObjects), a thousand keys each, with obstore."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from lakescan.storage import Storage
from lakescan.storage.locations import ALIASES, split_location
from lakescan.storage.object_clients import client_config, is_usable, may_mean_another_store, object_store
from lakescan.storage.s3_requests import signed_client
from lakescan.storage.settings import StorageOptions

_LOG = logging.getLogger("lakescan")
_FEW = 20  # for fewer files, requests of their own are as good
# Keys that each client sends as they are: others are removed by the filesystem that has listed them.
_PLAIN = re.compile(r"(?:(?!\.{1,2}/)[A-Za-z0-9_.=-]+/)*(?!\.{1,2}$)[A-Za-z0-9_.=-]+")
_KEYS = 1000  # that a bulk request has at most
_UNFIT = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff]")  # what XML cannot have, or reads as another character
_FAILED: set[tuple[str, str | None]] = set()  # buckets and endpoints that have refused bulk requests


def remove_in_bulk(locations: Sequence[str], relocated: Sequence[str], settings: StorageOptions) -> list[str]:
    """Remove what bulk requests can; return the locations that are left, which may be removed or not.

    `relocated` are the same locations where they are now.
    """
    endpoint = settings.endpoint("s3")
    if len(locations) < _FEW or may_mean_another_store(settings) or not is_usable():
        return list(locations)
    left, by_bucket = list[str](), defaultdict[str, list[tuple[str, str]]](list)
    for location, place in zip(locations, relocated, strict=True):
        scheme, bucket, path = split_location(place)
        key = path[1:]
        if ALIASES.get(scheme, scheme) == "s3" and (bucket, endpoint) not in _FAILED and _PLAIN.fullmatch(key):
            by_bucket[bucket].append((location, key))
        else:
            left.append(location)
    for bucket, pairs in by_bucket.items():
        if not _delete_keys(bucket, [key for _, key in pairs], settings):
            _FAILED.add((bucket, endpoint))
            left += [location for location, _ in pairs]
    return left


def remove_by_signed_requests(storage: Storage, locations: Sequence[str]) -> list[str]:
    """The same by bulk requests that a catalog signs; those of locations that it does not sign are left, too."""
    if len(locations) < _FEW:
        return list(locations)
    left, by_bucket = list[str](), defaultdict[str, dict[str, str]](dict)  # locations by their keys
    for location in locations:
        _, bucket, path = split_location(storage.current_location(location))
        if storage.is_signed_remotely(location) and not _UNFIT.search(path):
            by_bucket[bucket][path[1:]] = location
        else:
            left.append(location)
    for found in by_bucket.values():
        client, keys = signed_client(storage, next(iter(found.values()))), list(found)
        for start in range(0, len(keys), _KEYS):
            some = keys[start : start + _KEYS]
            try:
                left += [found[key] for key in client.delete_all(some)]
            except Exception as error:  # files are then removed one by one
                _LOG.info("bulk removal from %s failed, files are removed one by one: %s", client.name, error)
                left += [found[key] for key in keys[start:]]
                break
    return left


def folder_client(storage: Storage, folder: str) -> tuple[Any, str] | None:
    """Obstore's client of the bucket of a folder in S3, which repeats failed requests, and the folder's path in there.

    None where the folder is not in S3, obstore is not installed or not to be used after a fork, or the two
    clients may mean different stores.
    """
    scheme, bucket, path = split_location(storage.current_location(folder))
    settings = storage.settings_at(folder)
    is_other = may_mean_another_store(settings) or not is_usable()
    if ALIASES.get(scheme, scheme) != "s3" or is_other or not _PLAIN.fullmatch(path.strip("/")):
        return None
    if storage.is_signed_remotely(folder):
        return None
    if importlib.util.find_spec("obstore") is None:
        return None
    root = f"s3://{bucket}"
    return object_store(root, client_config(settings, root), retries=None), path.strip("/")


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
