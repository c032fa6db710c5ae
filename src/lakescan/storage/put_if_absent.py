"""Create a file only if it does not exist yet, atomically: what a commit to a Delta log needs (protocol, "Delta Log").

Locally by a hard link; on S3, GCS and Azure by a conditional put (obstore); on HDFS by its rename, which never replaces
a file. A store that cannot do it is refused by name: two writers would replace each other's commits there.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from pyarrow import fs as pafs

from lakescan.errors import StorageError, UnsupportedFeature, missing_dependency
from lakescan.storage import Storage, join
from lakescan.storage.faults import storage_boundary, storage_error
from lakescan.storage.locations import ALIASES, split_location
from lakescan.storage.options import StorageOptions

# Errors of `os.link` that say that the filesystem has no hard links. EPERM is Linux's for FAT, and for some mounts.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
_CLIENT = {"timeout", "connect_timeout", "proxy_url", "allow_invalid_certificates"}
_RETRIES = {"max_retries", "retry_timeout"}
_OF_DELTALAKE = {"aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "delta_dynamo_table_name"}
_REFUSALS = ("PermissionDeniedError", "UnauthenticatedError")  # of object stores: nothing was made
_SCHEMES = {"s3": "s3", "gcs": "gs", "abfs": "abfss"}


class NotCreated(StorageError):
    """A file that was to be created provably does not exist: nothing was sent to the store, or it refused."""


def put_if_absent(storage: Storage, location: str, data: bytes) -> bool:
    """Create a file with this content, and its folder if needed; return False if it exists already.

    Readers see the whole file or none. One request is sent. After one whose answer was lost, False does not prove that
    somebody else created the file: compare its content. Raises `UnsupportedFeature` for a store without atomic
    creation, `NotCreated`, and other `StorageError`s, after which the file may or may not exist.

    Example:
        >>> put_if_absent(Storage(), "/lake/orders/_delta_log/00000000000000000007.json", b"{}")
        True
    """
    scheme, authority, _ = split_location(storage.relocated(location))
    scheme = ALIASES.get(scheme, scheme)
    if scheme in _SCHEMES:
        return _put(storage, location, data, scheme, authority)
    filesystem, path = storage.resolve(location)
    with storage_boundary("created", location):
        if isinstance(filesystem, pafs.LocalFileSystem):
            return _link(location, path, data)
        return _rename(filesystem, path, data)


def _link(location: str, path: str, data: bytes) -> bool:
    """Write a hidden file beside the new one, and give it the second name, which fails if it is taken."""
    folder, name = os.path.split(path)
    draft = os.path.join(folder, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        _write(location, draft, data)
        if os.name == "nt":
            os.rename(draft, path)  # on Windows it fails if the name is taken
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
    """Write a file, so that it survives a power failure once it has its name."""
    try:
        os.makedirs(os.path.dirname(draft), exist_ok=True)
        with open(draft, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise NotCreated(str(storage_error("created", location, error))) from error


def _rename(filesystem: pafs.FileSystem, path: str, data: bytes) -> bool:
    """HDFS refuses to rename a file to a name that is taken."""
    folder, _, name = path.rpartition("/")
    filesystem.create_dir(folder, recursive=True)
    draft = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
    with filesystem.open_output_stream(draft) as file:
        file.write(data)
    try:
        filesystem.move(draft, path)
    except OSError:
        if filesystem.get_file_info(path).type == pafs.FileType.NotFound:
            raise
        with suppress(OSError):
            filesystem.delete_file(draft)
        return False
    return True


def _put(storage: Storage, location: str, data: bytes, scheme: str, authority: str) -> bool:
    try:
        import obstore
    except ImportError as error:
        raise missing_dependency("obstore", "delta", f"committing to {scheme}:// locations") from error
    options = storage.all_options
    settings = options.delta_rs()
    if (endpoint := options.endpoint(scheme)) is not None and scheme != "s3":
        raise UnsupportedFeature(
            f"committing to {location} at the endpoint {endpoint}",
            f"Conditional puts to {_SCHEMES[scheme]}:// locations go to the cloud's own endpoint alone.",
        )
    if settings.pop("aws_s3_locking_provider", None) or os.environ.get("AWS_S3_LOCKING_PROVIDER"):
        raise UnsupportedFeature(
            f"committing to {location} with a locking provider",
            "lakescan commits by conditional puts, which writers with a lock table would overwrite: change all "
            "writers of the table to conditional puts, and unset aws_s3_locking_provider.",
        )
    root = f"{_SCHEMES[scheme]}://{authority}"
    with storage_boundary("created", location, passing=UnsupportedFeature):
        store = object_store(root, tuple(sorted(settings.items())))
        path = split_location(storage.relocated(location))[2].lstrip("/")
        if endpoint is not None:
            _probe(store, root, endpoint, path.rpartition("/")[0])
        return _created(obstore, store, root, path, data)


def _created(obstore: Any, store: Any, root: str, path: str, data: bytes) -> bool:
    try:
        obstore.put(store, path, data, mode="create")
    except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
        return False
    except (obstore.exceptions.NotSupportedError, NotImplementedError) as error:
        raise _refused(root) from error
    except Exception as error:
        if isinstance(error, FileNotFoundError) or type(error).__name__ in _REFUSALS:
            raise NotCreated(str(storage_error("created", f"{root}/{path}", error))) from error
        raise
    return True


@lru_cache(maxsize=32)
def object_store(root: str, settings: tuple[tuple[str, str], ...], *, retries: int | None = 0) -> Any:
    """Obstore's client of a bucket or container (`s3://bucket`); None: it repeats requests as often as it likes."""
    from obstore.store import from_url

    known = {name: value for name, value in settings if name not in _OF_DELTALAKE}
    client: dict[str, Any] = {name: known.pop(name) for name in _CLIENT & known.keys()}
    if known.pop("aws_allow_http", "false") == "true":
        client["allow_http"] = True
    if profile := known.pop("aws_profile", None):
        known |= {f"aws_{name}": value for name, value in _of_profile(profile).items()}
    known = {name: value for name, value in known.items() if name not in _RETRIES}
    arguments: dict[str, Any] = {"config": known}
    if retries is not None:
        arguments["retry_config"] = {"max_retries": retries}
    if client:
        arguments["client_options"] = client
    if root.startswith("s3") and (provider := _aws_credentials(known)) is not None:
        arguments["credential_provider"] = provider
    return from_url(root, **arguments)


