"""The list of storage settings, each with its names in pyarrow, object_store, boto, fsspec, Hadoop and pyiceberg.

A name in the rows of several stores (`endpoint`, `token`) sets the setting of the location's store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import quote

from lakescan.common.option_values import ValueParser, any_text, boolean, duration, mapping, whole


class Role(Enum):
    """The kind of a setting, which decides who may set it. A table's metadata may set none.

    A catalog's server may set credentials, options of requests, and hosts together with its own credentials. Only the
    user may set all others: identities, proxies, trusted certificates, local files and classes.
    """

    CREDENTIAL = "credential"
    HOST = "host"
    REQUESTS = "requests"
    OF_USER = "of the user"


_SECRETS = (
    "secret_key",
    "session_token",
    "access_token",
    "account_key",
    "sas_token",
    "client_secret",
    "azure_storage_token",
)


@dataclass(frozen=True)
class Setting:
    """A setting of a store: pyarrow's argument, object_store's name, other names, and the parser of its value.

    `arrow` or `delta` (object_store's name) is empty if that library lacks the setting. `doc` describes it to users.
    `refused` is advice for settings that Arrow's client of the store does not support: a value other than False is
    refused when a location of the store is accessed.
    """

    store: str
    arrow: str
    delta: str
    names: tuple[str, ...]
    parse: ValueParser[Any] = any_text
    doc: str = ""
    refused: str = ""
    role: Role = Role.OF_USER

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the setting: the store, and pyarrow's or else object_store's name."""
        return self.store, self.arrow or self.delta

    @property
    def is_secret(self) -> bool:
        """Whether the value, such as a key or token, must not appear in any message."""
        return self.role is Role.CREDENTIAL and self.key[1] in _SECRETS

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names of the setting, in lower case.

        For a setting whose value is negated or in milliseconds, only `names`: pyarrow's and object_store's names take
        other values.
        """
        own = () if self.parse in (reversed_, milliseconds) else (self.arrow, self.delta)
        return tuple(dict.fromkeys(name.lower() for name in (*own, *self.names) if name))


def _negate(value: Any) -> bool:
    return not boolean(value)


def _parse_milliseconds(value: Any) -> float:
    """Parse a Hadoop duration to seconds. A number without a unit is in milliseconds."""
    text = str(value).strip()
    return duration(f"{text}ms" if text.isdecimal() else text)


def _parse_timestamp(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromtimestamp(int(value) / 1000, UTC)


def _parse_timespan(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=duration(value))


def _parse_proxy(value: Any) -> str:
    """Parse a proxy to a URI, which both clients accept, from a URI or pyarrow's dictionary."""
    if isinstance(value, str):
        return value
    try:
        scheme, host, port = value["scheme"], value["host"], int(value["port"])
    except KeyError as error:
        raise ValueError(error) from error
    name, password = value.get("username"), value.get("password")
    user = f"{quote(name, '')}{':' + quote(password, '') if password else ''}@" if name else ""
    return f"{scheme}://{user}{host}:{port}"


def _parse_sas(value: Any) -> str:
    """Return a shared access signature with its question mark: without it, Arrow treats it as a part of the path."""
    text = str(value)
    return text if text.startswith("?") else f"?{text}"


def _kind(parse: Callable[[Any], Any], expects: str) -> ValueParser[Any]:
    return ValueParser(parse, expects, "Any")


reversed_: ValueParser[Any] = _kind(_negate, "true or false")
milliseconds: ValueParser[Any] = _kind(_parse_milliseconds, "milliseconds, or a duration such as 500ms, 10s or 5m")
timestamp: ValueParser[Any] = _kind(_parse_timestamp, "milliseconds since 1970")
timespan: ValueParser[Any] = _kind(_parse_timespan, "seconds, or a duration such as 500ms, 10s or 5m")
proxy: ValueParser[Any] = _kind(_parse_proxy, "a URI, or a dictionary of scheme, host, port, username and password")
sas: ValueParser[Any] = _kind(_parse_sas, "text")
object_: ValueParser[Any] = _kind(lambda value: value, "a pyarrow object")


_COUNTED = "Arrow's client of S3 limits the number of retries: set max_retries."
_TIMED = "Arrow's client of Google's storage limits the time of retries: set retry_timeout."
_OWN_RETRIES = "Arrow's client of Azure has fixed rules for retries: leave it out."
_VERIFIED = "Arrow always verifies certificates: set tls_ca_file_path to the file of the signing authority."
_SYSTEMS = "Arrow's client of this store trusts the system's certificate authorities: add the store's authority there."
_OWN_TIMES = "Arrow's client of this store has fixed timeouts: leave it out."
_PROXY = "Arrow's client of this store takes its proxy from the environment: set https_proxy."
_NO_TOKEN = (
    "Arrow's client of Azure accepts no token: set account_key, sas_token, or client_id, client_secret, tenant_id."
)
_NO_PAYER = "Arrow's clients do not support requester-pays buckets: read a copy."
_NAMENODE = "Put the namenode into the location, and set hdfs.user or kerb_ticket for your identity."


# The settings that a catalog's server may also set, by store; see `Role`.
_ROLES = {
    "s3": {
        Role.CREDENTIAL: ("access_key", "secret_key", "session_token", "anonymous"),
        Role.HOST: ("endpoint_override", "scheme", "aws_allow_http", "aws_use_ssl"),
        Role.REQUESTS: (
            "region", "force_virtual_addressing", "connect_timeout", "request_timeout", "max_retries", "retry_timeout",
        ),
    },
    "gcs": {
        Role.CREDENTIAL: ("access_token", "credential_token_expiration", "anonymous"),
        Role.HOST: ("endpoint_override", "scheme", "allow_http"),
        Role.REQUESTS: ("project_id", "default_bucket_location", "retry_time_limit", "max_retries", "timeout",
                        "connect_timeout"),
    },
    "abfs": {
        Role.CREDENTIAL: ("account_key", "sas_token", "tenant_id", "client_id", "client_secret",
                          "azure_skip_signature", "azure_storage_token"),
        Role.HOST: (
            "account_name", "blob_storage_authority", "blob_storage_scheme", "dfs_storage_authority",
            "dfs_storage_scheme", "azure_storage_endpoint", "allow_http",
        ),
        Role.REQUESTS: ("max_retries", "retry_timeout", "timeout", "connect_timeout"),
    },
}  # fmt: skip


def _define(store: str, *rows: tuple[Any, ...]) -> tuple[Setting, ...]:
    roles = {name: role for role, names in _ROLES.get(store, {}).items() for name in names}
    settings = (Setting(store, *row) for row in rows)
    return tuple(replace(each, role=roles.get(each.key[1], Role.OF_USER)) for each in settings)


_S3 = _define(
    "s3",
    (
        "access_key",
        "aws_access_key_id",
        ("s3.access-key-id", "access_key_id", "client.access-key-id", "fs.s3a.access.key", "key"),
        any_text,
        "The access key.",
    ),
    (
        "secret_key",
        "aws_secret_access_key",
        ("s3.secret-access-key", "secret_access_key", "client.secret-access-key", "fs.s3a.secret.key", "secret"),
        any_text,
        "The secret of the access key.",
    ),
    (
        "session_token",
        "aws_session_token",
        ("s3.session-token", "aws_token", "token", "client.session-token", "fs.s3a.session.token"),
        any_text,
        "The session token of temporary keys.",
    ),
    (
        "region",
        "aws_region",
        ("s3.region", "aws_default_region", "default_region", "client.region", "region_name", "fs.s3a.endpoint.region"),
        any_text,
        "The region of the bucket.",
    ),
    (
        "endpoint_override",
        "aws_endpoint_url",
        ("s3.endpoint", "aws_endpoint_url_s3", "endpoint_url", "aws_endpoint", "endpoint", "fs.s3a.endpoint"),
        any_text,
        "The address of a store other than AWS; `http://` for one without TLS.",
    ),
    ("", "aws_allow_http", ("allow_http",), boolean, "Whether an endpoint without a scheme is `http://`."),
    (
        "",
        "aws_use_ssl",
        ("use_ssl", "fs.s3a.connection.ssl.enabled"),
        boolean,
        "False: an endpoint without a scheme is `http://`. AWS's own endpoint is then refused.",
    ),
    (
        "",
        "aws_profile",
        ("s3.profile-name", "client.profile-name", "profile", "profile_name"),
        any_text,
        "A profile in AWS's configuration files: its keys, region and endpoint. Requires botocore.",
    ),
    ("scheme", "", (), any_text, "http or https, for an endpoint without a scheme."),
    (
        "anonymous",
        "aws_skip_signature",
        ("s3.anonymous", "anon", "skip_signature"),
        boolean,
        "Whether requests are sent without credentials.",
    ),
    (
        "force_virtual_addressing",
        "aws_virtual_hosted_style_request",
        ("s3.force-virtual-addressing", "virtual_hosted_style_request"),
        boolean,
        "Whether the bucket is a prefix of the endpoint's host, not a part of the path.",
    ),
    (
        "force_virtual_addressing",
        "",
        ("fs.s3a.path.style.access", "s3.path-style-access"),
        reversed_,
        "Whether the bucket is a part of the path.",
    ),
    ("connect_timeout", "connect_timeout", ("s3.connect-timeout",), duration, "How long to wait for a connection."),
    ("connect_timeout", "", ("fs.s3a.connection.establish.timeout",), milliseconds, "Like `connect_timeout`."),
    (
        "request_timeout",
        "timeout",
        ("s3.request-timeout", "read_timeout"),
        duration,
        "How long to wait for a response.",
    ),
    (
        "request_timeout",
        "",
        ("fs.s3a.connection.timeout", "fs.s3a.connection.request.timeout"),
        milliseconds,
        "Like `request_timeout`.",
    ),
    (
        "role_arn",
        "",
        (
            "s3.role-arn",
            "client.role-arn",
            "aws_iam_role_arn",
            "aws_role_arn",
            "fs.s3a.assumed.role.arn",
        ),
        any_text,
        "The role to assume, with the credentials of the environment. Delta commits then require botocore.",
    ),
    (
        "session_name",
        "",
        (
            "s3.role-session-name",
            "client.role-session-name",
            "aws_iam_role_session_name",
            "aws_role_session_name",
            "fs.s3a.assumed.role.session.name",
        ),
        any_text,
        "The name of the assumed role's session.",
    ),
    (
        "external_id",
        "",
        ("client.external-id", "fs.s3a.assumed.role.external.id"),
        any_text,
        "The external id that the role requires.",
    ),
    ("load_frequency", "", (), whole, "Seconds after which Arrow assumes the role again."),
    ("proxy_options", "proxy_url", ("s3.proxy-uri",), proxy, "The proxy of all requests."),
    ("tls_ca_file_path", "", (), any_text, "A PEM file with the authorities that sign the store's certificate."),
    ("", "max_retries", ("fs.s3a.attempts.maximum",), whole, "How often a failed request is retried."),
    ("", "retry_timeout", (), duration, "How long failed requests are retried.", _COUNTED),
    (
        "",
        "allow_invalid_certificates",
        (),
        boolean,
        "Whether any certificate is accepted.",
        _VERIFIED,
    ),
    ("", "aws_request_payer", ("request_payer", "requester_pays"), boolean, "Whether you pay for requests.", _NO_PAYER),
    ("background_writes", "", (), boolean, "pyarrow only: whether parts of files are sent by threads."),
    ("allow_delayed_open", "", (), boolean, "pyarrow only: whether files are opened at the first write."),
    ("allow_bucket_creation", "", (), boolean, "pyarrow only: whether buckets may be created."),
    ("allow_bucket_deletion", "", (), boolean, "pyarrow only: whether buckets may be deleted."),
    (
        "check_directory_existence_before_creation",
        "",
        (),
        boolean,
        "pyarrow only: whether folders are looked up first.",
    ),
    ("default_metadata", "", (), object_, "pyarrow only: the metadata of written files."),
    ("retry_strategy", "", (), object_, "pyarrow only: replaces `max_retries`."),
    (
        "",
        "aws_s3_allow_unsafe_rename",
        ("allow_unsafe_rename",),
        any_text,
        "deltalake only. Has no effect, since commits are conditional puts.",
    ),
    ("", "aws_s3_locking_provider", (), any_text, "deltalake only. If it is set, Delta commits are refused."),
    (
        "",
        "aws_conditional_put",
        ("conditional_put",),
        any_text,
        "object_store only: the kind of conditional puts; `etag`.",
    ),
    (
        "",
        "aws_copy_if_not_exists",
        ("copy_if_not_exists",),
        any_text,
        "object_store only. Has no effect, since nothing is copied.",
    ),
    (
        "",
        "delta_dynamo_table_name",
        ("dynamo_lock_table_name",),
        any_text,
        "deltalake only: the table of `aws_s3_locking_provider`. Has no effect.",
    ),
)
_GCS = _define(
    "gcs",
    (
        "anonymous",
        "google_skip_signature",
        ("anon", "skip_signature"),
        boolean,
        "Whether requests are sent without credentials.",
    ),
    ("access_token", "google_bearer_token", ("gcs.oauth2.token", "token"), any_text, "An OAuth 2 token."),
    (
        "credential_token_expiration",
        "",
        ("gcs.oauth2.token-expires-at",),
        timestamp,
        "When the token expires.",
    ),
    ("target_service_account", "", (), any_text, "pyarrow only: a service account to impersonate."),
    ("project_id", "", ("gcs.project-id", "project", "fs.gs.project.id"), any_text, "The project, for new buckets."),
    (
        "endpoint_override",
        "google_base_url",
        ("gcs.service.host", "gcs.endpoint", "endpoint", "endpoint_url", "fs.gs.storage.root.url"),
        any_text,
        "The address of a server instead of Google's.",
    ),
    ("scheme", "", (), any_text, "http or https, for an endpoint without a scheme."),
    ("", "allow_http", (), boolean, "Whether an endpoint without a scheme is `http://`."),
    ("default_bucket_location", "", ("gcs.default-bucket-location",), any_text, "The location of new buckets."),
    ("retry_time_limit", "retry_timeout", (), timespan, "How long failed requests are retried; 60 s by default."),
    ("default_metadata", "", (), object_, "pyarrow only: the metadata of written files."),
    ("", "max_retries", (), whole, "How often a failed request is retried.", _TIMED),
    ("", "timeout", ("read_timeout",), duration, "How long to wait for a response.", _OWN_TIMES),
    ("", "connect_timeout", (), duration, "How long to wait for a connection.", _OWN_TIMES),
    ("", "proxy_url", ("proxy_options",), proxy, "The proxy of all requests.", _PROXY),
    ("", "tls_ca_file_path", (), any_text, "A PEM file with certificate authorities.", _SYSTEMS),
    ("", "allow_invalid_certificates", (), boolean, "Whether any certificate is accepted.", _SYSTEMS),
    ("", "requester_pays", (), boolean, "Whether you pay for requests.", _NO_PAYER),
)
_ABFS = _define(
    "abfs",
    (
        "account_name",
        "azure_storage_account_name",
        ("adls.account-name",),
        any_text,
        "The account, if the location does not contain it. Secrets are sent to no other account.",
    ),
    (
        "account_key",
        "azure_storage_account_key",
        ("adls.account-key", "azure_storage_access_key", "azure_storage_master_key"),
        any_text,
        "The account's key.",
    ),
    (
        "sas_token",
        "azure_storage_sas_token",
        ("adls.sas-token", "azure_storage_sas_key", "sas_key"),
        sas,
        "A shared access signature.",
    ),
    (
        "tenant_id",
        "azure_storage_tenant_id",
        ("adls.tenant-id", "azure_tenant_id", "azure_authority_id"),
        any_text,
        "The tenant of `client_id`.",
    ),
    (
        "client_id",
        "azure_storage_client_id",
        ("adls.client-id", "azure_client_id"),
        any_text,
        "The id of an application (service principal).",
    ),
    (
        "client_secret",
        "azure_storage_client_secret",
        ("adls.client-secret", "azure_client_secret"),
        any_text,
        "The secret of `client_id`. Also requires `tenant_id`.",
    ),
    (
        "",
        "azure_skip_signature",
        ("adls.anon", "anon", "anonymous", "skip_signature"),
        boolean,
        "Whether requests are sent without credentials.",
    ),
    (
        "blob_storage_authority",
        "",
        ("adls.blob-storage-authority",),
        any_text,
        "Host and port instead of Azure's blob service.",
    ),
    ("blob_storage_scheme", "", ("adls.blob-storage-scheme",), any_text, "http or https, for that host."),
    (
        "dfs_storage_authority",
        "",
        ("adls.dfs-storage-authority",),
        any_text,
        "Host and port instead of Azure's dfs service.",
    ),
    ("dfs_storage_scheme", "", ("adls.dfs-storage-scheme",), any_text, "http or https, for that host."),
    (
        "",
        "azure_storage_endpoint",
        ("azure_endpoint", "endpoint", "endpoint_url", "endpoint_override", "account_host", "adls.account-host"),
        any_text,
        "The address of the account's blobs if it is not in Azure, with the account in its host or path.",
    ),
    ("", "allow_http", (), boolean, "Whether an endpoint without a scheme is `http://`."),
    ("", "azure_storage_token", ("adls.token", "token"), any_text, "A token.", _NO_TOKEN),
    ("", "max_retries", (), whole, "How often a failed request is retried.", _OWN_RETRIES),
    ("", "retry_timeout", (), duration, "How long failed requests are retried.", _OWN_RETRIES),
    ("", "timeout", ("read_timeout",), duration, "How long to wait for a response.", _OWN_TIMES),
    ("", "connect_timeout", (), duration, "How long to wait for a connection.", _OWN_TIMES),
    ("", "proxy_url", ("proxy_options",), proxy, "The proxy of all requests.", _PROXY),
    ("", "tls_ca_file_path", (), any_text, "A PEM file with certificate authorities.", _SYSTEMS),
    ("", "allow_invalid_certificates", (), boolean, "Whether any certificate is accepted.", _SYSTEMS),
)
_HDFS = _define(
    "hdfs",
    ("host", "", ("hdfs.host",), any_text, "The namenode, if the location does not contain it."),
    ("port", "", ("hdfs.port",), whole, "The namenode's port."),
    ("user", "", ("hdfs.user",), any_text, "The user to act as."),
    ("kerb_ticket", "", ("hdfs.kerberos_ticket",), any_text, "The path of the Kerberos ticket cache."),
    ("replication", "", (), whole, "The number of copies of new files."),
    ("buffer_size", "", (), whole, "The size of buffers, in bytes."),
    ("default_block_size", "", (), whole, "The block size of new files, in bytes."),
    (
        "extra_conf",
        "",
        (),
        mapping,
        "Settings of Hadoop's client. Settings that start with `dfs.`, `hadoop.` or `ipc.` can also be options.",
    ),
    ("", "endpoint", ("endpoint_url", "endpoint_override"), any_text, "An address.", _NAMENODE),
    ("", "token", (), any_text, "A token.", _NAMENODE),
)
SETTINGS: tuple[Setting, ...] = (*_S3, *_GCS, *_ABFS, *_HDFS)
