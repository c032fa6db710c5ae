"""Parses an option into settings, under every name that other libraries use for it.

Some options hold several settings: fsspec's dictionaries (`client_kwargs`, `config_kwargs`), Azure's connection
strings, Hadoop's names that contain an account or are set to Java classes, and values of one library that mean another
setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakescan.common.option_values import boolean, mapping
from lakescan.errors import InvalidOption, nearest
from lakescan.storage.settings.known_settings import SETTINGS, Setting

Parts = Iterator[tuple[str, str, Any]]  # the name to show, the name of a setting, its value
_KEYS = "keys"  # credentials in the settings themselves or in the environment
_CREDENTIALS_FILE = "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS to the file of a service account."
_PROVIDERS = {  # Hadoop's classes, by their simple name
    "AnonymousAWSCredentialsProvider": "anonymous",
    "SimpleAWSCredentialsProvider": _KEYS,
    "TemporaryAWSCredentialsProvider": _KEYS,
    "AssumedRoleCredentialProvider": _KEYS,
    "EnvironmentVariableCredentialsProvider": _KEYS,
    "DefaultCredentialsProvider": _KEYS,
    "DefaultAWSCredentialsProviderChain": _KEYS,
}
_OF_ACCOUNT = re.compile(r"fs\.azure\.(.+?)\.([^.]+)\.(?:dfs|blob)\.[a-z.]+")
_ACCOUNTS = {
    "account.key": "account_key",
    "sas.fixed.token": "sas_token",
    "account.oauth2.client.id": "client_id",
    "account.oauth2.client.secret": "client_secret",
}
_SAID = {("account.auth.type", kind) for kind in ("sharedkey", "sas", "oauth")}  # implied by the other settings
_OAUTH = "account.oauth.provider.type"
_TENANT = re.compile(r"https?://[^/]+/([^/]+)/oauth2(?:/v2\.0)?/token")
_BOTO = {
    "endpoint_url": "s3.endpoint",
    "region_name": "s3.region",
    "use_ssl": "aws_use_ssl",
    "aws_access_key_id": "aws_access_key_id",
    "aws_secret_access_key": "aws_secret_access_key",
    "aws_session_token": "aws_session_token",
}
_BOTOCORE = {
    "region_name": "s3.region",
    "connect_timeout": "s3.connect-timeout",
    "read_timeout": "s3.request-timeout",
}
_RETRIES = "fs.s3a.attempts.maximum"
_SIGNED = ("s3v4", "v4")  # the signature version of both clients


def _split_compound(name: str, value: Any) -> Parts | None:
    """Yield the parts of an option that holds several settings; return None for any other option.

    A part has the name for messages, the name of a setting, and its value, as in all functions that return `Parts`.
    Raises `InvalidOption` for a part that the clients do not support.
    """
    lower = name.lower()
    if lower in _COMPOUND:
        return _COMPOUND[lower](name, value)
    if match := _OF_ACCOUNT.fullmatch(lower):
        return _account_option(name, match[1], match[2], value)
    return None


def _refusal(name: str, advice: str) -> InvalidOption:
    return InvalidOption(f"storage option {name!r} is not supported. {advice}")


def _dictionary(name: str, value: Any) -> dict[str, Any]:
    try:
        return mapping(value)
    except ValueError as error:
        raise InvalidOption(f"storage option {name!r} takes {error}") from error


def _client_kwargs(name: str, value: Any) -> Parts:
    """Yield the settings in the arguments of boto's client, a dictionary; raises `InvalidOption` for others."""
    for key, each in _dictionary(name, value).items():
        shown = f"{name}.{key}"
        if each is None:
            continue
        if key == "verify":
            yield from _verify(shown, each)
        elif key in _BOTO:
            yield shown, _BOTO[key], each
        else:
            raise _refusal(shown, f"Supported are {', '.join(_BOTO)} and verify.")


def _verify(name: str, value: Any) -> Parts:
    """Yield the setting of boto's `verify`: a boolean, or the file of trusted certificate authorities."""
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        yield name, "allow_invalid_certificates", not boolean(value)
    else:
        yield name, "tls_ca_file_path", value


def _config_kwargs(name: str, value: Any) -> Parts:
    """Yield the settings in the arguments of botocore's `Config`; raises `InvalidOption` for unsupported ones."""
    for key, each in _dictionary(name, value).items():
        shown = f"{name}.{key}"
        if each is None or key == "max_pool_connections":
            continue
        if key in _BOTOCORE:
            yield shown, _BOTOCORE[key], each
        elif key == "signature_version":
            if getattr(each, "__name__", str(each)).upper() == "UNSIGNED" or "UNSIGNED" in repr(each):
                yield shown, "s3.anonymous", True
            elif each not in _SIGNED:
                raise _refusal(shown, f"Requests are signed as {_SIGNED[0]}, or not (s3.anonymous=true).")
        elif key == "s3":
            yield from _s3_config(shown, each)
        elif key == "retries":
            yield from _retries(shown, each)
        elif key == "proxies":
            proxies = set(_dictionary(shown, each).values())
            if len(proxies) != 1:
                raise _refusal(shown, "All requests use one proxy: set proxy_options.")
            yield shown, "s3.proxy-uri", proxies.pop()
        else:
            raise _refusal(
                shown, "Supported are region_name, signature_version, s3, retries, proxies and the timeouts."
            )


