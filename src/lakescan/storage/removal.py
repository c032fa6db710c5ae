"""Safe deletion of files, for all callers: aborted writes, failed commits, maintenance, purges.

A file is deleted only if the freshly loaded table does not reference it in any notation of its location. A file that
was written for a commit is deleted only after that commit has provably failed. Files that cannot be checked are kept.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import as_array
from lakescan.errors import CommitConflict, LocationRefused, SchemaMismatch, UnsupportedFeature
from lakescan.storage.files import Storage
from lakescan.storage.locations import is_below_any, split_location, strip_roots
from lakescan.storage.put_if_absent import NotCreated

_LOG = logging.getLogger("lakescan")
_MANY = 1 << 20  # locations in a chunk for comparison
Named = Iterable[pa.Array]  # referenced locations, in chunks

# Errors that prove that a commit did not and will not happen: they are raised after the table was reloaded.
PROVABLE_FAILURES = (CommitConflict, UnsupportedFeature, SchemaMismatch, NotCreated)


def remove_unreferenced_files(
    storage: Storage, locations: Sequence[str], look: Callable[[], Named], first: Sequence[str] = ()
) -> list[str]:
    """Delete the files that a table does not reference; return the deleted ones.

    `look` reloads the table and yields the locations of all files that it may reference. `first` are the files that
    reference the others. They are deleted first, one by one, so that an interruption leaves no reference to a missing
    file. If one of them cannot be deleted, the files after it are kept. Raises the errors of `look`, and
    `UnsupportedFeature` if it is unclear whether two locations are the same file. Then no file is deleted.
    """
    unreferenced = unreferenced_files(storage, locations, look())
    leading = [each for each in dict.fromkeys(first) if each in unreferenced]
    others = [each for each in unreferenced if each not in leading]
    left = set[str]()
    for group in [*([each] for each in leading), others]:
        left |= set(group if left else storage.remove(group))
    if left:
        _LOG.warning("%d unreferenced files could not be removed, %s among them", len(left), min(left))
    return [each for each in unreferenced if each not in left]


def discard(storage: Storage, locations: Sequence[str], look: Callable[[], Named], first: Sequence[str] = ()) -> None:
    """Delete the files of a provably failed commit; on an error, log it and keep them.

    See `remove_unreferenced_files` for `look` and `first`. Locations that the table must not reference are skipped,
    since nothing was written there.
    """
    locations = [each for each in locations if _is_reached(storage, each)]
    if not locations:
        return
    try:
        remove_unreferenced_files(storage, locations, look, first)
    except Exception as error:
        _LOG.warning(
            "%d files of a failed commit were not removed, %s among them: %s", len(locations), locations[0], error
        )


def _is_reached(storage: Storage, location: str) -> bool:
    try:
        storage.current_location(location)
    except LocationRefused:
        return False
    return True


def unreferenced_files(storage: Storage, locations: Sequence[str], named: Named) -> list[str]:
    """Return the files among `locations` that the referenced locations `named` do not contain in any notation.

    A file that a referenced location also reaches by a link, a mount or case folding counts as referenced. Raises
    `UnsupportedFeature` for files that are referenced only under another scheme or host.
    """
    if not locations:
        return []
    mine = pa.array(locations, pa.string())
    others = [_ComparableLocations(storage, each) for each in _merge_chunks(named)]
    left: list[str] = mine.filter(_unreferenced_mask(_ComparableLocations(storage, mine), others)).to_pylist()
    return _other_files_than(storage, left, others) if left else []


def folder_mask(storage: Storage, locations: pa.Array | pa.ChunkedArray, folders: Sequence[str]) -> pa.Array:
    """Return a mask of the locations below one of the folders, except files that a symlink leads out of the folders.

    Locations and folders may be in any notation. Takes one Python step for each parent folder.
    """
    inside = is_below_any(locations, folders)
    if not pc.any(inside).as_py():
        return inside
    parents = pc.replace_substring_regex(as_array(locations), r"(?s)/[^/]*$", "").dictionary_encode()
    roots = [each for each in (_real_path(storage, folder) for folder in folders) if each is not None]
    own = [_is_really_in(_real_path(storage, each), roots) for each in parents.dictionary.to_pylist()]
    return pc.and_(inside, pa.array(own, pa.bool_()).take(parents.indices))


def _real_path(storage: Storage, folder: str) -> str | None:
    """Return the path of a local folder with symlinks resolved; None for other stores."""
    scheme, _, path = split_location(storage.current_location(folder))
    return os.path.realpath(path) if scheme == "file" else None


def _is_really_in(path: str | None, roots: Sequence[str]) -> bool:
    return path is None or any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def unreferenced_by_name(storage: Storage, locations: pa.Array, named: Named) -> pa.Array:
    """Return a mask of locations that `named` does not contain in any notation, without resolving links.

    Raises `UnsupportedFeature` like `unreferenced_files`, which resolves them.
    """
    if not len(locations):
        return pa.array([], pa.bool_())
    return _unreferenced_mask(
        _ComparableLocations(storage, locations), (_ComparableLocations(storage, each) for each in _merge_chunks(named))
    )


def _unreferenced_mask(mine: _ComparableLocations, others: Iterable[_ComparableLocations]) -> pa.Array:
    is_named = same_path = pa.repeat(False, len(mine.locations))
    for each in others:
        is_named = pc.or_(is_named, mine.is_among(each))
        same_path = pc.or_(same_path, pc.is_in(mine.paths, value_set=each.paths))
    unclear = pc.and_not(same_path, is_named)
    if pc.any(unclear).as_py():
        one = mine.locations.filter(unclear)[0].as_py()
        raise UnsupportedFeature(
            f"telling whether {pc.sum(unclear).as_py():,} files belong to the table, {one} among them",
            "The table references these paths under another scheme or host. If both are the same place, open the "
            "table with relocate={one: the other}. Nothing was removed.",
        )
    return pc.invert(is_named)


def comparison_keys(storage: Storage, locations: pa.Array) -> pa.Array:
    """Return the path of each location in canonical form.

    Two locations that `unreferenced_by_name` may treat as the same file have equal paths.
    """
    return _ComparableLocations(storage, locations).paths


def file_numbers(storage: Storage, locations: Sequence[str], *, follow: bool) -> list[tuple[int, int] | None]:
    """Return the device and inode number of each local file; None for files in other stores and missing ones.

    `follow`: resolve symlinks.
    """
    return [_inode(storage, each, follow=follow) for each in locations]


def _merge_chunks(named: Named) -> Iterator[pa.Array]:
    """Merge small arrays of locations (one per manifest) into arrays of about a million."""
    some, count = list[pa.Array](), 0
    for part in named:
        some.append(part.cast(pa.string()))
        count += len(part)
        if count >= _MANY:
            yield pa.concat_arrays(some)
            some, count = [], 0
    if count:
        yield pa.concat_arrays(some)


class _ComparableLocations:
    """Locations in canonical form (`places`), and their paths: equal for all notations of a file.

    Percent-encoded notations are included. `locations` are as written.
    """

    def __init__(self, storage: Storage, locations: pa.Array) -> None:
        self.locations = locations
        self.places = _percent_decode(storage.places().canonicalize(locations))
        self.paths = strip_roots(self.places)

    def is_among(self, named: _ComparableLocations) -> pa.Array:
        """Return a mask of these locations: True for those in `named`.

        A location in `named` without scheme and host matches any scheme and host.
        """
        bare = named.paths.filter(pc.equal(named.paths, named.places))
        return pc.or_(pc.is_in(self.places, value_set=named.places), pc.is_in(self.paths, value_set=bare))


def _percent_decode(locations: pa.Array) -> pa.Array:
    """Percent-decode locations, since some writers encode them. Takes one Python step per location with a `%`."""
    encoded = pc.match_substring(locations, "%")
    if not pc.any(encoded).as_py():
        return locations
    decoded = pa.array([unquote(each) for each in locations.filter(encoded).to_pylist()], pa.string())
    return pc.replace_with_mask(locations, encoded, decoded)


def _other_files_than(storage: Storage, locations: list[str], named: list[_ComparableLocations]) -> list[str]:
    """Return the files among `locations` that no location in `named` reaches by a link, a mount, or case folding.

    Only local files are compared; others are returned.
    """
    here = [_inode(storage, each, follow=False) for each in locations]
    if not any(here):
        return locations
    theirs = {_inode(storage, each, follow=True) for part in named for each in part.locations.to_pylist()}
    return [each for each, inode in zip(locations, here, strict=True) if inode is None or inode not in theirs]


def _inode(storage: Storage, location: str, *, follow: bool) -> tuple[int, int] | None:
    scheme, authority, path = split_location(storage.current_location(location))
    if scheme != "file" or authority not in ("", "localhost"):
        return None
    try:
        stat = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino
