"""Locations as strings: split, normalize, relocate and compare them.

Writers use several notations for the same file: `s3a://b/x` and `s3://b/x`, `file:/x` and `/x`, `/x//y` and `/x/./y`.
Files are opened by the location as written. Locations are compared (to find the data file that a delete references, or
the files that belong to a table) in their normal form, by `normalize`, or by `LocationMatcher` for a table that was
moved. Nothing is percent-decoded here: Iceberg writes raw paths, and Delta paths are decoded when the log is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import as_array

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*):(.*)$", re.DOTALL)
_STORES = {"s3a": "s3", "s3n": "s3", "gs": "gcs", "abfss": "abfs", "wasb": "abfs", "wasbs": "abfs"}
_HOSTS = ("hdfs", "abfs")  # schemes whose authority is a host name, which is case-insensitive
_DEFAULT_PORTS = {"hdfs": ":8020"}

# Locations already in normal form: the usual case, detected by one regex. Path names are not empty, '.' or '..'.
_NAME = r"(?:[^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+)"
_NORMAL = (
    r"(?s)^(?:(?:(?:s3|gcs)://[^/]+|hdfs://[^/A-Z:]+|abfs://[^/A-Z]+\.dfs\.[^/A-Z]+)?"  # a scheme and an authority
    rf"(?:/{_NAME})+|[^/.:][^/:]*(?:/{_NAME})*)$"
)
# Replacements that normalize most other locations, which is cheaper than splitting them into parts.
_COMMON = (
    (r"^s3[an]://", "s3://"),
    (r"^file:(?://)?/([^/])", r"/\1"),
    (r"^gs://", "gcs://"),
    (r"^abfss://", "abfs://"),
)
# Schemes and authorities in normal form, and plain paths.
_NORMAL_ROOT = r"(?s)^(?:/|(?:s3|gcs)://|hdfs://[^/A-Z:]+/|abfs://[^/A-Z]+\.dfs\.[^/A-Z]+/)"
_TAKEN_BACK = r"(^|/)(?:[^/.][^/]*|\.[^/.][^/]*|\.\.[^/]+)/\.\.(?:/|$)"
_ABOVE_ROOT = r"^/\.\.(?:/|$)"
_PARTS = r"(?s)^(?:(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+):(?://(?P<authority>[^/]*))?)?(?P<path>.*)$"
_ROOT = r"^[a-zA-Z][a-zA-Z0-9+.-]+:(?://[^/]*)?"


def store_of(scheme: str) -> str:
    """Return the kind of store of a scheme: file, s3, gcs, abfs or hdfs. Other schemes are returned unchanged."""
    return _STORES.get(scheme, scheme)


def split_location(location: str) -> tuple[str, str, str]:
    """Split a location into scheme (lower case), authority and path. The scheme of a plain path is 'file'."""
    match = _SCHEME.match(location)
    if match is None or len(match.group(1)) == 1:
        return "file", "", location
    scheme, rest = match.group(1).lower(), match.group(2)
    if not rest.startswith("//"):
        return scheme, "", rest
    authority, slash, path = rest[2:].partition("/")
    return scheme, authority, slash + path


def absolute(location: str) -> str:
    """Make the path of a local file or folder absolute; return other locations unchanged.

    Example:
        >>> absolute("s3://lake/t"), absolute("/lake/t"), absolute("lake/t") == f"{os.getcwd()}/lake/t"
        ('s3://lake/t', '/lake/t', True)
    """
    scheme, authority, path = split_location(location)
    if scheme != "file" or authority or path.startswith("/"):
        return location
    return os.path.abspath(path)


def normalize(locations: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Convert each location to its normal form. Locations with the same normal form are treated as the same file.

    Schemes of one store become one (`s3a`, `s3n`, `s3`; `gs`, `gcs`; `abfss`, `abfs`, `wasb`), local files become plain
    paths (`file:/x`, `file:///x`, `file://localhost/x`), hosts become lower case without a default port, repeated
    slashes become one, `.` and `..` are resolved, and a trailing slash is removed. Nulls stay null. An object store can
    have both keys `a//b` and `a/b`, which share a normal form: callers that must distinguish them compare raw
    locations.

    Example:
        >>> normalize(pa.array(["s3a://b//x/./y", "file:///tmp/a/../b", "HDFS://Host:8020/x/"])).to_pylist()
        ['s3://b/x/y', '/tmp/b', 'hdfs://host/x']
    """
    values = as_array(locations)
    return _where_not_normal(values, lambda some: _where_not_normal(_rewrite_roots(some), _normalize_parts))


