"""The settings that storage options mean, under every name; what nobody knows is refused with the nearest name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lakescan.errors import InvalidOption, nearest
from lakescan.storage.compound_options import COMPOUND, parts_of
from lakescan.storage.known_settings import SETTINGS
from lakescan.storage.setting import Setting

# Options that only tune Hadoop's or fsspec's own clients, which are not used here: they are ignored.
TUNING = re.compile(
    r"fs\.(s3a?|gs|abfss?)\.(impl|(threads|connection\.(maximum|keepalive|ttl|idle)|fast\.upload|block\.size|readahead|"
    r"multipart|buffer\.dir|committer|paging|max\.total\.tasks|input\.fadvise|experimental\.input).*)"
    r"|default_(fill_cache|cache_type|cache_options)|use_listings_cache|listings_expiry_time|max_paths|asynchronous|"
    r"skip_instance_cache|cache_regions|version_aware|max_concurrency|fixed_upload_size|cache_timeout|consistency|"
    r"check_connection|block_size|blocksize|default_cache_size"
)
_SERVICE_ACCOUNT = "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS to the file of a service account."
_ENCRYPTED = "Arrow's client cannot ask for it: have the bucket encrypt files by default."
_USE_PROXY = "Set proxy_options to its URI."
# Options that no client here has -> what to use instead.
_INSTEAD = {
    "google_application_credentials": _SERVICE_ACCOUNT,
    "google_service_account": _SERVICE_ACCOUNT,
    "google_service_account_path": _SERVICE_ACCOUNT,
    "google_service_account_key": _SERVICE_ACCOUNT,
    "service_account": _SERVICE_ACCOUNT,
    "service_account_key": _SERVICE_ACCOUNT,
    "application_credentials": _SERVICE_ACCOUNT,
    "fs.gs.auth.service.account.json.keyfile": _SERVICE_ACCOUNT,
    "google.cloud.auth.service.account.json.keyfile": _SERVICE_ACCOUNT,
    "s3.signer": "Open the table by its name in a catalog of type rest, which signs requests, or set s3.access-key-id.",
    "credential": "Set account_key, sas_token, or client_id with its secret and tenant.",
    "adls.credential": "Set account_key, sas_token, or client_id with its secret and tenant.",
    "session": "Set profile, or keys.",
    "config": "Set config_kwargs.",
    "s3_additional_kwargs": _ENCRYPTED,
    "aws_server_side_encryption": _ENCRYPTED,
    "aws_sse_kms_key_id": _ENCRYPTED,
    "s3.server-side-encryption": _ENCRYPTED,
    "s3.sse-kms-key-id": _ENCRYPTED,
    "s3.sse.type": _ENCRYPTED,
    "s3.sse.key": _ENCRYPTED,
    "fs.s3a.encryption.algorithm": _ENCRYPTED,
    "fs.s3a.encryption.key": _ENCRYPTED,
    "fs.s3a.server-side-encryption-algorithm": _ENCRYPTED,
    "fs.s3a.proxy.host": _USE_PROXY,
    "fs.s3a.proxy.port": _USE_PROXY,
    "fs.s3a.requester.pays.enabled": "Set requester_pays, which tells which clients can.",
    "fs.s3a.retry.limit": "Set fs.s3a.attempts.maximum.",
    "aws_sts_endpoint": "Set the environment variable AWS_ENDPOINT_URL_STS.",
    "azure_storage_use_emulator": "Set endpoint=http://127.0.0.1:10000/devstoreaccount1, account_name and account_key.",
    "use_emulator": "Set endpoint=http://127.0.0.1:10000/devstoreaccount1, account_name and account_key.",
}
_OF_BUCKET = re.compile(r"fs\.s3a\.bucket\.[^.]+\.(.+)")
_OF_HADOOP = ("dfs.", "hadoop.", "ipc.")
_ANY = "any."  # before a name of a compound's part that is a compound's own name, too


def is_hadoop_setting(name: str) -> bool:
    """Whether a setting is one that Hadoop's own client takes as it is: name services, namenodes, security."""
    return name.startswith(_OF_HADOOP)


def _spellings() -> dict[str, list[Setting]]:
    settings: dict[str, list[Setting]] = {}
    for setting in SETTINGS:
        for name in setting.spellings:
            settings.setdefault(name, []).append(setting)
    return settings


_BY_NAME = _spellings()


def find_settings(name: str) -> tuple[Setting, ...]:
    """The settings with a name, one of each store that has it; none for compounds and for what nobody knows."""
    return tuple(_BY_NAME.get(name.lower(), ()))


def parse_option(name: str, value: Any, ignore_unknown: bool) -> Iterator[tuple[Setting, Any]]:
    """The settings that an option sets, with their parsed values.

    Raises `InvalidOption` for an unknown name, unless `ignore_unknown`, and for an invalid value.
    """
    if TUNING.fullmatch(name.lower()):
        return
    if ignore_unknown or (parts := parts_of(name, value)) is None:  # catalogs' clients have no such
        yield from _parse_single(name, name, value, ignore_unknown)
        return
    for shown, part, its_value in parts:
        yield from _parse_single(shown, part.removeprefix(_ANY), its_value, ignore_unknown)


def _parse_single(shown: str, name: str, value: Any, ignore_unknown: bool) -> Iterator[tuple[Setting, Any]]:
    lower = name.lower()
    if lower not in _BY_NAME:
        if ignore_unknown:
            return
        raise InvalidOption(f"unknown storage option {shown!r}. {_advice(lower)}".rstrip())
    for setting in _BY_NAME[lower]:
        try:
            yield setting, setting.parse(value)
        except ValueError as error:
            raise InvalidOption(f"storage option {shown!r} takes {error}") from error


def _advice(name: str) -> str:
    if match := _OF_BUCKET.fullmatch(name):
        return f"Options are of one table, and not of one bucket: set 'fs.s3a.{match[1]}'."
    return _INSTEAD.get(name) or nearest(name, [*_BY_NAME, *COMPOUND]).strip()
