"""Where a table's files are: a location string becomes a filesystem and a path, relocated if the table moved.

Locations are the raw strings that metadata carries: a URI (`s3://bucket/x`, `file:/x`, `hdfs://host/x`) or a plain
path. They are never percent-decoded here: Iceberg writes raw paths, and Delta's are decoded where its log is read.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.encryption import KeyManager
from lakescan.errors import InvalidOption, MissingFile, StorageError
from lakescan.locations import ALIASES, Places, split_location

# How the ecosystem spells S3 settings (pyiceberg, delta-rs and AWS's own variables) -> pyarrow's argument.
_S3_OPTIONS = {
    "s3.access-key-id": "access_key",
    "aws_access_key_id": "access_key",
    "access_key_id": "access_key",
    "s3.secret-access-key": "secret_key",
    "aws_secret_access_key": "secret_key",
    "secret_access_key": "secret_key",
    "s3.session-token": "session_token",
    "aws_session_token": "session_token",
    "s3.region": "region",
    "aws_region": "region",
    "client.region": "region",
    "s3.endpoint": "endpoint_override",
    "aws_endpoint_url": "endpoint_override",
    "endpoint_url": "endpoint_override",
}


_REQUESTS = 16  # files that are asked for at once


def join(base: str, *parts: str) -> str:
    """A location under `base`."""
    return "/".join([base.rstrip("/"), *parts])


@dataclass(frozen=True)
class FileEntry:
    """A file as listed: its name, its location, its size in bytes and when it was last modified."""

    name: str
    location: str
    size: int
    modified: datetime | None


@dataclass
class Storage:
    """Opens files by location. Picklable: workers make their own filesystem handles.

    `key_manager` unlocks files that the table's metadata has key metadata of. `cache_folder` is a local folder that
    keeps decoded metadata, if there is one. `io_properties` are what a catalog says of how to reach files: where there
    are any, pyiceberg makes filesystems of them. Both they and `options` hold secrets.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    relocate: Mapping[str, str] = field(default_factory=dict)
    key_manager: KeyManager | None = None
    cache_folder: str | None = None
    io_properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.options = dict(self.options)
        self.relocate = {old.rstrip("/"): new.rstrip("/") for old, new in self.relocate.items()}
        self._filesystems: dict[tuple[str, str], pafs.FileSystem] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {
            "options": self.options,
            "relocate": self.relocate,
            "key_manager": self.key_manager,
            "io_properties": self.io_properties,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def identity(self) -> Hashable:
        """Two storages that are alike find the same bytes at the same location."""
        settings = sorted(self.options.items()), sorted(self.io_properties.items())
        return repr(settings), tuple(sorted(self.relocate.items()))

    @property
    def has_secrets(self) -> bool:
        """Whether there are settings that must not be seen in plans."""
        return bool(self.options or self.io_properties)

    def relocated(self, location: str) -> str:
        """The location after the longest matching prefix of `relocate` was replaced.

        A prefix without a scheme also matches the path part of a location that has one. Where no prefix matches the
        location as it is written, its normal form is tried (`locations.normalize`).
        """
        if not self.relocate:
            return location
        path = split_location(location)[2]
        for old in sorted(self.relocate, key=len, reverse=True):
            for candidate in (location, path):
                if candidate == old or candidate.startswith(old + "/"):
                    return self.relocate[old] + candidate[len(old) :]
        return self.places.moved(location)

    @property
    def places(self) -> Places:
        """Where locations are, for comparing them."""
        return Places(self.relocate)

    def resolve(self, location: str) -> tuple[pafs.FileSystem, str]:
        """The filesystem of a location and the path on it."""
        scheme, authority, path = split_location(self.relocated(location))
        scheme = ALIASES.get(scheme, scheme)
        if (scheme, authority) not in self._filesystems:
            self._filesystems[scheme, authority] = self._connected(scheme, authority)
        if scheme == "file":
            return self._filesystems[scheme, authority], os.path.abspath(path)
        bucket = authority.partition("@")[0] if scheme == "abfs" else authority
        in_bucket = scheme in ("s3", "gcs", "abfs")
        return self._filesystems[scheme, authority], (bucket + path) if in_bucket else path

    def _connected(self, scheme: str, authority: str) -> pafs.FileSystem:
        if scheme == "file" or not self.io_properties or self.options:
            return _filesystem(scheme, authority, self.options)
        from pyiceberg.io.pyarrow import PyArrowFileIO

        return PyArrowFileIO(dict(self.io_properties)).fs_by_scheme(scheme, authority)

    def open(self, location: str) -> pa.NativeFile:
        """The file, open for random access; raises `MissingFile`."""
        filesystem, path = self.resolve(location)
        try:
            return filesystem.open_input_file(path)
        except FileNotFoundError as error:
            raise self._missing(location, path) from error
        except OSError as error:
            raise StorageError(f"{location} cannot be opened: {error}") from error

    def create(self, location: str) -> pa.NativeFile:
        """A new file, open for writing, with the folders that it takes; raises `StorageError`."""
        filesystem, path = self.resolve(location)
        try:
            if isinstance(filesystem, pafs.LocalFileSystem):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            return filesystem.open_output_stream(path)
        except OSError as error:
            raise StorageError(f"{location} cannot be written: {error}") from error

    def remove(self, locations: Sequence[str]) -> Sequence[str]:
        """Delete files that may be there; those that cannot be deleted are returned."""
        left = []
        for location in locations:
            filesystem, path = self.resolve(location)
            try:
                filesystem.delete_file(path)
            except FileNotFoundError:
                continue
            except OSError:
                left.append(location)
        return left

    def read(self, location: str, offset: int = 0, length: int | None = None) -> bytes:
        """Bytes of a file: all of it, or `length` bytes from `offset`. Raises `MissingFile`."""
        with self.open(location) as file:
            if offset:
                file.seek(offset)
            data: bytes = file.read(length) if length is not None else file.read()
        return data

    def read_all(self, locations: Sequence[str]) -> Sequence[bytes]:
        """Several whole files; those that are not on this machine are asked for together, by some threads."""
        if len(locations) < 2 or split_location(self.relocated(locations[0]))[0] == "file":
            return [self.read(location) for location in locations]
        with ThreadPoolExecutor(min(_REQUESTS, len(locations))) as pool:
            return list(pool.map(self.read, locations))

    def exists(self, location: str) -> bool:
        """Whether a file or folder is there."""
        filesystem, path = self.resolve(location)
        return bool(filesystem.get_file_info(path).type != pafs.FileType.NotFound)

    def look_up(self, locations: Sequence[str]) -> list[FileEntry | None]:
        """Files by location, all of one filesystem, in one go; None for those that are not there."""
        if not locations:
            return []
        filesystem = self.resolve(locations[0])[0]
        found = filesystem.get_file_info([self.resolve(each)[1] for each in locations])
        return [
            FileEntry(info.base_name, location, info.size, info.mtime) if info.type == pafs.FileType.File else None
            for location, info in zip(locations, found, strict=True)
        ]

    def sizes(self, locations: Sequence[str]) -> np.ndarray:
        """The sizes of files as they are now, in bytes; raises `MissingFile`."""
        found = self.look_up(locations)
        if missing := [location for location, entry in zip(locations, found, strict=True) if entry is None]:
            raise MissingFile(f"{self.relocated(missing[0])} is not there, which the table says is one of its files")
        return np.array([entry.size for entry in found if entry is not None], dtype=np.int64)

    def list(self, folder: str) -> Iterator[FileEntry]:
        """The files directly in a folder, by name; none where the folder is missing."""
        filesystem, path = self.resolve(folder)
        found = filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True))
        for info in sorted(found, key=lambda i: i.base_name):
            if info.type == pafs.FileType.File:
                yield FileEntry(info.base_name, join(folder, info.base_name), info.size, info.mtime)

    def walk(self, folder: str) -> Iterator[FileEntry]:
        """The files under a folder, at any depth; none where it is missing."""
        filesystem, path = self.resolve(folder)
        for info in filesystem.get_file_info(pafs.FileSelector(path, allow_not_found=True, recursive=True)):
            if info.type == pafs.FileType.File:
                yield FileEntry(info.base_name, join(folder, info.path[len(path) :].lstrip("/")), info.size, info.mtime)

    def find(self, folder: str, part: str) -> Sequence[str]:
        """The files under a folder, at any depth, whose names have a part; it looks at all of them."""
        return [entry.location for entry in self.walk(folder) if part in entry.name]

    def _missing(self, location: str, path: str) -> MissingFile:
        moved = f" (looked for at {path})" if path != location else ""
        return MissingFile(
            f"{location}{moved} is listed in the table's metadata but is not in storage: it was removed "
            "(vacuum, expired snapshots), or the table was moved, in which case pass relocate={old_prefix: new_prefix}"
        )


def _filesystem(scheme: str, authority: str, options: Mapping[str, Any]) -> pafs.FileSystem:
    if scheme == "file":
        return pafs.LocalFileSystem()
    if scheme == "s3":
        return pafs.S3FileSystem(**_s3_arguments(options))
    if scheme == "gcs":
        return pafs.GcsFileSystem(**options)
    if scheme == "abfs":
        account = authority.partition("@")[2].partition(".")[0]
        return pafs.AzureFileSystem(**{"account_name": account, **options})
    if scheme == "hdfs":
        host, _, port = authority.partition(":")
        return pafs.HadoopFileSystem(host or "default", int(port or 0), **options)
    raise InvalidOption(
        f"no filesystem for {scheme}:// locations: known are file, s3, gs, abfs, hdfs; "
        "for a table that was copied, pass relocate={old_prefix: new_prefix}"
    )


def _s3_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {_S3_OPTIONS.get(name.lower(), name): value for name, value in options.items()}
    endpoint = str(arguments.get("endpoint_override", ""))
    if endpoint.startswith("http://"):
        arguments.setdefault("scheme", "http")
    arguments.pop("aws_allow_http", None)
    return arguments
