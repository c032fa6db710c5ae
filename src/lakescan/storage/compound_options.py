"""Options that hold several settings, each told as single ones.

fsspec's dictionaries (`client_kwargs`, `config_kwargs`), Azure's connection strings, Hadoop's names that have an
account in them or name classes of Java, and values of one library that mean another setting.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lakescan.common.option_values import boolean, mapping
from lakescan.errors import InvalidOption

Parts = Iterator[tuple[str, str, Any]]  # the name to show, the name of a setting, its value
_KEYS = "keys"  # kinds of credentials that come with the settings themselves
_CREDENTIALS_FILE = "Set the environment variable GOOGLE_APPLICATION_CREDENTIALS to the file of a service account."
_PROVIDERS = {  # Hadoop's classes, by their last name
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
_SAID = {("account.auth.type", kind) for kind in ("sharedkey", "sas", "oauth")}  # what the other settings say, too
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
_SIGNED = ("s3v4", "v4")  # what both clients do


def parts_of(name: str, value: Any) -> Parts | None:
    """The single settings of an option; None for one that is no compound.

    Raises `InvalidOption` for what the clients do not have, by name.
    """
    lower = name.lower()
    if lower in _COMPOUND:
        return _COMPOUND[lower](name, value)
    if match := _OF_ACCOUNT.fullmatch(lower):
        return _account_option(name, match[1], match[2], value)
    return None


def _refusal(name: str, advice: str) -> InvalidOption:
    return InvalidOption(f"storage option {name!r} cannot be obeyed. {advice}")


def _dictionary(name: str, value: Any) -> dict[str, Any]:
    try:
        return mapping(value)
    except ValueError as error:
        raise InvalidOption(f"storage option {name!r} takes {error}") from error


def _client_kwargs(name: str, value: Any) -> Parts:
    """Arguments of boto's client."""
    for key, each in _dictionary(name, value).items():
        shown = f"{name}.{key}"
        if each is None:
            continue
        if key == "verify":
            yield from _verify(shown, each)
        elif key in _BOTO:
            yield shown, _BOTO[key], each
        else:
            raise _refusal(shown, f"Known are {', '.join(_BOTO)} and verify.")


def _verify(name: str, value: Any) -> Parts:
    """Boto's: whether certificates are verified, or the file of those that are trusted."""
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        yield name, "allow_invalid_certificates", not boolean(value)
    else:
        yield name, "tls_ca_file_path", value


def _config_kwargs(name: str, value: Any) -> Parts:
    """Arguments of botocore's configuration."""
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
                raise _refusal(shown, "One proxy takes all requests: set proxy_options.")
            yield shown, "s3.proxy-uri", proxies.pop()
        else:
            raise _refusal(shown, "Known are region_name, signature_version, s3, retries, proxies and the timeouts.")


def _s3_config(name: str, value: Any) -> Parts:
    for key, each in _dictionary(name, value).items():
        styles = {"path": False, "virtual": True}
        if key != "addressing_style" or each not in (*styles, "auto"):
            raise _refusal(f"{name}.{key}", "Known is addressing_style: path, virtual or auto.")
        if each in styles:
            yield f"{name}.{key}", "s3.force-virtual-addressing", styles[each]


def _retries(name: str, value: Any) -> Parts:
    for key, each in _dictionary(name, value).items():
        if key == "max_attempts":
            yield f"{name}.{key}", _RETRIES, each
        elif key == "total_max_attempts":
            yield f"{name}.{key}", _RETRIES, int(each) - 1
        elif key != "mode" or each not in ("legacy", "standard"):
            raise _refusal(f"{name}.{key}", "Known are max_attempts, total_max_attempts and mode: standard.")


def _connection_string(name: str, value: Any) -> Parts:
    """Azure's: `AccountName=...;AccountKey=...;EndpointSuffix=...`."""
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
        raise _refusal(name, f"It has {min(found)!r}, which is not known.")
    if endpoint or dfs:
        yield name, "azure_storage_endpoint", endpoint or str(dfs).replace(".dfs.", ".blob.", 1)
    elif suffix and suffix != "core.windows.net":
        for service in ("blob", "dfs"):
            yield name, f"{service}_storage_authority", f".{service}.{suffix}"
            yield name, f"{service}_storage_scheme", protocol


def _providers(name: str, value: Any) -> Parts:
    """Hadoop's classes that give credentials."""
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
        raise _refusal(name, f"Set gcs.oauth2.token, or none. {_CREDENTIALS_FILE}")


def _google_access(name: str, value: Any) -> Parts:
    """gcsfs's: what its token is to allow; ours has the rights that it has."""
    if value != "full_control":
        raise _refusal(name, "Credentials have the rights that they have: leave it out.")
    yield from ()


def _token(name: str, value: Any) -> Parts:
    """gcsfs's token may be a word, a file or a dictionary; that of others is one."""
    text = str(value)
    if isinstance(value, Mapping) or not isinstance(value, str) or text.endswith(".json") or text.startswith("{"):
        raise _refusal(name, f"It takes a token. {_CREDENTIALS_FILE}")
    if text == "anon":
        yield name, "google_skip_signature", True
    elif text in ("browser", "cache"):
        raise _refusal(name, f"It takes a token. {_CREDENTIALS_FILE}")
    elif text not in ("google_default", "cloud"):
        yield name, "any.token", value


def _account_option(name: str, kind: str, account: str, value: Any) -> Parts:
    """Hadoop's settings of one account of Azure: `fs.azure.account.key.ACCOUNT.dfs.core.windows.net`."""
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
COMPOUND = (*_COMPOUND, "fs.azure.account.key.ACCOUNT.dfs.core.windows.net", "fs.azure.sas.fixed.token.ACCOUNT.dfs...")
