"""Atomic creation of a file if it does not exist: a commit to a Delta log, or to an Iceberg table in a folder.

Local files use a hard link; S3, GCS and Azure a conditional put (obstore); HDFS Hadoop's rename, which never replaces
a file. A store without atomic creation is refused by name, since concurrent writers would replace each other's commits.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.errors import LakescanError, StorageError, UnsupportedFeature, missing_dependency
from lakescan.storage import hdfs
from lakescan.storage.clients import CLIENTS
from lakescan.storage.errors import log_requests, storage_boundary, storage_error
from lakescan.storage.files import Storage, join
from lakescan.storage.locations import split_location, store_of
from lakescan.storage.object_clients import client_config, is_forked, may_mean_another_store, object_store
from lakescan.storage.settings import StorageOptions
from lakescan.storage.settings.azure_endpoints import account_of

# Errors of `os.link` on filesystems without hard links. Linux raises EPERM for FAT and some mounts.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_REFUSALS = ("PermissionDeniedError", "UnauthenticatedError")  # errors of object stores that created nothing
# Details of obstore's errors before a request is sent: no connection, or no credentials.
_UNSENT = re.compile(
    r"HttpError \{\s*kind: Connect,|source: TokenRequest \{|path: \"External AWS credential provider\""
)
_REQUESTED = re.compile(r"uri: Some\(\s*([^\s?]+?)(?:\?\S*)?,?\s*\)")


class NotCreated(StorageError):
    """The file provably was not created: no request was sent to the store, or the store refused it."""


class NotSent(NotCreated):
    """No request was sent to the store: no connection, no credentials, or settings that no client accepts."""


class NotReady(NotSent):
    """The store did not respond to a test of conditional puts, and may do so later. The file was not sent."""


def put_if_absent(storage: Storage, location: str, data: bytes) -> bool:
    """Create a file with this content, and its folder if needed; return False if the file exists already.

    Readers see the whole file or none. One request is sent. If its response was lost, False does not prove that another
    writer created the file: compare its content. Raises `UnsupportedFeature` for a store without atomic creation,
    `NotCreated`, `NotSent`, and other `StorageError`s, after which the file may or may not exist.

    Example:
        >>> put_if_absent(Storage(), "/lake/orders/_delta_log/00000000000000000007.json", b"{}")
        True
    """
    log_requests("create", [location])
    scheme, authority, _ = split_location(storage.current_location(location))
    scheme = store_of(scheme)
    if scheme in CLIENTS and CLIENTS[scheme].obstore_scheme is not None:
        return _put(storage, location, data, scheme, authority)
    with _before_sending(location):
        filesystem, path = storage.resolve(location)
    with storage_boundary("created", location, passing=UnsupportedFeature):
        if isinstance(filesystem, pafs.LocalFileSystem):
            return _link(location, path, data)
        return _rename(storage, location, filesystem, authority, path, data)


@contextmanager
def _before_sending(location: str) -> Iterator[None]:
    """Context manager for steps before the request that creates the file: re-raise errors as `NotSent`.

    lakescan errors that are not storage errors pass through.
    """
    try:
        yield
    except NotSent:
        raise
    except StorageError as error:
        raise NotSent(str(error)) from error
    except (LakescanError, MemoryError):
        raise
    except Exception as error:  # clients raise arbitrary types
        raise NotSent(str(storage_error("created", location, error))) from error


def _link(location: str, path: str, data: bytes) -> bool:
    """Write a hidden file next to the new one, and hard-link it to the new name; False if the name is taken.

    Raises `NotCreated`, and `UnsupportedFeature` for a filesystem without hard links.
    """
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        _write(location, draft, data)
        if os.name == "nt":
            os.rename(draft, path)  # fails on Windows if the name is taken
        else:
            os.link(draft, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise UnsupportedFeature(
            f"committing to {location}",
            f"Its filesystem has no hard links ({error.strerror}), so concurrent commits could replace each other. "
            "Move the table to a local disk or to an object store.",
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(draft)
    return True


def _write(location: str, draft: str, data: bytes) -> None:
    """Create a file durably, so that it survives a power failure after it gets its name; raises `NotCreated`."""
    try:
        os.makedirs(os.path.dirname(draft), exist_ok=True)
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NotCreated(str(storage_error("created", location, error))) from error


def _rename(
    storage: Storage, location: str, filesystem: pafs.FileSystem, authority: str, path: str, data: bytes
) -> bool:
    """Write a hidden file next to the new one in HDFS, and rename it; False if the name is taken.

    Raises `NotSent`, and `OSError` if Hadoop refuses the rename for another reason.
    """
    folder, _, name = path.rpartition("/")
    draft = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
    with _before_sending(location):
        filesystem.create_dir(folder, recursive=True)
    try:
        with _before_sending(location), filesystem.open_output_stream(draft) as file:
            file.write(data)
        if hdfs.rename_file(authority, storage.settings, draft, path):
            return True
        if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            raise OSError(errno.EIO, f"HDFS has not renamed {draft}: see the reason on the standard error")
        return False
    finally:
        with suppress(OSError):
            if filesystem.get_file_info(draft).type != pafs.FileType.NotFound:
                filesystem.delete_file(draft)


def _put(storage: Storage, location: str, data: bytes, scheme: str, authority: str) -> bool:
    try:
        import obstore
    except ImportError as error:
        raise missing_dependency("obstore", "delta", f"committing to {scheme}:// locations") from error
    if storage.is_signed_remotely(location):
        raise UnsupportedFeature(
            f"committing to a table in {scheme}://{authority} by requests that its catalog signs",
            "Signed requests only work for Iceberg tables.",
        )
    options, root = storage.settings_at(location), f"{CLIENTS[scheme].obstore_scheme}://{authority}"
    endpoint = options.endpoint(scheme)
    if scheme == "abfs" and endpoint is not None and not _is_of_blobs(options, authority):
        raise UnsupportedFeature(
            f"committing to {location} at the endpoint {endpoint}",
            "Conditional puts are sent to the account's blobs: set adls.blob-storage-authority, too.",
        )
    locking = storage.all_options_at(location).values.get(("s3", "aws_s3_locking_provider"))
    if locking or os.environ.get("AWS_S3_LOCKING_PROVIDER"):
        raise UnsupportedFeature(
            f"committing to {location} with a locking provider",
            "lakescan commits by conditional puts, which writers with a lock table would overwrite: configure all "
            "writers of the table for conditional puts, and unset aws_s3_locking_provider.",
        )
    if scheme == "s3" and may_mean_another_store(options):
        raise UnsupportedFeature(
            f"committing to {location} with an endpoint in the environment that reading does not use",
            "Unset AWS_ENDPOINT, AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_S3, or set s3.endpoint to one for both.",
        )
    if is_forked():
        raise UnsupportedFeature(
            f"committing to {location} in a forked process whose parent has sent requests with obstore",
            "Its threads do not survive a fork. Start processes by spawn or forkserver, or fork before reading.",
        )
    path = split_location(storage.current_location(location))[2].lstrip("/")
    with _before_sending(location):
        store = object_store(root, client_config(options, root))
        if endpoint is not None:
            try:
                _probe(store, root, endpoint, path.rpartition("/")[0])
            except (LakescanError, MemoryError):
                raise
            except Exception as error:  # clients raise arbitrary types
                raise NotReady(str(storage_error("created", location, error))) from error
    with storage_boundary("created", location, passing=UnsupportedFeature):
        return _create_object(obstore, store, root, path, data)


def _is_of_blobs(options: StorageOptions, authority: str) -> bool:
    return options.azure_endpoint(account_of(authority, options.azure_account)) is not None


def _create_object(obstore: Any, store: Any, root: str, path: str, data: bytes) -> bool:
    try:
        obstore.put(store, path, data, mode="create")
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        return False
    except (obstore.exceptions.NotSupportedError, NotImplementedError) as error:
        raise _refusal(root) from error
    except Exception as error:
        kind = NotSent if _is_unsent(error, path) else NotCreated
        if kind is NotSent or isinstance(error, FileNotFoundError) or type(error).__name__ in _REFUSALS:
            raise kind(str(storage_error("created", f"{root}/{path}", error))) from error
        raise
    return True


def _is_unsent(error: Exception, path: str) -> bool:
    """Return whether obstore's `error` proves that it did not send the request for the file at `path`.

    It failed before, or the failed request was one for credentials. Only the details at the end of the message are
    searched, since the text before them contains the server's own words.
    """
    _, separator, details = str(error).rpartition("\nDebug source:\n")
    if not separator:
        return False
    if _UNSENT.search(details):
        return True
    requested = _REQUESTED.search(details)
    return requested is not None and not unquote(requested[1]).endswith(path.rpartition("/")[2])


_PROBED: set[tuple[str, str]] = set()


def _probe(store: Any, root: str, endpoint: str, folder: str) -> None:
    """Check once that an endpoint other than AWS refuses to create a file twice: some ignore the condition.

    Creates and deletes a hidden file in `folder`. Raises `UnsupportedFeature` if the endpoint replaced it.
    """
    import obstore

    if (endpoint, root) in _PROBED:
        return
    path = join(folder, f".lakescan-probe-{uuid.uuid4().hex}")
    try:
        first = _create_object(obstore, store, root, path, b"a")
        again = _create_object(obstore, store, root, path, b"b")
    finally:
        with suppress(Exception):
            obstore.delete(store, path)
    if not first or again:
        raise _refusal(root)
    _PROBED.add((endpoint, root))


def _refusal(root: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"committing to a table in {root}",
        "The store does not refuse to create a file that exists (conditional puts are missing or disabled), so "
        "concurrent commits could replace each other. Use a store or version with conditional puts.",
    )


_WITH_RENAMES = ("local", "hdfs")  # file systems with visible unfinished files, and atomic renames


@contextmanager
def replace_file(storage: Storage, location: str) -> Iterator[pa.NativeFile]:
    """Context manager: yield a stream whose content replaces the file at `location` when the block ends.

    The content is first written to a hidden file next to it, because closing an interrupted upload would publish its
    beginning. If the body raises, `location` is unchanged. Raises `StorageError`.
    """
    folder, _, name = location.rpartition("/")
    hidden = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
    try:
        with storage.writing(hidden) as stream:
            yield stream
        _move(storage, hidden, location)
    except BaseException:
        with suppress(Exception):
            storage.remove([hidden])
        raise


def publish(storage: Storage, location: str, content: bytes) -> None:
    """Write a small file, replacing an existing one, so that readers see the old or the new content.

    Raises `StorageError`.
    """
    if storage.resolve(location)[0].type_name in _WITH_RENAMES:
        with replace_file(storage, location) as stream:
            stream.write(content)
        return
    with storage_boundary("written", location), storage.create(location) as stream:
        stream.write(content)  # an object appears only when the stream is closed


def _move(storage: Storage, source: str, target: str) -> None:
    filesystem, old = storage.resolve(source)
    new = storage.resolve(target)[1]
    with storage_boundary("published", target):
        if filesystem.type_name == "hdfs":
            storage.remove([target])  # HDFS renames do not replace files
        elif filesystem.type_name == "local":
            folder, _, name = target.rpartition("/")
            storage.remove([f"{folder}/.{name}.crc"])  # Hadoop's checksum of the replaced file
        if filesystem.type_name in _WITH_RENAMES:
            filesystem.move(old, new)
            return
        filesystem.copy_file(old, new)
        filesystem.delete_file(old)
