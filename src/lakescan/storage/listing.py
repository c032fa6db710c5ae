"""Lists the files under a folder as Arrow tables in batches, so that no process holds all names at once.

Local folders are read entry by entry. S3 is listed page by page, from any key, if obstore is installed. Other stores
are listed by Arrow, which holds the listing of a folder in memory.
"""

from __future__ import annotations

import logging
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from string import ascii_letters, digits
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as pafs

from lakescan.storage.errors import log_requests, storage_boundary
from lakescan.storage.files import Storage, join
from lakescan.storage.locations import split_location, store_of
from lakescan.storage.object_clients import PLAIN_KEY, client_config, may_replace_arrow, object_store

LISTED = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modified", pa.timestamp("us", "UTC")),  # null if unknown, and for files reached by symlinks
    ]
)
_LOG = logging.getLogger("lakescan")
_ROWS = 1 << 16  # files of a batch
_PAGE = 1000  # keys in a response of S3
_ODD = re.compile(r"//|(?:^|/)\.{1,2}(?:/|$)")  # keys that obstore changes


@dataclass
class _ListingBatch:
    locations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)  # microseconds since 1970

    def table(self) -> pa.Table:
        """Return the batch as a table (schema `LISTED`), without files whose names are not valid Unicode.

        No table references such files.
        """
        columns = (self.locations, self.sizes, self.times)
        try:
            return pa.table(list(columns), schema=LISTED)
        except UnicodeEncodeError:
            rows = [row for row in zip(*columns, strict=True) if row[0].isprintable() or _is_text(row[0])]
            return pa.table([list(each) for each in zip(*rows, strict=True)] or [[], [], []], schema=LISTED)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def list_files(storage: Storage, folder: str, *, deep: bool = True, keys: Range | None = None) -> Iterator[pa.Table]:
    """List the files under a folder, or with `deep=False` directly in it, in batches of about 65,000 (schema `LISTED`).

    `keys` limits the listing of an S3 folder to a range of keys from `ranges_of`. A folder that does not exist yields
    nothing. Files that are reached through a symlink inside the folder have no time, since they may be anywhere and do
    not belong to the folder. A symlinked folder is listed even with `deep=False`. Raises `StorageError`.
    """
    filesystem, path = storage.resolve(folder)
    if isinstance(filesystem, pafs.LocalFileSystem):
        log_requests("list", [folder])
        with storage_boundary("listed", folder):
            yield from _list_local(folder, path, deep=deep)
    elif keys is not None:
        log_requests("list", [folder])
        yield from _list_keys(storage, folder, keys)
    else:
        entries = storage.walk(folder) if deep else iter(storage.entries(folder)[0])
        while some := list(islice(entries, _ROWS)):
            columns = [[each.location for each in some], [each.size for each in some], [each.modified for each in some]]
            yield pa.table(columns, schema=LISTED)


def ranges_of(storage: Storage, folder: str) -> list[Range] | None:
    """Return key ranges that divide an S3 folder for parallel listing by `list_files`.

    None if the folder must be listed by its subfolders: in other stores, without obstore, and after an error.
    """
    client = _bucket_client(storage, folder)
    if client is None:
        return None
    store, path = client
    try:
        return key_ranges(lambda after: _page(store, path, after), f"{path}/", _PAGE)
    except Exception as error:  # clients raise arbitrary types; the filesystem then lists the folders
        _LOG.info("%s is not listed by ranges of keys: %s", folder, error)
        return None


