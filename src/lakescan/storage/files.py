"""Storage: resolves a location to a filesystem and a path, relocated if the table was moved, and accesses the files.

Locations are the raw strings in metadata: a URI (`s3://bucket/x`, `file:/x`, `hdfs://host/x`) or a plain path. They are
never percent-decoded here: Iceberg writes raw paths, and Delta paths are decoded when the log is read. A location
outside the allowed locations raises `LocationRefused`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import fs as pafs

from lakescan import limits
from lakescan.errors import CorruptMetadata, InvalidOption, LimitExceeded, MissingFile, StorageError
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.clients import CLIENTS, CONNECTIONS, connect, connect_by_catalog
from lakescan.storage.encryption import KeyManager
from lakescan.storage.encryption.table_keys import UnwrappedKeys
from lakescan.storage.errors import WholeFile, check_regular, log_requests, read_whole, redact, storage_boundary
from lakescan.storage.locations import LocationMatcher, absolute, split_location, store_of
from lakescan.storage.settings import StorageOptions
from lakescan.storage.settings.azure_endpoints import account_of
from lakescan.storage.settings.catalog_properties import is_signed_remotely, merge_server_properties
from lakescan.storage.settings.hadoop_defaults import hadoop_defaults
from lakescan.storage.vended_credentials import (
    Credential,
    Credentials,
    CredentialSource,
    VendedCredentials,
)

if TYPE_CHECKING:
    from lakescan.storage.s3_requests import ListedName, SignedRequests, SingleRequests
    from lakescan.storage.signed_s3_client import SignedBucket

_REQUESTS = CONNECTIONS  # concurrent requests of threads
_MOST_AT_ONCE = 16 * 2**20  # the largest file that is read by one request, in bytes


def join(base: str, *parts: str) -> str:
    """Append path parts to the location `base`, separated by slashes."""
    return "/".join([base.rstrip("/"), *parts])


def _plain_values(settings: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return settings as sorted pairs with unmasked secrets, so that different secrets compare as different."""
    return sorted((name, str(value) if isinstance(value, str) else value) for name, value in settings.items())


@dataclass(frozen=True)
class FileEntry:
    """A listed file: name, location, size in bytes, and time of the last modification, None if unknown."""

    name: str
    location: str
    size: int
    modified: datetime | None


