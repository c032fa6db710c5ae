"""The files under a folder as columns, in parts: no process has the names of all of them at once.

Local folders are read entry by entry; S3's keys page by page, from any key on, where obstore is installed. Other stores
are listed by Arrow, whose listing of one folder is in memory as a whole.
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

from lakescan.storage.errors import storage_boundary
from lakescan.storage.files import Storage, join
from lakescan.storage.locations import split_location, store_of
from lakescan.storage.object_clients import PLAIN_KEY, client_config, may_replace_arrow, object_store

LISTED = pa.schema(
    [
        pa.field("location", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modified", pa.timestamp("us", "UTC")),  # null if the store does not tell, and behind links
    ]
)
_LOG = logging.getLogger("lakescan")
_ROWS = 1 << 16  # files of a part
_PAGE = 1000  # keys that S3 returns at once
_ODD = re.compile(r"//|(?:^|/)\.{1,2}(?:/|$)")  # keys that obstore does not take as they are


@dataclass
class _ListingBatch:
    locations: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)  # microseconds since 1970

    def table(self) -> pa.Table:
        """The part; without the files whose names are no text, which nothing can name."""
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
    """List the files under a folder, or with `deep=False` those directly in it, in parts of some 65,000 (`LISTED`).

    `keys` limits the listing of a folder in S3 to a range of keys, as `ranges_of` returns them. There are no files in a
    folder that does not exist. Files that are reached through a symbolic link inside the folder have no time: they may
    be anywhere, and are nothing that the folder owns. A linked folder belongs to the folder that has the link, also
    with `deep=False`. Raises `StorageError`.
    """
    filesystem, path = storage.resolve(folder)
    if isinstance(filesystem, pafs.LocalFileSystem):
        with storage_boundary("listed", folder):
            yield from _list_local(folder, path, deep=deep)
    elif keys is not None:
        yield from _list_keys(storage, folder, keys)
    else:
        entries = storage.walk(folder) if deep else iter(storage.entries(folder)[0])
        while some := list(islice(entries, _ROWS)):
            columns = [[each.location for each in some], [each.size for each in some], [each.modified for each in some]]
            yield pa.table(columns, schema=LISTED)


def ranges_of(storage: Storage, folder: str) -> list[Range] | None:
    """Ranges of keys that divide a folder in S3 into parts to list apart; None where it is listed by its folders."""
    client = _bucket_client(storage, folder)
    if client is None:
        return None
    store, path = client
    try:
        return key_ranges(lambda after: _page(store, path, after), f"{path}/", _PAGE)
    except Exception as error:  # whatever a client raises: the folders are listed by the filesystem then
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
                except OSError:  # removed meanwhile, or a link to nothing
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
    """Whether a folder is to be listed: one that links lead to, once."""
    if not entry.is_symlink():
        return True
    stat = entry.stat()
    number = (stat.st_dev, stat.st_ino)
    if number in linked:
        return False
    linked.add(number)
    return True


def _list_keys(storage: Storage, folder: str, keys: Range) -> Iterator[pa.Table]:
    """The files of a range of keys; by the filesystem, which lists the whole folder, if obstore does not take a key."""
    after, until = keys
    client = _bucket_client(storage, folder)
    assert client is not None  # ranges were made with it
    store, path = client
    part = _ListingBatch()
    try:
        for page in _pages(store, path, after):
            until_here = [each for each in page if until is None or each["path"] <= until]
            inside = [each for each in until_here if each["path"] > after]  # clients encode some characters of it
            part.locations += [join(folder, each["path"][len(path) + 1 :]) for each in inside]
            part.sizes += [each["size"] for each in inside]
            part.times += [_micros(each["last_modified"]) for each in inside]
            if len(part.locations) >= _ROWS:
                yield part.table()
                part = _ListingBatch()
            if len(until_here) < len(page):
                break
    except Exception as error:  # whatever a client raises; parts may be listed twice then
        _LOG.info("keys of %s after %r are listed by the filesystem: %s", folder, after, error)
        for whole in list_files(storage, folder):
            places = pc.utf8_slice_codeunits(whole["location"], len(folder.rstrip("/")) + 1)
            place = pc.binary_join_element_wise(path, places, "/")
            mine = pc.greater(place, after)
            yield whole.filter(mine if until is None else pc.and_(mine, pc.less_equal(place, until)))
        return
    if part.locations:
        yield part.table()


def _bucket_client(storage: Storage, folder: str) -> tuple[Any, str] | None:
    """Return obstore's client of the bucket of a folder in S3, and the folder's path in the bucket.

    The client retries failed requests. None if the folder is not in S3, if the catalog signs requests to it, or if
    obstore may not replace Arrow's client.
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


# Any boundaries divide a listing correctly, since each key is in exactly one range; pages only make the ranges alike.

Range = tuple[str, str | None]  # keys after the first (exclusive), up to the second (inclusive; None: all)
_WANTED, _PROBES = 64, 256
_PLAIN = "".join(sorted(f"-./={digits}_{ascii_letters}"))


def key_ranges(
    page: Callable[[str], Sequence[str]], prefix: str, size: int, wanted: int = _WANTED, probes: int = _PROBES
) -> list[Range]:
    """Divide the keys with a prefix.

    `page` returns the first `size` keys with the prefix after a given one, in order; fewer if there are no more. It is
    called about `probes` times at most. Prefixes that have more than a page of keys are divided by their next
    character, the shortest ones first, until there are as many as `wanted`.
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
    """The prefixes, longer by a character or more, that have more than a page of keys; and the pages that it took."""
    found, after, used = list[str](), prefix, 0
    while used < most:
        keys, used = page(after), used + 1
        mine = [key for key in keys if key.startswith(prefix) and len(key) > len(prefix)]
        if not mine or len(mine) < len(keys) or len(keys) < size:
            return found, used  # the rest fits into a page
        shared = _common_prefix(mine[0], mine[-1])
        if len(shared) > len(prefix):  # a page of one character: are there any others, or is it a longer prefix?
            if not found and after == prefix:
                beyond, used = page(_successor(shared)), used + 1
                if not any(key.startswith(prefix) for key in beyond):
                    return [shared], used
            found.append(mine[0][: len(prefix) + 1])
            after = _successor(found[-1])
        else:
            after = mine[-1][: len(prefix) + 1]  # from the last character of the page on
    return found, used


def _common_prefix(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _successor(text: str) -> str:
    """What is after all keys with a prefix, but for some with odd characters: clients encode those in what they ask."""
    following = next((each for each in _PLAIN if each > text[-1]), None)
    return f"{text}zzzz" if following is None else text[:-1] + following