def normalize_roots(locations: pa.Array) -> pa.Array:
    """Convert the scheme and host of each location to their normal form, and keep its path; see `normalize`.

    Used for file names that are compared as written: in an object store, `a//b` and `a/b` are different files.

    Example:
        >>> normalize_roots(pa.array(["s3a://b//x", "file:///x", "HDFS://Host:8020/x"])).to_pylist()
        ['s3://b//x', '/x', 'hdfs://host/x']
    """
    return _where(
        locations, _NORMAL_ROOT, lambda some: _where(_rewrite_roots(some), _NORMAL_ROOT, _normalize_root_parts)
    )


def adopt_root(locations: pa.Array, home: str) -> pa.Array:
    """Replace the scheme and host of locations by those of the table location `home`, if they mean the same store.

    Hadoop resolves a path without a scheme, and `hdfs:///x`, in the file system of the table. Here, this applies to all
    such locations of a table in HDFS, and in other stores to those below the table.

    Example:
        >>> adopt_root(pa.array(["s3a://b/t/f", "/t/f", "s3://c/f"]), "s3://b/t").to_pylist()
        ['s3://b/t/f', 's3://b/t/f', 's3://c/f']
    """
    root = _root_of(home)
    if not root or not len(locations) or _all(pc.starts_with(locations, root + "/")):
        return locations
    own = normal(root)
    parts = pc.extract_regex(normalize_roots(locations), _PARTS)
    scheme, authority, path = (parts.field(name) for name in ("scheme", "authority", "path"))
    roots = pc.binary_join_element_wise(scheme, authority, "://")
    has_none = pc.and_(pc.equal(scheme, ""), pc.starts_with(path, "/"))
    if own.startswith("hdfs:"):
        same = pc.or_(pc.is_in(roots, value_set=pa.array([own, "hdfs://"])), has_none)
    else:
        folder = home[len(root) :].rstrip("/") + "/"
        same = pc.or_(pc.equal(roots, own), pc.and_(has_none, pc.starts_with(path, folder)))
    return pc.if_else(same, pc.binary_join_element_wise(root, path, ""), locations)


def normal(location: str) -> str:
    """Normalize one location; see `normalize`."""
    result: str = normalize(pa.array([location], pa.string()))[0].as_py()
    return result


def is_normal(locations: pa.Array) -> pa.Array:
    """Return a mask of the locations that are in their normal form (`normalize`)."""
    return pc.equal(normalize(locations), locations)


def strip_roots(locations: pa.Array) -> pa.Array:
    """Return the paths of locations, without schemes and authorities: `/x` for `s3://b/x`."""
    return pc.replace_substring_regex(locations, _ROOT, "")