def _list_local(folder: str, path: str, *, deep: bool) -> Iterator[pa.Table]:
    part, waiting, linked = _ListingBatch(), [(folder.rstrip("/"), path, False)], set[tuple[int, int]]()
    while waiting:
        location, place, is_behind = waiting.pop()
        try:
            entries = os.scandir(place)
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                try:
                    is_linked = is_behind or entry.is_symlink()
                    if entry.is_dir():
                        if (deep or is_linked) and _is_new(entry, linked):
                            waiting.append((f"{location}/{entry.name}", entry.path, is_linked))
                        continue
                    if not entry.is_file():
                        continue
                    stat = entry.stat()
                except OSError:  # concurrently deleted, or a dangling link
                    continue
                part.locations.append(f"{location}/{entry.name}")
                part.sizes.append(stat.st_size)
                part.times.append(None if is_linked else stat.st_mtime_ns // 1000)
                if len(part.locations) >= _ROWS:
                    yield part.table()
                    part = _ListingBatch()
    if part.locations:
        yield part.table()


def _is_new(entry: os.DirEntry[str], linked: set[tuple[int, int]]) -> bool:
    """Return whether to list a local folder: each one reached through a symlink is listed only once.

    `linked` collects their device and inode numbers.
    """
    if not entry.is_symlink():
        return True
    stat = entry.stat()
    number = (stat.st_dev, stat.st_ino)
    if number in linked:
        return False
    linked.add(number)
    return True


def _list_keys(storage: Storage, folder: str, keys: Range) -> Iterator[pa.Table]:
    """Yield the files in a range of keys, as tables (schema `LISTED`).

    If obstore fails, the filesystem lists the whole folder instead, and files may be listed twice.
    """
    after, until = keys
    client = _bucket_client(storage, folder)
    assert client is not None  # it has returned the ranges
    store, path = client
    part = _ListingBatch()
    try:
        for page in _pages(store, path, after):
            until_here = [each for each in page if until is None or each["path"] <= until]
            inside = [each for each in until_here if each["path"] > after]  # clients encode some characters of `after`
            part.locations += [join(folder, each["path"][len(path) + 1 :]) for each in inside]
            part.sizes += [each["size"] for each in inside]
            part.times += [_micros(each["last_modified"]) for each in inside]
            if len(part.locations) >= _ROWS:
                yield part.table()
                part = _ListingBatch()
            if len(until_here) < len(page):
                break
    except Exception as error:  # clients raise arbitrary types; files may be listed twice then
        _LOG.info("listing the keys of %s after %r by the filesystem: %s", folder, after, error)
        for whole in list_files(storage, folder):
            places = pc.utf8_slice_codeunits(whole["location"], len(folder.rstrip("/")) + 1)
            place = pc.binary_join_element_wise(path, places, "/")
            mine = pc.greater(place, after)
            yield whole.filter(mine if until is None else pc.and_(mine, pc.less_equal(place, until)))
        return
    if part.locations:
        yield part.table()


def _bucket_client(storage: Storage, folder: str) -> tuple[Any, str] | None:
    """Return obstore's client for the bucket of an S3 folder, and the folder's path in the bucket.

    The client retries failed requests. Returns None if the folder is not in S3, if the catalog signs requests to it, or
    if obstore must not replace Arrow's client.
    """
    scheme, bucket, path = split_location(storage.current_location(folder))
    key = path.strip("/")
    if store_of(scheme) != "s3" or not PLAIN_KEY.fullmatch(key):
        return None
    settings = storage.settings_at(folder)
    if not may_replace_arrow(settings) or storage.is_signed_remotely(folder):
        return None
    root = f"s3://{bucket}"
    return object_store(root, client_config(settings, root), retries=None), key


def _micros(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _pages(store: Any, path: str, after: str) -> Any:
    import obstore

    return obstore.list(store, path, offset=after or None, chunk_size=_PAGE)


def _page(store: Any, path: str, after: str) -> list[str]:
    found = [each["path"] for each in next(iter(_pages(store, path, after)), [])]
    if any(_ODD.search(key) for key in found):
        raise ValueError(f"keys such as {found[0]}")
    return found


# Any boundaries divide a listing correctly, since each key is in exactly one range. Pages only balance the ranges.

Range = tuple[str, str | None]  # keys after the first (exclusive), up to the second (inclusive; None: all)
_WANTED, _PROBES = 64, 256
_PLAIN = "".join(sorted(f"-./={digits}_{ascii_letters}"))


def key_ranges(
    page: Callable[[str], Sequence[str]], prefix: str, size: int, wanted: int = _WANTED, probes: int = _PROBES
) -> list[Range]:
    """Divide the keys with a prefix into ranges of similar size.

    `page(after)` returns the first `size` keys with the prefix after a given key, in order, or fewer at the end. It is
    called about `probes` times at most. Prefixes with more than a page of keys are divided by their next character, the
    shortest prefixes first, until there are about `wanted` ranges. The ranges are in order, and cover all keys.
    """
    large, whole, left = deque([prefix]), list[str](), probes
    while large and len(large) + len(whole) < wanted and left > 0:
        first = large.popleft()
        inner, used = _divide(page, first, size, left)
        large += inner
        left -= used
        if not inner:
            whole.append(first)
    bounds = ["", *sorted(each for each in [*large, *whole] if each != prefix)]
    return [(one, bounds[at + 1] if at + 1 < len(bounds) else None) for at, one in enumerate(bounds)]


def _divide(page: Callable[[str], Sequence[str]], prefix: str, size: int, most: int) -> tuple[list[str], int]:
    """Return the longer prefixes of a prefix that have more than a page of keys, and the number of requests.

    At most `most` pages (see `key_ranges`) are requested.
    """
    found, after, used = list[str](), prefix, 0
    while used < most:
        keys, used = page(after), used + 1
        mine = [key for key in keys if key.startswith(prefix) and len(key) > len(prefix)]
        if not mine or len(mine) < len(keys) or len(keys) < size:
            return found, used  # the rest fits into a page
        shared = _common_prefix(mine[0], mine[-1])
        if len(shared) > len(prefix):  # all keys of the page share a longer prefix: check whether all others do
            if not found and after == prefix:
                beyond, used = page(_successor(shared)), used + 1
                if not any(key.startswith(prefix) for key in beyond):
                    return [shared], used
            found.append(mine[0][: len(prefix) + 1])
            after = _successor(found[-1])
        else:
            after = mine[-1][: len(prefix) + 1]  # continue with the page's last character
    return found, used


def _common_prefix(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _successor(text: str) -> str:
    """Return a text that sorts after the keys that start with `text`, to continue a listing behind them.

    If `text` ends with `z` or a later character, some of its keys may sort even later; ranges are then less balanced.
    """
    following = next((each for each in _PLAIN if each > text[-1]), None)
    return f"{text}zzzz" if following is None else text[:-1] + following