def _s3_config(name: str, value: Any) -> Parts:
    for key, each in _dictionary(name, value).items():
        styles = {"path": False, "virtual": True}
        if key != "addressing_style" or each not in (*styles, "auto"):
            raise _refusal(f"{name}.{key}", "Supported is addressing_style: path, virtual or auto.")
        if each in styles:
            yield f"{name}.{key}", "s3.force-virtual-addressing", styles[each]


def _retries(name: str, value: Any) -> Parts:
    for key, each in _dictionary(name, value).items():
        if key == "max_attempts":
            yield f"{name}.{key}", _RETRIES, each
        elif key == "total_max_attempts":
            yield f"{name}.{key}", _RETRIES, int(each) - 1
        elif key != "mode" or each not in ("legacy", "standard"):
            raise _refusal(f"{name}.{key}", "Supported are max_attempts, total_max_attempts and mode: standard.")


def _connection_string(name: str, value: Any) -> Parts:
    """Yield the settings in Azure's connection string, `AccountName=...;AccountKey=...;EndpointSuffix=...`.

    Raises `InvalidOption` for another form or an unknown member.
    """
    pairs = dict(each.strip().partition("=")[::2] for each in str(value).split(";") if each.strip())
    if not pairs or "" in pairs or any(not each for each in pairs.values()):
        raise InvalidOption(f"storage option {name!r} takes pairs such as AccountName=...;AccountKey=...")
    found = {key.lower(): each for key, each in pairs.items()}
    if found.pop("usedevelopmentstorage", "").lower() == "true":
        raise _refusal(name, "Set account_name, account_key, and endpoint=http://127.0.0.1:10000/devstoreaccount1.")
    names = {"accountname": "account_name", "accountkey": "account_key", "sharedaccesssignature": "sas_token"}
    for key, setting in names.items():
        if key in found:
            yield name, setting, found.pop(key)
    protocol, suffix = found.pop("defaultendpointsprotocol", "https"), found.pop("endpointsuffix", None)
    endpoint, dfs = found.pop("blobendpoint", None), found.pop("dfsendpoint", None)
    for other in ("queueendpoint", "tableendpoint", "fileendpoint"):
        found.pop(other, None)
    if found:
        raise _refusal(name, f"Its part {min(found)!r} is unknown.")
    if endpoint or dfs:
        yield name, "azure_storage_endpoint", endpoint or str(dfs).replace(".dfs.", ".blob.", 1)
    elif suffix and suffix != "core.windows.net":
        for service in ("blob", "dfs"):
            yield name, f"{service}_storage_authority", f".{service}.{suffix}"
            yield name, f"{service}_storage_scheme", protocol


def _providers(name: str, value: Any) -> Parts:
    """Yield the setting of Hadoop's list of AWS credential provider classes: `s3.anonymous`, or nothing for keys.

    Raises `InvalidOption` for other classes.
    """
    kinds = {_PROVIDERS.get(each.strip().rpartition(".")[2]) for each in str(value).split(",")}
    if kinds == {"anonymous"}:
        yield name, "s3.anonymous", True
    elif kinds != {_KEYS}:
        raise _refusal(name, "Set keys, or s3.anonymous=true; otherwise those of the environment are used.")


def _google_auth(name: str, value: Any) -> Parts:
    kind = str(value).upper()
    if kind == "UNAUTHENTICATED":
        yield name, "google_skip_signature", True
    elif kind not in ("APPLICATION_DEFAULT", "COMPUTE_ENGINE"):
        raise _refusal(name, f"Set gcs.oauth2.token, or no authentication type. {_CREDENTIALS_FILE}")


def _google_access(name: str, value: Any) -> Parts:
    """Check gcsfs's access scope, and yield nothing. Raises `InvalidOption` unless it is full control.

    The rights of credentials cannot be limited by an option.
    """
    if value != "full_control":
        raise _refusal(name, "The rights of credentials cannot be limited: leave it out.")
    yield from ()


def _token(name: str, value: Any) -> Parts:
    """Yield the setting of `token`: in gcsfs a keyword, a file or a dictionary, in other libraries the token itself.

    Raises `InvalidOption` for a file, a dictionary, and unsupported keywords.
    """
    text = str(value)
    if isinstance(value, Mapping) or not isinstance(value, str) or text.endswith(".json") or text.startswith("{"):
        raise _refusal(name, f"It must be a token. {_CREDENTIALS_FILE}")
    if text == "anon":
        yield name, "google_skip_signature", True
    elif text in ("browser", "cache"):
        raise _refusal(name, f"It must be a token. {_CREDENTIALS_FILE}")
    elif text not in ("google_default", "cloud"):
        yield name, "any.token", value


