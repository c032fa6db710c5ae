"""The storage boundary: errors of filesystems become `StorageError`s, with the location and advice.

A storage error does not prove that a file is damaged. So it is never reported as damage, nor damage as a storage error.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lakescan.common.secrets import hide_error_secrets, hide_secrets
from lakescan.errors import LakescanError, MissingFile, StorageError
from lakescan.storage.locations import split_location, store_of

_REQUESTS = logging.getLogger("lakescan.requests")
_MOST_WORDS = 400  # maximum characters quoted from a filesystem's message
# Secrets that users put into locations: `//name:password@host`, and values in the query of a signed URL.
_PASSWORD = re.compile(r"((?:^|//|[\s'\"])[^/@:\s'\"]+:)[^/@\s]+@")
_SIGNATURE = re.compile(r"([?&](?:sig|token|password|X-Amz-(?:Signature|Credential|Security-Token))=)[^&\s/'\"]+", re.I)
_MOST_LOCATION = 300  # maximum characters of a location in a message
# Messages of object store clients, for which Arrow sets no errno, and of ORC when Arrow's file raised the error.
_CLIENT = re.compile(r"AWS Error|google::cloud::Status|Azure Error|RequestFailedException|HDFS .* failed|Arrow error: ")
# The errnos that Arrow raises for an invalid offset read from a damaged file: damage, not a storage error.
_OF_CONTENT = {errno.EINVAL, errno.EOVERFLOW}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def log_requests(verb: str, locations: Sequence[str]) -> None:
    """Log a request per location as DEBUG lines of `lakescan.requests`: a verb such as "open", and the location."""
    if _REQUESTS.isEnabledFor(logging.DEBUG):
        for location in locations:
            _REQUESTS.debug("%s %s", verb, redact(location))


@contextmanager
def storage_boundary(
    done: str, location: str, missing: str | None = None, *, passing: type[Exception] = LakescanError
) -> Iterator[None]:
    """Context manager: re-raise a filesystem's errors as `StorageError`; lakescan errors pass through.

    The message is that `location` cannot be `done` (read, listed, ...). With `missing`, a file that does not exist
    raises `MissingFile` with that text. Errors of the type `passing` do not come from storage, and are re-raised
    unchanged.
    """
    try:
        yield
    except (LakescanError, MemoryError, passing):
        raise
    except FileNotFoundError as error:
        if missing is None:
            raise storage_error(done, location, error) from error
        raise MissingFile(missing) from error
    except Exception as error:  # object store clients raise arbitrary types
        raise storage_error(done, location, error) from error


def storage_error(done: str, location: str, error: BaseException) -> StorageError:
    """Return the error for a location that cannot be `done` ("read", ...), with the filesystem's message and advice."""
    hide_error_secrets(error)
    return StorageError(f"{redact(location)} cannot be {done}: {error_text(error)}. {advice(error, location)}")


def is_storage_fault(error: BaseException) -> bool:
    """Return whether an error that Arrow raised while decoding a file came from storage, not from its content.

    False if that is unclear.
    """
    if isinstance(error, StorageError | ConnectionError | TimeoutError | PermissionError):
        return True
    number = error.errno if isinstance(error, OSError) else None
    return (number is not None and number not in _OF_CONTENT) or _CLIENT.search(str(error)) is not None


def check_regular(location: str, path: str) -> None:
    """Raise `StorageError` unless the local `path` is a regular file, `FileNotFoundError` if it does not exist.

    `location` is for the message. Opening a pipe would block until it has a writer, and a device has no end.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "not a file")
        raise StorageError(f"{redact(location)} is {kind}, not a file. Restore the file, or correct its path.")


def redact(location: str) -> str:
    """Prepare a location for a message: truncate it if long, escape unprintable characters, and mask secrets."""
    text = _mask_secrets(location if location and location.isprintable() else repr(location))
    return text if len(text) <= _MOST_LOCATION else f"{text[:_MOST_LOCATION]}... ({len(location):,} characters)"


def _mask_secrets(text: str) -> str:
    """Mask passwords and signatures in locations within a text by `***`."""
    return _SIGNATURE.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))


def error_text(error: BaseException) -> str:
    """Return an error's message on one line, with secrets masked, truncated if long; its type if it is empty."""
    message = _COLOURS.sub("", str(error)).partition(" Detail: Python exception")[0]
    text = hide_secrets(_mask_secrets(" ".join(message.split()))) or type(error).__name__
    return (text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}...").rstrip(".")