@dataclass(frozen=True)
class LocationMatcher:
    """Compares locations after relocation and normalization.

    `relocate` maps old location prefixes to new ones. A prefix without a scheme also matches the path of locations that
    have one. `home` is the table location in its metadata: a path below it without a scheme belongs to the same store
    and host (`/wh/t/f` in a table at `hdfs://host/wh/t`).
    """

    relocate: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None

    def canonicalize(self, locations: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return each location in a canonical form, which is equal for all notations of the same file."""
        return (
            normalize(self._relocate_all(locations)[0]) if self.relocate else self._add_home_root(normalize(locations))
        )

    def apply_relocation(self, location: str) -> str:
        """Relocate one location by its normal form; return it unchanged if no prefix of `relocate` matches."""
        relocated, hits = self._relocate_all(pa.array([location], pa.string()))
        return str(relocated[0]) if hits[0].as_py() else location

    def family(self, locations: pa.Array | pa.ChunkedArray) -> tuple[str, str] | None:
        """Return the root (scheme with authority) and the old prefix of `relocate` that all these locations share.

        A root or prefix that the locations lack is empty. Within a family, different locations are different files.
        Returns None if the locations start differently, a path among them is not in normal form, or `locations` is
        empty.
        """
        values = as_array(locations)
        values = values.drop_null()
        if not len(values):
            return None
        root = _root_of(values[0].as_py())
        tails = strip_roots(values)
        alike = pc.starts_with(values, root + "/") if root else pc.equal(values, tails)
        if not _all(alike) or not _all(pc.match_substring_regex(tails, _NORMAL)):
            return None
        if not self.relocate:
            return root, ""
        normalized = self._add_home_root(normalize(values))
        for old in sorted(self.relocate, key=len, reverse=True):
            for candidates in (normalized, strip_roots(normalized)):
                below = _is_below(candidates, normal(old))
                if pc.any(below).as_py():
                    return (root, old) if _all(below) else None
        return root, ""

    def _relocate_all(self, locations: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
        """Relocate locations by their normal forms; also return a mask of the locations that matched a prefix.

        Other locations are returned in their normal form.
        """
        places = self._add_home_root(normalize(locations))
        paths, hits = strip_roots(places), pa.repeat(False, len(places))
        for old in sorted(self.relocate, key=len, reverse=True):
            new, prefix = self.relocate[old], normal(old)
            for candidates in (places, paths):
                hit = pc.and_not(pc.fill_null(_is_below(candidates, prefix), False), hits)
                moved = pc.binary_join_element_wise(new, pc.utf8_slice_codeunits(candidates, len(prefix)), "")
                places = pc.if_else(hit, moved, places)
                hits = pc.or_(hits, hit)
        return places, hits

    def _add_home_root(self, normalized: pa.Array) -> pa.Array:
        """Add the scheme and authority of `home` to plain paths below its path, and its host to `hdfs:///x`.

        Unchanged without `home`, or if it is a local path.
        """
        if self.home is None or not (root := _root_of(normal(self.home))):
            return normalized
        if root.startswith("hdfs:"):
            normalized = pc.replace_substring_regex(normalized, "^hdfs:///", f"{root}/")
        below = pc.fill_null(_is_below(normalized, normal(self.home)[len(root) :]), False)
        if not pc.any(below).as_py():
            return normalized
        return pc.if_else(below, pc.binary_join_element_wise(root, normalized, ""), normalized)


def _is_below(locations: pa.Array, prefix: str) -> pa.Array:
    return pc.or_(pc.equal(locations, prefix), pc.starts_with(locations, prefix.rstrip("/") + "/"))


def _all(mask: pa.Array) -> bool:
    return bool(pc.all(mask).as_py())


def _root_of(location: str) -> str:
    match = re.match(_ROOT, location)
    return "" if match is None else match.group(0)


def _where_not_normal(values: pa.Array, make: Callable[[pa.Array], pa.Array]) -> pa.Array:
    return _where(values, _NORMAL, make)


def _where(values: pa.Array, form: str, make: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Replace the values that do not match the regular expression `form` by `make(values)`. Nulls stay null."""
    other = pc.fill_null(pc.invert(pc.match_substring_regex(values, form)), False)
    if not pc.any(other).as_py():
        return values
    return pc.replace_with_mask(values, other, make(values.filter(other)))


def _rewrite_roots(values: pa.Array) -> pa.Array:
    for pattern, replacement in _COMMON:
        values = pc.replace_substring_regex(values, pattern, replacement)
    return values


def _normalize_parts(values: pa.Array) -> pa.Array:
    root, path = _split_normally(values)
    path = _normal_path(path)
    path = pc.if_else(pc.and_(pc.equal(path, "/"), pc.not_equal(root, "")), "", path)
    return pc.binary_join_element_wise(root, path, "")


def _normalize_root_parts(values: pa.Array) -> pa.Array:
    root, path = _split_normally(values)
    is_local = pc.and_(pc.equal(root, ""), pc.match_substring_regex(values, "^[fF][iI][lL][eE]:"))
    path = pc.if_else(is_local, pc.replace_substring_regex(path, r"^/+", "/"), path)
    return pc.binary_join_element_wise(root, path, "")


def _split_normally(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the roots (normalized schemes with authorities) and the unchanged paths of locations."""
    parts = pc.extract_regex(values, _PARTS)
    scheme, authority = parts.field("scheme"), parts.field("authority")
    roots = pc.binary_join_element_wise(scheme, authority, "\x00").dictionary_encode()
    pairs = (each.partition("\x00")[::2] for each in roots.dictionary.to_pylist())
    known = pa.array([_normal_root(scheme, authority) for scheme, authority in pairs], pa.string())
    return known.take(roots.indices), parts.field("path")


def _normal_root(scheme: str, authority: str) -> str:
    """Return the normal form of a scheme and authority, such as `s3://bucket`; empty for a local file."""
    scheme = store_of(scheme.lower())
    if scheme in ("", "file"):
        return "" if authority.lower() in ("", "localhost") else f"file://{authority}"
    if scheme in _HOSTS:
        authority = authority.lower().removesuffix(_DEFAULT_PORTS.get(scheme, "\x00"))
    if scheme == "abfs":
        authority = authority.replace(".blob.", ".dfs.", 1)
    return f"{scheme}://{authority}"


def _normal_path(paths: pa.Array) -> pa.Array:
    """Remove empty names, `.` and trailing slashes from paths, and resolve `..`."""
    paths = pc.replace_substring_regex(paths, r"/(?:\.?/)+", "/")
    paths = pc.replace_substring_regex(paths, r"/\.$", "/")
    paths = pc.replace_substring_regex(paths, r"^(?:\./)+", "")
    while pc.any(pc.match_substring_regex(paths, f"{_TAKEN_BACK}|{_ABOVE_ROOT}")).as_py():
        paths = pc.replace_substring_regex(paths, _ABOVE_ROOT, "/")
        paths = pc.replace_substring_regex(paths, _TAKEN_BACK, r"\1")
    return pc.replace_substring_regex(paths, r"(?s)(.)/+$", r"\1")


def is_in(place: str, folder: str) -> bool:
    """Return whether a location is below a folder, and not the folder itself. Both must be normalized."""
    return place != folder and place.startswith(folder.rstrip("/") + "/")


def may_overlap(one: str, other: str) -> bool:
    """Return whether one location may be equal to or inside the other. True if it cannot be determined.

    An HDFS cluster has many names: its name service, each namenode's host and address, or none (`hdfs:///x`, `/x` in
    Hive). An Azure container can be reached by several hosts.

    Example:
        >>> may_overlap("hdfs://lake/wh", "hdfs:///wh/t"), may_overlap("s3://b/wh", "s3a://c/wh/t")
        (True, False)
    """
    if not _may_be_one_store(_root_of(normal(one)), _root_of(normal(other))):
        return False
    here, there = path_of(one), path_of(other)
    return here == there or is_in(here, there) or is_in(there, here)


def is_same_place(one: str, other: str) -> bool:
    """Return whether two locations are the same file or folder: by normal form, or after resolving local symlinks.

    In HDFS, only paths are compared, since a cluster has many names.

    Example:
        >>> is_same_place("file:/wh/t", "/wh/t/"), is_same_place("hdfs:///wh/t", "hdfs://nn:8020/wh/t")
        (True, True)
    """
    here, there = normal(one), normal(other)
    if here == there:
        return True
    root, its_root = _root_of(here), _root_of(there)
    if not root and not its_root:
        return os.path.realpath(here) == os.path.realpath(there)
    return root.startswith("hdfs:") and its_root.startswith("hdfs:") and path_of(here) == path_of(there)


def path_of(location: str) -> str:
    """Return the normalized path of a location within its store: `/x` for `s3://b/x`, and `/` for the root."""
    place = normal(location)
    return place[len(_root_of(place)) :] or "/"


def _may_be_one_store(one: str, other: str) -> bool:
    if one == other:
        return True
    (kind, container), (their_kind, their_container) = (
        (root.partition(":")[0], root.partition("//")[2].partition("@")[0]) for root in (one, other)
    )
    if kind == their_kind == "abfs":
        return container == their_container
    return "hdfs" in (kind, their_kind) and {kind, their_kind} <= {"hdfs", ""}


def is_below_any(locations: pa.Array | pa.ChunkedArray, folders: Iterable[str]) -> pa.Array:
    """Return a mask of the locations that are below one of the folders. Both may be in any notation."""
    places = normalize(locations)
    found = pa.repeat(False, len(places))
    for folder in folders:
        found = pc.or_(found, pc.starts_with(places, normal(folder).rstrip("/") + "/"))
    return found