def _account_option(name: str, kind: str, account: str, value: Any) -> Parts:
    """Yield the settings of Hadoop's option of an account: `fs.azure.account.key.ACCOUNT.dfs.core.windows.net`.

    `kind` is the part of the name before the account. Raises `InvalidOption` for an unsupported one.
    """
    text = str(value)
    yield name, "account_name", account
    if kind in _ACCOUNTS:
        yield name, _ACCOUNTS[kind], value
    elif kind == "account.oauth2.client.endpoint" and (match := _TENANT.fullmatch(text)):
        yield name, "tenant_id", match[1]
    elif (kind, text.lower()) not in _SAID and not (kind == _OAUTH and text.endswith(".ClientCredsTokenProvider")):
        raise _refusal(name, "Set account_key, sas_token, or client_id with its secret and tenant.")


_COMPOUND: dict[str, Callable[[str, Any], Parts]] = {
    "client_kwargs": _client_kwargs,
    "config_kwargs": _config_kwargs,
    "verify": _verify,
    "connection_string": _connection_string,
    "adls.connection-string": _connection_string,
    "azure_storage_connection_string": _connection_string,
    "fs.s3a.aws.credentials.provider": _providers,
    "fs.gs.auth.type": _google_auth,
    "access": _google_access,
    "gcs.access": _google_access,
    "token": _token,
}
_COMPOUND_NAMES = (
    *_COMPOUND,
    "fs.azure.account.key.ACCOUNT.dfs.core.windows.net",
    "fs.azure.sas.fixed.token.ACCOUNT.dfs...",
)

# Ignored options, which only tune Hadoop's or fsspec's own clients.
TUNING = re.compile(
    r"fs\.(s3a?|gs|abfss?)\.(impl|(threads|connection\.(maximum|keepalive|ttl|idle)|fast\.upload|block\.size|readahead|"
    r"multipart|buffer\.dir|committer|paging|max\.total\.tasks|input\.fadvise|experimental\.input).*)"
    r"|default_(fill_cache|cache_type|cache_options)|use_listings_cache|listings_expiry_time|max_paths|asynchronous|"
    r"skip_instance_cache|cache_regions|version_aware|max_concurrency|fixed_upload_size|cache_timeout|consistency|"
    r"check_connection|block_size|blocksize|default_cache_size"
)
_SERVICE_ACCOUNT = "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS to the file of a service account."
_ENCRYPTED = "Arrow's client cannot request it: configure default encryption of the bucket."
_USE_PROXY = "Set proxy_options to its URI."
# Options that no client supports -> what to use instead.
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
    "s3.signer": "Open the table by its name in a REST catalog, which signs requests, or set s3.access-key-id.",
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
    "fs.s3a.requester.pays.enabled": "Arrow's clients do not support requester-pays buckets: read a copy.",
    "fs.s3a.retry.limit": "Set fs.s3a.attempts.maximum.",
    "aws_sts_endpoint": "Set the environment variable AWS_ENDPOINT_URL_STS.",
    "azure_storage_use_emulator": "Set endpoint=http://127.0.0.1:10000/devstoreaccount1, account_name and account_key.",
    "use_emulator": "Set endpoint=http://127.0.0.1:10000/devstoreaccount1, account_name and account_key.",
}
_OF_BUCKET = re.compile(r"fs\.s3a\.bucket\.[^.]+\.(.+)")
_OF_HADOOP = ("dfs.", "hadoop.", "ipc.")
_ANY = "any."  # a prefix of names that are both a part of a compound option and a compound option


def is_hadoop_setting(name: str) -> bool:
    """Return whether a setting is passed unchanged to Hadoop's own client: `dfs.`, `hadoop.` or `ipc.`."""
    return name.startswith(_OF_HADOOP)


def _spellings() -> dict[str, list[Setting]]:
    settings: dict[str, list[Setting]] = {}
    for setting in SETTINGS:
        for name in setting.spellings:
            settings.setdefault(name, []).append(setting)
    return settings


_BY_NAME = _spellings()


def find_settings(name: str) -> tuple[Setting, ...]:
    """Return the settings with a name (case-insensitive), one for each store that has it.

    Empty for options that hold several settings, and for unknown ones.
    """
    return tuple(_BY_NAME.get(name.lower(), ()))


def parse_option(name: str, value: Any, ignore_unknown: bool) -> Iterator[tuple[Setting, Any]]:
    """Yield the settings that an option sets, with their parsed values; nothing for an option that is ignored.

    `ignore_unknown` is for a catalog's properties: unknown names are ignored, and options are not split. Raises
    `InvalidOption` for an unknown name otherwise, and for an invalid value.
    """
    if TUNING.fullmatch(name.lower()):
        return
    if ignore_unknown or (parts := _split_compound(name, value)) is None:  # catalogs have no compound options
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
        return f"Options apply to a table, not to a bucket: set 'fs.s3a.{match[1]}'."
    return _INSTEAD.get(name) or nearest(name, [*_BY_NAME, *_COMPOUND_NAMES]).strip()
