"""Advice for a storage error, by its message: credentials, hosts, ports, buckets, regions, disks."""

from __future__ import annotations

import errno
import re

import pyarrow as pa

_FULL = (errno.ENOSPC, errno.EDQUOT)
# Pattern in the client's message -> advice; the first match wins.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        r"HDFS connection failed",
        "Check the namenode's host and port; for a name service, HADOOP_CONF_DIR must be the folder of the "
        "core-site.xml and hdfs-site.xml that name its namenodes.",
    ),
    (
        # Where clients look last: the service of a cloud's own machines. On others it is not there.
        r"169\.254\.169\.254|latest/api/token|metadata\.google\.internal",
        "No credentials were found but at the machine's own metadata service: set access_key_id and secret_access_key "
        "(storage_options), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the store's own.",
    ),
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist|ContainerNotFound",
        "There is no such bucket: check its name, the endpoint and the region.",
    ),
    (
        r"curlCode: 6\b|CURL error \[6\]|[Cc]ould(?: not|n't) resolve|dns error|Name or service not known",
        "The host name cannot be resolved: check the endpoint (s3.endpoint, AWS_ENDPOINT_URL) and the network.",
    ),
    (
        r"curlCode: (?:7|28)\b|CURL error \[(?:7|28)\]|[Cc]ould not connect|Connection refused|timed? ?out",
        "The server does not answer: check the host and port of the endpoint (s3.endpoint, AWS_ENDPOINT_URL).",
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
        "The credentials are missing, wrong, expired, or lack the permission: check the storage options "
        "(s3.access-key-id and s3.secret-access-key, adls.account-key, ...) or the environment.",
    ),
)


def advice(error: BaseException) -> str:
    """What to do about a filesystem's error, in a sentence or two."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return "The disk is full, or a quota is reached: free some space, or write elsewhere."
    if isinstance(error, PermissionError):
        return "Grant this process the permission, or use other credentials."
    message = str(error)
    for pattern, what in _ADVICE:
        if re.search(pattern, message):
            return what
    if isinstance(error, UnicodeError | pa.ArrowInvalid):
        return "Correct the path: it is not a valid file name in this storage."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "Check the path, and whether the table was moved."
    return "This says nothing about the table itself: try again, and check the storage if the error persists."