def _of_profile(name: str) -> dict[str, str]:
    arguments = StorageOptions.of({"profile": name}).s3({})
    names = {"access_key": "access_key_id", "secret_key": "secret_access_key"}
    return {names.get(key, key): str(value) for key, value in arguments.items()}


def _aws_credentials(settings: Mapping[str, str]) -> Any:
    """boto3's credentials, where it is installed and neither settings nor the environment have keys.

    obstore itself knows keys, web identities and the metadata services of AWS, but not AWS's configuration files.
    """
    is_known = {"aws_access_key_id", "aws_skip_signature", "aws_iam_role_arn"} & settings.keys()
    if is_known or os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    try:
        import boto3  # type: ignore[import-untyped]
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return None
    session = boto3.Session()
    return None if session.get_credentials() is None else Boto3CredentialProvider(session)


_PROBED: set[tuple[str, str]] = set()


def _probe(store: Any, root: str, endpoint: str, folder: str) -> None:
    """Check once that an endpoint which is not AWS's own refuses to create a file twice; some ignore the condition."""
    import obstore

    if (endpoint, root) in _PROBED:
        return
    path = join(folder, f".lakescan-probe-{uuid.uuid4().hex}")
    try:
        first = _created(obstore, store, root, path, b"a")
        again = _created(obstore, store, root, path, b"b")
    finally:
        with suppress(Exception):
            obstore.delete(store, path)
    if not first or again:
        raise _refused(root)
    _PROBED.add((endpoint, root))


def _refused(root: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"committing to a Delta table in {root}",
        "The store does not refuse to create a file that exists (no conditional puts, or they are disabled), so "
        "concurrent commits could replace each other. Use a store or a version of it that has conditional puts.",
    )
