"""What to do about a fault of storage, by what its client says: credentials, hosts, ports, buckets, regions, disks."""

from __future__ import annotations

import errno
import re

import pyarrow as pa

_FULL = (errno.ENOSPC, errno.EDQUOT)
# The first that is found in what a client says holds.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist|ContainerNotFound",
        "There is no such bucket: check its name, and whether the endpoint and the region are its own.",
    ),
    (
        r"curlCode: 6\b|CURL error \[6\]|[Cc]ould(?: not|n't) resolve|dns error|Name or service not known",
        "No host of that name is found: check the endpoint (s3.endpoint, AWS_ENDPOINT_URL) and this machine's network.",
    ),
    (
        r"curlCode: (?:7|28)\b|CURL error \[(?:7|28)\]|[Cc]ould not connect|Connection refused|timed? ?out",
        "Nothing answers there: check the host and port of the endpoint (s3.endpoint, AWS_ENDPOINT_URL).",
    ),
    (
        r"curlCode: (?:35|60|77)\b|SSL|TLS|certificate",
        "The connection cannot be secured: give an http:// endpoint for a store without TLS, else check certificates.",
    ),
    (
        r"PermanentRedirect|AuthorizationHeaderMalformed|MissingRegion|HTTP status code 301|status: 301",
        "The bucket is in another region: give it (s3.region, AWS_REGION).",
    ),
    (
        r"ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY_ID|InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|"
        r"SignatureDoesNotMatch|EXPIRED_TOKEN|ExpiredToken|INVALID_CLIENT_TOKEN_ID|UNRECOGNIZED_CLIENT|"
        r"PERMISSION_DENIED|UNAUTHENTICATED|AuthenticationFailed|AuthorizationFailure|[Cc]redential|"
        r"HTTP (?:response|status) code:? 40[13]|\b40[13] (?:Forbidden|Unauthorized)",
        "The credentials are missing, wrong, expired, or not allowed to do this: check the storage options "
        "(s3.access-key-id and s3.secret-access-key, adls.account-key, ...) or the environment.",
    ),
)


def advice(error: BaseException) -> str:
    """What to do about an error of a filesystem, in a sentence or two."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return "The disk is full, or a quota is reached: make room there, or write elsewhere."
    if isinstance(error, PermissionError):
        return "Give this process the permission, or other credentials."
    said = str(error)
    for pattern, what in _ADVICE:
        if re.search(pattern, said):
            return what
    if isinstance(error, UnicodeError | pa.ArrowInvalid):
        return "Correct the path: storage can have no file of that name."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "Check the path, and whether the table was moved."
    return "Nothing is known of the table from this: try again, and check the storage if it stays."
