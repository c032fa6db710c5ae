"""Advice for a storage error, by its message and its store: credentials, hosts, ports, buckets, regions, disks."""

from __future__ import annotations

import errno
import re

import pyarrow as pa

from lakescan.storage.locations import ALIASES, split_location

# What to set, by the store of the location.
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
_CLOUDS = ("s3", "gcs", "abfs")  # whose words say which permission it is
HOSTS = {store: f"Check the network, and {what}." for store, what in _ENDPOINT.items()}
KEYS = {store: f"Set {what}; anonymous=true for what everybody may read." for store, what in _OPTIONS.items()}

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
        "No credentials were found, and the machine's own metadata service has none: set {options}.",
    ),
    (
        r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist|ContainerNotFound",
        "There is no such bucket or container: check its name, the region, and {endpoint}.",
    ),
    (
        r"curlCode: 6\b|CURL error \[6\]|[Cc]ould(?: not|n't) resolve|dns error|Name or service not known",
        "The host name cannot be resolved: check the network, and {endpoint}.",
    ),
    (
        r"curlCode: (?:7|28)\b|CURL error \[(?:7|28)\]|[Cc]ould not connect|Connection refused|timed? ?out",
        "The server does not answer: check the network, and {endpoint}.",
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
    """What to do about a filesystem's error at a location, in a sentence or two."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return "The disk is full, or a quota is reached: free some space, or write elsewhere."
    message, scheme = str(error), split_location(location)[0]
    store = ALIASES.get(scheme, scheme)
    if isinstance(error, PermissionError) and store not in _CLOUDS:
        return "Grant this process the permission, or use other credentials."
    for pattern, what in _ADVICE:
        if re.search(pattern, message):
            return what.format(endpoint=_ENDPOINT.get(store, _ENDPOINT[""]), options=_OPTIONS.get(store, _OPTIONS[""]))
    if isinstance(error, UnicodeError | pa.ArrowInvalid):
        return "Correct the path: it is not a valid file name in this storage."
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "Check the path, and whether the table was moved."
    return "This says nothing about the table itself: try again, and check the storage if the error persists."