@dataclass
class Storage:
    """Opens, lists and deletes files by location. Picklable: workers create their own filesystem handles.

    - `options` are the user's storage options.
    - `relocate` maps old location prefixes to new ones, for a table that was moved.
    - `key_manager` provides the keys of files that have key metadata.
    - `cache_folder` is an optional local folder for decoded metadata. It is not pickled.
    - `io_properties` are the catalog's FileIO properties, used if `options` are not set. Both hold secrets.
      Without either, they are Hadoop's settings of an enabled Spark session.
    - `azure_account` is the only Azure account that gets secrets. By default, it is `account_name` of the settings, or
      else the account of the first location, unless a catalog named it.
    - `vended` are temporary credentials from the catalog, which take precedence over the properties.
    - `allowed` limits the locations: all others raise `LocationRefused`.

    Raises `InvalidOption` for unknown options.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    relocate: Mapping[str, str] = field(default_factory=dict)
    key_manager: KeyManager | None = field(default=None, repr=False)
    cache_folder: str | None = None
    io_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    azure_account: str | None = None
    vended: VendedCredentials | None = field(default=None, repr=False)
    allowed: AllowedLocations = field(default_factory=AllowedLocations)

    def __post_init__(self) -> None:
        self.options = dict(self.options)
        if not self.options and not self.io_properties and self.vended is None:
            self.io_properties = hadoop_defaults()
        self._settings = StorageOptions.parse(self.options)
        self._of_catalog = StorageOptions.parse(self.io_properties, ignore_unknown=True)
        if wrong := [prefix for pair in self.relocate.items() for prefix in pair if not isinstance(prefix, str)]:
            raise InvalidOption(f"relocate maps location prefixes, which are strings, but {wrong[0]!r} is not a string")
        self.relocate = {old.rstrip("/"): absolute(new).rstrip("/") for old, new in self.relocate.items()}
        self._filesystems: dict[tuple[str, str, str | None], tuple[Credential | None, pafs.FileSystem]] = {}
        self.unwrapped_keys: UnwrappedKeys | None = (
            None if self.key_manager is None else UnwrappedKeys(self.key_manager)
        )

    @classmethod
    def copy_from(cls, other: Storage) -> Self:
        """Create a storage of this class with the settings of another one; both share their connections."""
        made = cls(
            other.options,
            other.relocate,
            other.key_manager,
            other.cache_folder,
            other.io_properties,
            other.azure_account,
            other.vended,
            other.allowed,
        )
        made._filesystems = other._filesystems
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {
            "options": self.options,
            "relocate": self.relocate,
            "key_manager": self.key_manager,
            "io_properties": self.io_properties,
            "azure_account": self.azure_account,
            "vended": self.vended,
            "allowed": self.allowed,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def identity(self) -> Hashable:
        """A key for caches: storages with the same identity read the same bytes at the same location."""
        # A table must not read files that it may not access from the cache of a table that may.
        limits = tuple(sorted(self.relocate.items())), self.allowed.prefixes
        if self.vended is not None and self.vended.identity is not None:
            return self.vended.identity, repr(_plain_values(self.options)), limits
        settings = _plain_values(self.options), _plain_values(self.io_properties)
        signer = None if self.vended is None else self.vended.signer
        return repr(settings), limits, None if signer is None else signer.identity

    @property
    def has_secrets(self) -> bool:
        """Whether the storage has options, properties or credentials, which plans must not show."""
        return bool(self.options or self.io_properties) or self.is_issued

    @property
    def is_issued(self) -> bool:
        """Whether a catalog vends temporary credentials, which other engines, such as Spark, do not have."""
        return self.vended is not None and self.vended.has_credentials

    def request_write_access(self) -> Storage:
        """Return this storage, with credentials for writing if a catalog vends credentials."""
        writing = None if self.vended is None else self.vended.request_write_access()
        if writing is self.vended:
            return self
        return replace(self, vended=writing)

    @property
    def settings(self) -> StorageOptions:
        """The settings of connections without vended credentials: the options or, without them, FileIO properties."""
        return self._settings if self.options or not self.io_properties else self._of_catalog

    def settings_at(self, location: str) -> StorageOptions:
        """Return the settings of connections to a location; raises `StorageError` if a credential cannot be renewed."""
        credential = self._credential(location)
        return self._settings_with({} if credential is None else credential.properties)

    def _settings_with(self, more: Mapping[str, str]) -> StorageOptions:
        return StorageOptions.parse(self._with_issued(more), ignore_unknown=True) if more else self.settings

    def _with_issued(self, issued: Mapping[str, str]) -> dict[str, str]:
        """Return the catalog's properties, merged with vended ones (`issued`), which replace the user's credentials."""
        if not issued:
            return dict(self.io_properties)
        return merge_server_properties(self.io_properties, issued, "what the catalog issues")

    def _credential(self, location: str) -> Credential | None:
        """Return the credential that the catalog vends for a location.

        None without one, for a local file, and if the user set `options`. Raises `StorageError` if it cannot be
        renewed.
        """
        if self.vended is None or self.options:
            return None
        place = self.current_location(location)
        return None if split_location(place)[0] == "file" else self.vended.at(place)

    def is_signed_remotely(self, location: str) -> bool:
        """Return whether the catalog signs requests to a location in S3, so that ordinary clients cannot access it."""
        if self.vended is None or self.vended.signer is None or (credential := self._credential(location)) is None:
            return False
        is_s3 = store_of(split_location(self.current_location(location))[0]) == "s3"
        return is_s3 and is_signed_remotely({**self.io_properties, **credential.properties})

    def _signed_bucket(self, location: str) -> SignedBucket | None:
        """Return the client of a location's bucket if the catalog signs requests to it, else None."""
        if not self.is_signed_remotely(location):
            return None
        bucket: SignedBucket = self.resolve(location)[0].handler.bucket
        return bucket

    def use(self, credentials: Sequence[Credential], source: CredentialSource | None = None) -> None:
        """Add credentials from the catalog, such as those of a scan plan, which `source` renews."""
        if not credentials:
            return
        if self.vended is None:
            self.vended = Credentials(())
        assert isinstance(self.vended, Credentials)  # other kinds do not vend credentials with a plan
        self.vended.add(credentials, source)

    def all_options_at(self, location: str) -> StorageOptions:
        """Return the settings from both the options and the catalog's FileIO properties for a location.

        Options take precedence. Unlike in `settings`, properties also apply if options are set.
        """
        credential = self._credential(location)
        of_catalog = self._with_issued({} if credential is None else credential.properties)
        return StorageOptions.parse({**of_catalog, **self.options}, ignore_unknown=True)

    def current_location(self, location: str) -> str:
        """Replace the longest matching prefix of `relocate` in a location; return other locations unchanged.

        A prefix without a scheme also matches the path part of a location that has one. If no prefix matches the
        location as written, its normal form is tried (`locations.normalize`). Raises `LocationRefused` for a location
        that the table must not reference.
        """
        if not self.relocate:
            self.allowed.check(location)
            return location
        path = split_location(location)[2]
        for old in sorted(self.relocate, key=len, reverse=True):
            for candidate in (location, path):
                if candidate == old or candidate.startswith(old + "/"):
                    moved = self.relocate[old] + candidate[len(old) :]
                    self.allowed.check_moved(moved, self.relocate[old])
                    return moved
        if (moved := self.places().apply_relocation(location)) == location:
            self.allowed.check(location)
        return moved

    def places(self, home: str | None = None) -> LocationMatcher:
        """Return a `LocationMatcher` for locations of a table; `home` is the table location in its metadata."""
        return LocationMatcher(self.relocate, home)

    def resolve(self, location: str) -> tuple[pafs.FileSystem, str]:
        """Return the filesystem of a location, connected if necessary, and the path in it.

        Raises `LocationRefused`, `StorageError` if the store cannot be reached, and `InvalidOption` for an unknown
        scheme.
        """
        scheme, authority, path = split_location(self.current_location(location))
        store = store_of(scheme)
        filesystem = self._connection(store, authority, location)
        if store == "file":
            return filesystem, os.path.abspath(path)
        bucket = authority.partition("@")[0] if store == "abfs" else authority
        return filesystem, (bucket + path) if _has_buckets(store) else path

    def _connection(self, scheme: str, authority: str, location: str) -> pafs.FileSystem:
        """Return the connection to the store of `scheme` and `authority`, for a location; raises `StorageError`.

        It is replaced when the location's credential changes.
        """
        credential = self._credential(location)
        key = scheme, authority, None if credential is None else credential.prefix
        connections = self._filesystems  # another thread may replace the attribute
        known = connections.get(key)
        if known is None or known[0] is not credential:
            with storage_boundary("reached", location):
                known = connections[key] = credential, self._connect(scheme, authority, credential, location)
        return known[1]

    def _connect(self, scheme: str, authority: str, credential: Credential | None, location: str) -> pafs.FileSystem:
        if scheme == "abfs" and (credential is None or not credential.prefix):
            self._check_account(authority, {} if credential is None else credential.properties)
        more = {} if credential is None else credential.properties
        if scheme == "file" or self.options or not (self.io_properties or more):
            return connect(scheme, authority, self._settings, location)
        signer = None if self.vended is None else self.vended.signer
        return connect_by_catalog(scheme, authority, self._with_issued(more), signer, location)

    def _check_account(self, authority: str, issued: Mapping[str, str]) -> None:
        """Raise `StorageError` if the secrets belong to another Azure account than that in `authority`.

        `issued` are the properties that the catalog vends. The first account that gets secrets stays the only one.
        """
        settings = self.settings if self.options else self._settings_with(issued)
        account = account_of(authority, settings.azure_account).lower()
        if self.azure_account is None:
            of_server = StorageOptions.parse({} if self.options else issued, ignore_unknown=True)
            named = (of_server if of_server.has_azure_secrets else settings).azure_owner()
            is_of_catalog = not self.allowed.is_named or bool(self.io_properties and not self.options)
            is_users = settings.has_azure_credentials(account) and not of_server.has_azure_secrets
            if named is None and is_of_catalog and is_users:
                raise StorageError(
                    f"{authority} is in the Azure account {account!r}, which a catalog has named, and your credentials "
                    "name no account: they were not sent. If they are for this account, also set "
                    f"'adls.account-name' to {account!r}, or AZURE_STORAGE_ACCOUNT_NAME for credentials in the "
                    "environment."
                )
            self.azure_account = named or account
        if settings.has_azure_credentials(account) and account != self.azure_account.lower():
            raise StorageError(
                f"{authority} is in the Azure account {account!r}, but the credentials are for "
                f"{self.azure_account!r} and are sent to no other. Open the table with credentials for {account!r}."
            )

    @contextmanager
    def open(self, location: str) -> Iterator[pa.NativeFile]:
        """Context manager: open a file for random access.

        Raises `MissingFile`, `LocationRefused`, and `StorageError` if it cannot be opened or is not a regular file.
        """
        filesystem, path = self.resolve(location)
        log_requests("open", [location])
        with storage_boundary("opened", location, self._missing_message(location, path)):
            if isinstance(filesystem, pafs.LocalFileSystem):
                check_regular(location, path)
            elif isinstance(filesystem, pafs.HadoopFileSystem):
                _check_exists(filesystem, path)
            file = filesystem.open_input_file(path)
            if isinstance(filesystem, pafs.PyFileSystem):
                file = pa.PythonFile(WholeFile(file, location), mode="r")
        try:
            yield file
        except BaseException:
            with suppress(Exception):
                file.close()
            raise
        with storage_boundary("closed", location):
            file.close()

    def local_path(self, location: str) -> str | None:
        """Return the path of a location in the local filesystem; None if it is in another store."""
        filesystem, path = self.resolve(location)
        return path if isinstance(filesystem, pafs.LocalFileSystem) else None

    def create(self, location: str) -> pa.NativeFile:
        """Open a file for writing, and create its parent folders; raises `StorageError`.

        An existing file is replaced.
        """
        filesystem, path = self.resolve(location)
        log_requests("write", [location])
        with storage_boundary("written", location):
            if isinstance(filesystem, pafs.LocalFileSystem):
                os.makedirs(os.path.dirname(path), exist_ok=True)
            return filesystem.open_output_stream(path)

    def make_folder(self, location: str) -> None:
        """Create a folder and its parents if they do not exist; raises `StorageError`."""
        filesystem, path = self.resolve(location)
        log_requests("create", [location])
        with storage_boundary("created", location):
            if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
                filesystem.create_dir(path, recursive=True)

    @contextmanager
    def writing(self, location: str) -> Iterator[pa.NativeFile]:
        """Context manager: open a file for writing, which is complete when the block ends; see `create`.

        All errors of the file, including those of closing it, are raised as `StorageError`; a `pa.ArrowException`
        passes through. The file may exist after an error.
        """
        with storage_boundary("written", location, passing=pa.ArrowException), self.create(location) as file:
            yield file

    def remove(self, locations: Sequence[str]) -> Sequence[str]:
        """Delete files, ignoring missing ones; return the locations that could not be deleted.

        Remote files are deleted by concurrent requests, on S3 by bulk requests.
        """
        log_requests("delete", locations)
        if len(locations) < 2 or split_location(self.current_location(locations[0]))[0] == "file":
            return [each for each in locations if not self._remove_file(each)]
        from lakescan.storage.bulk_removal import remove_by_signed_requests, remove_in_bulk

        if self.is_signed_remotely(locations[0]):
            places = [self.current_location(each) for each in locations]
            locations = remove_by_signed_requests(locations, places, self._signed_bucket)
        elif (settings := self._common_settings(locations)) is not None:
            locations = remove_in_bulk(locations, [self.current_location(each) for each in locations], settings)
        if not locations:
            return []
        for location in locations:
            with suppress(StorageError):
                self.resolve(location)  # connect before threads share the connections
        with ThreadPoolExecutor(min(_REQUESTS, len(locations))) as pool:
            done = pool.map(self._remove_file, locations)
            return [each for each, is_done in zip(locations, done, strict=True) if not is_done]

    def _common_settings(self, locations: Sequence[str]) -> StorageOptions | None:
        """Return the settings of a connection to all locations; None if they have different or missing credentials."""
        try:
            if len({id(self._credential(each)) for each in locations}) > 1:
                return None
            return self.settings_at(locations[0])
        except StorageError:  # deleting the files one by one finds the location
            return None

    def _remove_file(self, location: str) -> bool:
        """Delete a file; return False if that failed, True also if it does not exist."""
        try:
            filesystem, path = self.resolve(location)
            with storage_boundary("deleted", location, missing=""):
                filesystem.delete_file(path)
        except MissingFile:
            return True
        except StorageError:
            return False
        return True

    def read(self, location: str, offset: int = 0, length: int | None = None, *, size: int | None = None) -> bytes:
        """Read a whole file, or `length` bytes from `offset`.

        `size` is the file's size in bytes from a listing, if known. Raises `MissingFile`, `StorageError` for a short
        read or a size other than listed, `CorruptMetadata` for a range outside the file, and `LimitExceeded` for more
        than `limits.WHOLE_FILE` bytes.
        """
        if offset == 0 and length is None and (data := self.read_in_one_request(location, size)) is not None:
            _check_listed(location, len(data), size)
            return data
        with self.open(location) as file, storage_boundary("read", location):
            actual = int(file.size())
            _check_listed(location, actual, size)
            if offset < 0 or offset > actual or (length is not None and not 0 <= length <= actual - offset):
                raise CorruptMetadata(
                    f"{redact(location)} has {actual:,} bytes, but the metadata references {length} bytes from byte "
                    f"{offset}: it was truncated, or the metadata is damaged. Restore the file."
                )
            wanted = actual - offset if length is None else length
            if wanted > limits.WHOLE_FILE:
                raise LimitExceeded(
                    f"{redact(location)}: {wanted:,} bytes are to be read at once, and the limit is "
                    f"{limits.WHOLE_FILE:,}. If the size is legitimate, raise lakescan.limits.WHOLE_FILE."
                )
            if offset:
                file.seek(offset)
            return read_whole(file, location, wanted)

    def read_in_one_request(self, location: str, size: int | None = None, *, most: int = _MOST_AT_ONCE) -> bytes | None:
        """Read a whole file by one request, which returns content and size; only for some files in S3.

        Returns None if Arrow's client must read the file, or it has more than `most` bytes. `size` is the file's size
        if known. Raises `MissingFile`, `StorageError`.
        """
        if not self.is_remote(location) or (size or 0) > most:
            return None
        from lakescan.storage.s3_requests import ReadFailure  # only imported for remote files

        if (found := self._single_requests(location)) is None:
            return None
        bucket, key = found
        log_requests("read", [location])
        try:
            with storage_boundary(
                "read", location, self._missing_message(location, self.current_location(location)), passing=ReadFailure
            ):
                return bucket.whole(key, min(most, limits.WHOLE_FILE))
        except ReadFailure:
            return None

    def is_remote(self, location: str) -> bool:
        """Return whether a location is not in the local filesystem, so that each request takes a round trip."""
        return split_location(self.current_location(location))[0] != "file"

    def read_all(self, locations: Sequence[str], sizes: Sequence[int | None] | None = None) -> Sequence[bytes]:
        """Read several whole files; see `read`. `sizes` are their sizes from a listing, None where unknown.

        Remote files are read concurrently.
        """
        known: Sequence[int | None] = sizes if sizes is not None else [None] * len(locations)

        def one(location: str, size: int | None) -> bytes:
            return self.read(location) if size is None else self.read(location, size=size)

        if len(locations) < 2 or not self.is_remote(locations[0]):
            return list(map(one, locations, known))
        with ThreadPoolExecutor(min(self.requests_at_once(locations[0]), len(locations))) as pool:
            return list(pool.map(one, locations, known))

    def requests_at_once(self, location: str) -> int:
        """Return how many concurrent requests to send to the store of a location: 128 or 64."""
        from lakescan.storage.s3_requests import MOST_AT_ONCE

        return _REQUESTS if self._single_requests(location) is None else MOST_AT_ONCE

    def _single_requests(self, location: str) -> tuple[SingleRequests | SignedRequests, str] | None:
        """Return the client and key of an S3 file that can be read by one request; None if Arrow's client reads it."""
        from lakescan.storage.s3_requests import single_requests

        place = self.current_location(location)
        if store_of(split_location(place)[0]) != "s3":
            return None
        return single_requests(place, self.settings_at(location), self._signed_bucket(location))

    def names_after(self, folder: str, after: str) -> Iterator[Sequence[FileEntry]] | None:
        """List the files under a folder whose names come after `after`, page by page in the order of names.

        Files in subfolders are included, and names are relative to the folder. Returns None if the store cannot start a
        listing at a name, as everywhere except in S3. Raises `StorageError`.
        """
        if not self.is_remote(folder):
            return None
        if (found := self._single_requests(folder)) is not None:
            log_requests("list", [folder])
        return None if found is None else _pages(folder, found[0].names_after(found[1], after))

    def exists(self, location: str) -> bool:
        """Return whether a file or folder exists; raises `StorageError` if that cannot be looked up."""
        filesystem, path = self.resolve(location)
        log_requests("look up", [location])
        with storage_boundary("looked up", location):
            return bool(filesystem.get_file_info(path).type != pafs.FileType.NotFound)

    def check_bucket(self, location: str) -> None:
        """Raise `StorageError` if the bucket or container of a location does not exist.

        Does nothing for stores without buckets.
        """
        scheme, authority, _ = split_location(self.current_location(location))
        if not _has_buckets(store_of(scheme)):
            return
        filesystem, path = self.resolve(location)
        log_requests("look up", [location])
        with storage_boundary("looked up", location):
            bucket = filesystem.get_file_info(path.partition("/")[0])
        if bucket.type == pafs.FileType.NotFound:
            raise StorageError(
                f"{redact(location)} cannot be found: the bucket {authority!r} does not exist. Check its name, the "
                "endpoint, the region and the account."
            )

    def look_up(self, locations: Sequence[str]) -> list[FileEntry | None]:
        """Look up files of one filesystem by location; None for those that do not exist. Raises `StorageError`.

        Pipes and folders are also returned: reading one is an error, but the file is not missing.
        """
        if not locations:
            return []
        filesystem = self.resolve(locations[0])[0]
        paths = [self.resolve(each)[1] for each in locations]
        log_requests("look up", locations)
        with storage_boundary("looked up", locations[0]):
            if len(paths) < 2 or isinstance(filesystem, pafs.LocalFileSystem):
                infos = filesystem.get_file_info(paths)
            else:  # Arrow would look them up sequentially
                with ThreadPoolExecutor(min(_REQUESTS, len(paths))) as pool:
                    infos = list(pool.map(filesystem.get_file_info, paths))
        return [
            None if info.type == pafs.FileType.NotFound else _entry(info, location)
            for location, info in zip(locations, infos, strict=True)
        ]

    def sizes(self, locations: Sequence[str]) -> np.ndarray:
        """Return the current sizes of files of one filesystem, in bytes; raises `MissingFile`."""
        entries = self.look_up(locations)
        if missing := [location for location, entry in zip(locations, entries, strict=True) if entry is None]:
            raise MissingFile(
                f"{self.current_location(missing[0])} is listed in the table's metadata but does not exist"
            )
        return np.array([entry.size for entry in entries if entry is not None], dtype=np.int64)

    def list(self, folder: str, is_wanted: Callable[[str], bool] | None = None) -> Iterator[FileEntry]:
        """List the files directly in a folder, sorted by name; nothing if the folder does not exist.

        `is_wanted` selects files by name; other local files are not accessed. Entries with a dot in their name that are
        not files (a pipe, a folder `x.json`) are included: reading them fails, whereas omitting them would silently
        omit data.
        """
        infos = self._list_infos(folder, recursive=False) if is_wanted is None else self._list_names(folder, is_wanted)
        for info in sorted(infos, key=lambda i: i.base_name):
            if info.type == pafs.FileType.File or "." in info.base_name[1:]:
                yield _entry(info, join(folder, info.base_name))

    def walk(self, folder: str) -> Iterator[FileEntry]:
        """List the files under a folder and its subfolders, in any order; nothing if the folder does not exist."""
        path = self.resolve(folder)[1]
        for info in self._list_infos(folder, recursive=True):
            if info.type == pafs.FileType.File:
                yield _entry(info, join(folder, info.path[len(path) :].lstrip("/")))

    def files_at(self, location: str) -> Sequence[FileEntry]:
        """Return the file at this location, or the files under this folder; empty if it does not exist."""
        filesystem, path = self.resolve(location)
        log_requests("look up", [location])
        with storage_boundary("looked up", location):
            (info,) = filesystem.get_file_info([path])
        return [_entry(info, location)] if info.type == pafs.FileType.File else [*self.walk(location)]

    def find(self, folder: str, part: str) -> Sequence[str]:
        """Return the locations of the files under a folder whose names contain `part`. Lists the whole folder tree."""
        return [entry.location for entry in self.walk(folder) if part in entry.name]

    def entries(self, folder: str) -> tuple[Sequence[FileEntry], Sequence[str]]:
        """Return the files directly in a folder, and the locations of its subfolders; both empty if it does not exist.

        In Google's storage, this lists everything below the folder; see `lists_folders`.
        """
        if not self.lists_folders(folder):
            return self._entries_below(folder)
        files, folders = [], []
        for info in self._list_infos(folder, recursive=False):
            location = join(folder, info.base_name)
            if info.type == pafs.FileType.File:
                files.append(_entry(info, location))
            elif info.type == pafs.FileType.Directory:
                folders.append(location)
        return files, folders

    def lists_folders(self, location: str) -> bool:
        """Return whether Arrow's listing of a folder includes its subfolders: False in Google's storage.

        There, Arrow only returns folders that have an object of their own, which few writers create.
        """
        return not isinstance(self.resolve(location)[0], pafs.GcsFileSystem)

    def _entries_below(self, folder: str) -> tuple[Sequence[FileEntry], Sequence[str]]:
        files, folders, start = [], dict[str, None](), len(folder.rstrip("/")) + 1
        for each in self.walk(folder):
            name, slash, _ = each.location[start:].partition("/")
            if slash:
                folders[join(folder, name)] = None
            else:
                files.append(each)
        return files, [*folders]

    def folders(self, folder: str) -> Sequence[str]:
        """Return the locations of a folder's subfolders; empty if it does not exist.

        Local subfolders that are symlinks are left out.
        """
        filesystem, path = self.resolve(folder)
        if not isinstance(filesystem, pafs.LocalFileSystem):
            return self.entries(folder)[1]
        log_requests("list", [folder])
        with (
            storage_boundary("listed", folder),
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(path) as all_,
        ):
            # only folders are kept in memory
            return [join(folder, each.name) for each in all_ if each.is_dir(follow_symlinks=False)]
        return []

    def _list_names(self, folder: str, is_wanted: Callable[[str], bool]) -> Sequence[pafs.FileInfo]:
        filesystem, path = self.resolve(folder)
        if isinstance(filesystem, pafs.LocalFileSystem):
            log_requests("list", [folder])
            with storage_boundary("listed", folder), suppress(FileNotFoundError, NotADirectoryError):
                names = [name for name in os.listdir(path) if is_wanted(name)]
                infos = filesystem.get_file_info([os.path.join(path, name) for name in names])
                return [info for info in infos if info.type != pafs.FileType.NotFound]
        return [info for info in self._list_infos(folder, recursive=False) if is_wanted(info.base_name)]

    def _list_infos(self, folder: str, *, recursive: bool) -> Sequence[pafs.FileInfo]:
        filesystem, path = self.resolve(folder)
        log_requests("list", [folder])
        with storage_boundary("listed", folder):
            infos: Sequence[pafs.FileInfo] = filesystem.get_file_info(
                pafs.FileSelector(path, allow_not_found=True, recursive=recursive)
            )
            return infos

    def _missing_message(self, location: str, path: str) -> str:
        moved = f" (looked up at {redact(path)})" if path != location else ""
        return (
            f"{redact(location)}{moved} is listed in the table's metadata but is not in storage: it was removed "
            "(vacuum, expired snapshots), or the table was moved, in which case pass relocate={old_prefix: new_prefix}"
        )


def _has_buckets(store: str) -> bool:
    return store in CLIENTS and CLIENTS[store].has_buckets


def _check_exists(filesystem: pafs.FileSystem, path: str) -> None:
    """Raise `FileNotFoundError` for a missing file, before Hadoop's client prints a long message to stderr."""
    if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
        raise FileNotFoundError(path)


def _check_listed(location: str, actual: int, size: int | None) -> None:
    """Raise `StorageError` if a file's actual size differs from the listed `size`. None (unknown) passes."""
    if size is not None and actual != size:
        raise StorageError(
            f"{redact(location)} has {actual:,} bytes, but was listed with {size:,}: it was overwritten, or "
            "storage is not yet consistent. Try again."
        )


def _pages(folder: str, pages: Iterator[list[ListedName]]) -> Iterator[Sequence[FileEntry]]:
    with storage_boundary("listed", folder):
        for page in pages:
            yield [FileEntry(each.name, join(folder, each.name), each.size, each.modified) for each in page]


def _entry(info: pafs.FileInfo, location: str) -> FileEntry:
    return FileEntry(info.base_name, location, info.size or 0, info.mtime)
