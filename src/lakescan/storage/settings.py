"""The known storage settings: pyarrow's arguments, delta-rs's names, and all their aliases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakescan.common.option_values import boolean, duration, mapping
from lakescan.errors import InvalidOption, nearest


def _as_is(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    return str(value)


def _reversed(value: Any) -> bool:
    return not boolean(value)


def _milliseconds(value: Any) -> float:
    """Hadoop's durations, in milliseconds if they have no unit; returns seconds."""
    text = str(value).strip()
    return duration(f"{text}ms" if text.isdecimal() else text)


def _timestamp(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromtimestamp(int(value) / 1000, UTC)


def _timespan(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=duration(value))


@dataclass(frozen=True)
class Setting:
    """One setting of a store: pyarrow's argument, delta-rs's name, its aliases, and the parser of its value.

    `arrow` or `delta` is empty if that library lacks the setting.
    """

    store: str
    arrow: str
    delta: str
    names: tuple[str, ...]
    parse: Callable[[Any], Any] = _text

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the setting: store and name."""
        return self.store, self.arrow or self.delta


def _many(store: str, *rows: tuple[Any, ...]) -> tuple[Setting, ...]:
    return tuple(Setting(store, *row) for row in rows)


SETTINGS: tuple[Setting, ...] = (
    *_many(
        "s3",
        (
            "access_key",
            "aws_access_key_id",
            ("s3.access-key-id", "access_key_id", "client.access-key-id", "fs.s3a.access.key"),
        ),
        (
            "secret_key",
            "aws_secret_access_key",
            ("s3.secret-access-key", "secret_access_key", "client.secret-access-key", "fs.s3a.secret.key"),
        ),
        (
            "session_token",
            "aws_session_token",
            ("s3.session-token", "aws_token", "token", "client.session-token", "fs.s3a.session.token"),
        ),
        (
            "region",
            "aws_region",
            ("s3.region", "aws_default_region", "default_region", "client.region", "fs.s3a.endpoint.region"),
        ),
        (
            "endpoint_override",
            "aws_endpoint_url",
            ("s3.endpoint", "aws_endpoint_url_s3", "endpoint_url", "aws_endpoint", "endpoint", "fs.s3a.endpoint"),
        ),
        ("", "aws_allow_http", ("aws_allow_http", "allow_http"), boolean),
        ("", "aws_use_ssl", ("fs.s3a.connection.ssl.enabled",), boolean),
        ("", "aws_profile", ("s3.profile-name", "client.profile-name", "profile")),
        ("scheme", "", ("scheme",)),
        ("anonymous", "aws_skip_signature", ("s3.anonymous", "skip_signature"), boolean),
        (
            "force_virtual_addressing",
            "aws_virtual_hosted_style_request",
            ("s3.force-virtual-addressing", "virtual_hosted_style_request"),
            boolean,
        ),
        ("force_virtual_addressing", "", ("fs.s3a.path.style.access", "s3.path-style-access"), _reversed),
        ("connect_timeout", "connect_timeout", ("s3.connect-timeout",), duration),
        ("connect_timeout", "", ("fs.s3a.connection.establish.timeout",), _milliseconds),
        ("request_timeout", "timeout", ("s3.request-timeout",), duration),
        ("request_timeout", "", ("fs.s3a.connection.timeout", "fs.s3a.connection.request.timeout"), _milliseconds),
        ("role_arn", "aws_iam_role_arn", ("s3.role-arn", "client.role-arn", "aws_role_arn", "fs.s3a.assumed.role.arn")),
        (
            "session_name",
            "aws_iam_role_session_name",
            ("s3.role-session-name", "client.role-session-name", "aws_role_session_name"),
        ),
        ("external_id", "", ("client.external-id",)),
        ("load_frequency", "", (), int),
        ("proxy_options", "proxy_url", ("s3.proxy-uri",)),
        ("tls_ca_file_path", "", ()),
        ("background_writes", "", (), boolean),
        ("allow_delayed_open", "", (), boolean),
        ("allow_bucket_creation", "", (), boolean),
        ("allow_bucket_deletion", "", (), boolean),
        ("check_directory_existence_before_creation", "", (), boolean),
        ("default_metadata", "", (), _as_is),
        ("retry_strategy", "", (), _as_is),
        ("", "aws_s3_allow_unsafe_rename", ("allow_unsafe_rename",)),
        ("", "aws_s3_locking_provider", ()),
        ("", "aws_conditional_put", ("conditional_put",)),
        ("", "aws_copy_if_not_exists", ("copy_if_not_exists",)),
        ("", "delta_dynamo_table_name", ("dynamo_lock_table_name",)),
        ("", "max_retries", ()),
        ("", "retry_timeout", ()),
        ("", "allow_invalid_certificates", ()),
    ),
    *_many(
        "gcs",
        ("anonymous", "google_skip_signature", (), boolean),
        ("access_token", "google_bearer_token", ("gcs.oauth2.token",)),
        ("credential_token_expiration", "", ("gcs.oauth2.token-expires-at",), _timestamp),
        ("target_service_account", "", ()),
        ("project_id", "", ("gcs.project-id",)),
        ("endpoint_override", "", ("gcs.service.host", "gcs.endpoint")),
        ("scheme", "", ()),
        ("default_bucket_location", "", ("gcs.default-bucket-location",)),
        ("retry_time_limit", "", (), _timespan),
        ("default_metadata", "", (), _as_is),
    ),
    *_many(
        "abfs",
        ("account_name", "azure_storage_account_name", ("adls.account-name",)),
        (
            "account_key",
            "azure_storage_account_key",
            ("adls.account-key", "azure_storage_access_key", "azure_storage_master_key"),
        ),
        ("sas_token", "azure_storage_sas_token", ("adls.sas-token", "azure_storage_sas_key", "sas_key")),
        ("tenant_id", "azure_storage_tenant_id", ("adls.tenant-id", "azure_tenant_id", "azure_authority_id")),
        ("client_id", "azure_storage_client_id", ("adls.client-id", "azure_client_id")),
        ("client_secret", "azure_storage_client_secret", ("adls.client-secret", "azure_client_secret")),
        ("blob_storage_authority", "", ("adls.blob-storage-authority",)),
        ("blob_storage_scheme", "", ("adls.blob-storage-scheme",)),
        ("dfs_storage_authority", "", ("adls.dfs-storage-authority",)),
        ("dfs_storage_scheme", "", ("adls.dfs-storage-scheme",)),
    ),
    *_many(
        "hdfs",
        ("host", "", ("hdfs.host",)),
        ("port", "", ("hdfs.port",), int),
        ("user", "", ("hdfs.user",)),
        ("kerb_ticket", "", ("hdfs.kerberos_ticket",)),
        ("replication", "", (), int),
        ("buffer_size", "", (), int),
        ("default_block_size", "", (), int),
        ("extra_conf", "", (), mapping),
    ),
)
# Options that only tune Hadoop's own client, which is not used here: they are ignored.
_TUNING = re.compile(r"fs\.(s3a?|gs|abfss?)\.(impl|(threads|connection\.maximum|fast\.upload|block\.size|readahead).*)")
_AZURE_KEY = re.compile(r"fs\.azure\.(account\.key|sas\.fixed\.token)\.([^.]+)\..+")
# Options that no library here supports -> what to use instead.
_INSTEAD = {
    "adls.connection-string": "Set adls.account-name and adls.account-key.",
    "azure_storage_connection_string": "Set azure_storage_account_name and azure_storage_account_key.",
    "google_application_credentials": "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS.",
    "google_service_account": "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS.",
    "google_service_account_key": "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS.",
    "service_account": "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS.",
    "s3.signer": "Open the table by its name in a catalog of type rest, which signs requests, or set s3.access-key-id.",
    "fs.s3a.aws.credentials.provider": "Set keys, or s3.anonymous=true; otherwise those of the environment are used.",
}


_OF_HADOOP = ("dfs.", "hadoop.", "ipc.")


def is_of_hadoop(name: str) -> bool:
    """Whether a setting is one that Hadoop's own client takes as it is: name services, namenodes, security."""
    return name.startswith(_OF_HADOOP)


def _spellings() -> dict[str, list[Setting]]:
    settings: dict[str, list[Setting]] = {}
    for setting in SETTINGS:
        own = (setting.arrow, setting.delta) if setting.parse is not _reversed else ()
        own = () if setting.parse is _milliseconds else own
        for name in {*own, *setting.names} - {""}:
            settings.setdefault(name.lower(), []).append(setting)
    return settings


_BY_NAME = _spellings()


def settings_of(name: str, value: Any, ignore_unknown: bool) -> Iterator[tuple[Setting, Any]]:
    """The settings that an option sets, with their parsed values.

    Raises `InvalidOption` for an unknown name, unless `ignore_unknown`, and for an invalid value.
    """
    lower = name.lower()
    if _TUNING.fullmatch(lower):
        return
    if azure := _AZURE_KEY.fullmatch(name):
        secret = "account_key" if azure[1].lower() == "account.key" else "sas_token"
        yield from settings_of("account_name", azure[2], ignore_unknown)
        yield from settings_of(secret, value, ignore_unknown)
        return
    if lower not in _BY_NAME:
        if ignore_unknown:
            return
        advice = _INSTEAD.get(lower) or nearest(name, [*_BY_NAME]).strip()
        raise InvalidOption(f"unknown storage option {name!r}. {advice}".rstrip())
    for setting in _BY_NAME[lower]:
        try:
            yield setting, setting.parse(value)
        except ValueError as error:
            raise InvalidOption(f"storage option {name!r} takes {error}") from error