class WholeFile:
    """A read-only file of a Python filesystem whose reads return all requested bytes, or raise `StorageError`.

    Arrow treats a short read as the end of the file. Its own filesystems complete short reads themselves.
    """

    closed: bool = False

    def __init__(self, file: pa.NativeFile, location: str) -> None:
        self._file, self._location = file, location
        with storage_boundary("read", location):
            self._size = int(file.size())

    def read(self, length: int = -1) -> bytes:
        """Read the next `length` bytes, or all remaining ones."""
        with storage_boundary("read", self._location):
            left = max(0, self._size - int(self._file.tell()))
            return read_whole(self._file, self._location, left if length < 0 else min(length, left))

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position and return it."""
        with storage_boundary("read", self._location):
            return int(self._file.seek(position, whence))

    def tell(self) -> int:
        """Return the current position."""
        with storage_boundary("read", self._location):
            return int(self._file.tell())

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        with storage_boundary("closed", self._location):
            self._file.close()


def read_whole(file: pa.NativeFile, location: str, length: int) -> bytes:
    """Read the next `length` bytes, which the file must have; raises `StorageError` on a short read.

    `location` is for the message.
    """
    data: bytes = file.read(length)
    while len(data) < length:
        more = file.read(length - len(data))
        if not more:
            raise StorageError(
                f"{redact(location)}: storage returned {len(data):,} of {length:,} bytes that the file should have. "
                "Try again, and check the storage if the error persists."
            )
        data += more
    return data


# The settings to mention in advice, by kind of store.
_ENDPOINT = {
    "s3": "the endpoint (s3.endpoint, AWS_ENDPOINT_URL)",
    "gcs": "the endpoint (gcs.service.host, STORAGE_EMULATOR_HOST), if one is set",
    "abfs": "the account in the location, and the endpoint (endpoint, adls.blob-storage-authority), if one is set",
    "hdfs": "the namenode in the location, and HADOOP_CONF_DIR",
    "": "the endpoint",
}
_OPTIONS = {
    "s3": "s3.access-key-id and s3.secret-access-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gcs": "gcs.oauth2.token, or GOOGLE_APPLICATION_CREDENTIALS with the file of a service account",
    "abfs": "account_key or sas_token, or AZURE_STORAGE_ACCOUNT_KEY",
    "hdfs": "hdfs.user, kerb_ticket",
    "": "those of the store",
}
_CLOUDS = ("s3", "gcs", "abfs")  # their messages name the missing permission
HOSTS = {store: f"Check the network, and {what}." for store, what in _ENDPOINT.items()}
KEYS = {store: f"Set {what}, or anonymous=true for public data." for store, what in _OPTIONS.items()}

_FULL = (errno.ENOSPC, errno.EDQUOT)
# Pattern in the client's message -> advice; the first match wins.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"HDFS connection failed",
        "Check the namenode's host and port; for a name service, HADOOP_CONF_DIR must be the folder of the "
        "core-site.xml and hdfs-site.xml that name its namenodes.",
    ),
    (
        # Clients try this service last. It only exists on a cloud's own machines.
        r"169\.254\.169\.254|latest/api/token|metadata\.google\.internal",
        "No credentials were found, and the machine's own metadata service has none: set {options}.",
    ),
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist|ContainerNotFound",
        "The bucket or container does not exist: check its name, the region, and {endpoint}.",
    ),
    (
        r"curlCode: 6\b|CURL error \[6\]|[Cc]ould(?: not|n't) resolve|dns error|Name or service not known",
        "The host name cannot be resolved: check the network, and {endpoint}.",
    ),
    (
        r"curlCode: (?:7|28)\b|CURL error \[(?:7|28)\]|[Cc]ould not connect|Connection refused|timed? ?out",
        "The server does not respond: check the network, and {endpoint}.",
    ),
    (
        r"curlCode: (?:35|60|77)\b|SSL|TLS|certificate",
        "TLS failed: for a store without TLS, set an http:// endpoint; otherwise check the certificates.",
    ),
    (
        r"PermanentRedirect|AuthorizationHeaderMalformed|MissingRegion|HTTP status code 301|status: 301",
        "The bucket is in another region: set its region (s3.region, AWS_REGION).",
    ),
    (
        r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|"
        r"SignatureDoesNotMatch|EXPIRED_TOKEN|ExpiredToken|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|"
        r"PERMISSION_DENIED|UNAUTHENTICATED|AuthenticationFailed|AuthorizationFailure|[Cc]redential|"
        r"HTTP (?:response|status) code:? 40[13]|\b40[13] (?:Forbidden|Unauthorized)",
        "The credentials are missing, wrong, expired, or lack the permission: check {options}.",
    ),
)


def advice(error: BaseException, location: str = "") -> str:
    """Return advice for a filesystem's error at a location, in one or two sentences."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return "The disk is full, or a quota is reached: free space, or write elsewhere."
    message, scheme = str(error), split_location(location)[0]
    store = store_of(scheme)
    if isinstance(error, PermissionError) and store not in _CLOUDS:
        return "Grant this process the permission, or use other credentials."
    for pattern, what in _ADVICE:
        if re.search(pattern, message):
            return what.format(endpoint=_ENDPOINT.get(store, _ENDPOINT[""]), options=_OPTIONS.get(store, _OPTIONS[""]))
    if isinstance(error, UnicodeError | pa.ArrowInvalid):
        return "Correct the path: it is not a valid file name in this storage."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "Check the path, and whether the table was moved."
    return "The table itself may be intact: try again, and check the storage if the error persists."
