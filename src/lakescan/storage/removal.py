"""The one rule by which files are removed, whatever removes them: aborts, commits that failed, clean-up, purges.

A file goes only if the table, looked at anew, names it nowhere, under no spelling of its location; and, where it was
written for a commit, only once that commit has provably failed. What cannot be looked at is not removed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CommitConflict, SchemaMismatch, UnsupportedFeature
from lakescan.storage.locations import split_location, without_root
from lakescan.storage.storage import Storage

_LOG = logging.getLogger("lakescan")
_MANY = 1 << 20  # locations that are compared at once
Named = Iterable[pa.Array]  # locations of files, some at a time

# Errors after which a commit was not made, and never will be: those that say so have looked at the table anew.
PROVABLE_FAILURES = (CommitConflict, UnsupportedFeature, SchemaMismatch)


def remove_unnamed(storage: Storage, locations: Sequence[str], look: Callable[[], Named]) -> list[str]:
    """Remove files that a table does not name; those that were removed.

    `look` looks at the table anew, and yields the locations of all files that it may name. Raises what it raises, and
    `UnsupportedFeature` where it is not known whether files are the same; then all files stay.
    """
    gone = unnamed(storage, locations, look())
    left = set(storage.remove(gone))
    if left:
        _LOG.warning("%d files that nothing names could not be removed, %s among them", len(left), min(left))
    return [each for each in gone if each not in left]


def discard(storage: Storage, locations: Sequence[str], look: Callable[[], Named]) -> None:
    """Remove files of a commit that has provably failed, as `remove_unnamed`; they stay where that cannot be done."""
    if not locations:
        return
    try:
        remove_unnamed(storage, locations, look)
    except Exception as error:
        _LOG.warning("%d files of a commit that failed stay, %s among them: %s", len(locations), locations[0], error)


def unnamed(storage: Storage, locations: Sequence[str], named: Named) -> list[str]:
    """The files among some that none of the named locations is, in any spelling.

    Raises `UnsupportedFeature` for files that are named under another scheme or host only.
    """
    if not locations:
        return []
    mine = _Spelled(storage, pa.array(locations, pa.string()))
    others = [_Spelled(storage, each) for each in _together(named)]
    is_named = pa.array([False] * len(locations), pa.bool_())
    same_path = is_named
    for each in others:
        is_named = pc.or_(is_named, mine.is_among(each))
        same_path = pc.or_(same_path, pc.is_in(mine.paths, value_set=each.paths))
    unclear = pc.and_not(same_path, is_named)
    if pc.any(unclear).as_py():
        one = mine.locations.filter(unclear)[0].as_py()
        raise UnsupportedFeature(
            f"telling whether {pc.sum(unclear).as_py():,} files are the table's, {one} among them",
            "The table names files of these paths under another scheme or host. Where both are one place, open the "
            "table with relocate={one: the other}. Nothing was removed.",
        )
    left: list[str] = mine.locations.filter(pc.invert(is_named)).to_pylist()
    return _other_files_than(storage, left, others) if left else []


def _together(named: Named) -> Iterator[pa.Array]:
    """Locations, many at a time: each manifest has its own few."""
    some, count = list[pa.Array](), 0
    for part in named:
        some.append(part.cast(pa.string()))
        count += len(part)
        if count >= _MANY:
            yield pa.concat_arrays(some)
            some, count = [], 0
    if count:
        yield pa.concat_arrays(some)


class _Spelled:
    """Locations by their places, so that all spellings of one file are alike; percent-encoded ones, too."""

    def __init__(self, storage: Storage, locations: pa.Array) -> None:
        self.locations = locations
        self.places = _decoded(storage.places().of(locations))
        self.paths = without_root(self.places)

    def is_among(self, named: _Spelled) -> pa.Array:
        """Which are named; a name without scheme and host is of any."""
        bare = named.paths.filter(pc.equal(named.paths, named.places))
        return pc.or_(pc.is_in(self.places, value_set=named.places), pc.is_in(self.paths, value_set=bare))


def _decoded(locations: pa.Array) -> pa.Array:
    """Locations with their percent-encoding undone: some writers encode, others do not. A step a location with a %."""
    encoded = pc.match_substring(locations, "%")
    if not pc.any(encoded).as_py():
        return locations
    decoded = pa.array([unquote(each) for each in locations.filter(encoded).to_pylist()], pa.string())
    return pc.replace_with_mask(locations, encoded, decoded)


def _other_files_than(storage: Storage, locations: list[str], named: list[_Spelled]) -> list[str]:
    """Local files that are none of the named ones by another way: a link, a mount, other letters of one name."""
    here = [_inode(storage, each, follow=False) for each in locations]
    if not any(here):
        return locations
    theirs = {_inode(storage, each, follow=True) for part in named for each in part.locations.to_pylist()}
    return [each for each, inode in zip(locations, here, strict=True) if inode is None or inode not in theirs]


def _inode(storage: Storage, location: str, *, follow: bool) -> tuple[int, int] | None:
    scheme, authority, path = split_location(storage.relocated(location))
    if scheme != "file" or authority not in ("", "localhost"):
        return None
    try:
        found = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino
