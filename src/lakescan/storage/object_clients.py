"""obstore's clients of buckets and containers: each means the store and the identity that Arrow's client means.

obstore takes what the settings lack from the environment, and there some variables come before settings: another
endpoint, or the session token of other keys. What the settings say is therefore said against the environment, too.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.storage.aws_credentials import aws_credentials
from lakescan.storage.azure_endpoints import SECRETS, account_of
from lakescan.storage.errors import redact
from lakescan.storage.known_settings import SETTINGS
from lakescan.storage.locations import ALIASES
from lakescan.storage.options import StorageOptions

_S3_ENDPOINT = "AWS_ENDPOINT_URL_S3"  # obstore prefers it to an endpoint in the settings
_ENDPOINTS = (_S3_ENDPOINT, "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# What a client takes from the environment when it is made: where one of these has changed, another is made.
_VARIABLES = (
    *_ENDPOINTS,
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_SKIP_SIGNATURE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
    *("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"),
)
_is_made = False  # whether this process has made a client
_is_forked = False  # whether this process is a fork of one that had made one
_may_wait = False  # whether this process is a fork of one that had imported obstore


def _mark_fork() -> None:
    """After a fork, the threads of an obstore that the parent used are gone: it would wait for them for ever."""
    global _is_forked, _may_wait
    _is_forked |= _is_made
    _may_wait |= "obstore" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_fork)


def is_forked() -> bool:
    """Whether a request by obstore would be waited for for ever: the process was forked after its parent sent some."""
    return _is_forked


def is_usable() -> bool:
    """Whether obstore may be used where another client can do the same."""
    return not _may_wait


def may_mean_another_store(settings: StorageOptions) -> bool:
    """Whether the environment has an endpoint for obstore that Arrow does not go to."""
    return settings.endpoint("s3") is None and any(map(os.environ.get, _ENDPOINTS))


def client_config(options: StorageOptions, root: str) -> tuple[tuple[str, str], ...]:
    """The settings of `object_store` for a bucket or container."""
    scheme, _, authority = root.partition("://")
    return tuple(sorted(client_settings(options, scheme, authority).items()))


def object_store(root: str, settings: tuple[tuple[str, str], ...], *, retries: int | None = 0) -> Any:
    """The client of a bucket or container (`s3://bucket`); None: it repeats requests as often as it likes.

    `settings` are those of `client_config`. With any number but 0, theirs comes first.
    """
    return _client(root, settings, environment_of_clients(), retries)


def environment_of_clients() -> tuple[tuple[str, str], ...]:
    """The variables of the environment that clients depend on, with their values now."""
    return tuple((name, value) for name in _VARIABLES if (value := os.environ.get(name)))


@lru_cache(maxsize=32)
def _client(
    root: str, settings: tuple[tuple[str, str], ...], environment: tuple[tuple[str, str], ...], retries: int | None
) -> Any:
    from obstore.store import S3Store, from_url

    global _is_made
    _is_made = True
    scheme, _, name = root.partition("://")
    config = dict(settings)
    arguments: dict[str, Any] = {"client_options": _client_options(config)}
    if (retrying := _retries(config, retries)) is not None:
        arguments["retry_config"] = retrying
    if scheme != "s3":
        if (secret := _azure_secret(config)) is not None:
            arguments["credential_provider"] = secret
        return from_url(root, **arguments, config=config)
    if (provider := aws_credentials(config, dict(environment))) is not None:
        arguments["credential_provider"] = provider
    config = {each: value for each, value in config.items() if each not in (*ROLE, PROFILE)}
    return S3Store(name, **arguments, config=config | _against_environment(config, dict(environment)))


def _client_options(config: dict[str, str]) -> dict[str, Any]:
    """Take the settings of the client itself out of a configuration."""
    names = ("timeout", "connect_timeout", "proxy_url")
    options: dict[str, Any] = {name: config.pop(name) for name in names if name in config}
    if config.pop(ALLOW_HTTP, "") == "true":
        options["allow_http"] = True
    if (path := config.pop("tls_ca_file_path", None)) is not None:
        try:
            with open(path, "rb") as file:
                options["root_certificate"] = file.read()
        except OSError as error:
            raise InvalidOption(f"the file of tls_ca_file_path, {path}, cannot be read: {error.strerror}") from error
    return options


def _retries(config: dict[str, str], retries: int | None) -> dict[str, Any] | None:
    """Take the settings of retries out of a configuration; requests that must not be repeated have none."""
    most, seconds = config.pop("max_retries", None), config.pop("retry_timeout", None)
    found: dict[str, Any] = {} if retries is None else {"max_retries": retries}
    if retries != 0 and most is not None:
        found["max_retries"] = int(most)
    if seconds is not None:
        found["retry_timeout"] = timedelta(seconds=float(seconds))
    return found or None


def _azure_secret(config: dict[str, str]) -> Callable[[], dict[str, Any]] | None:
    """Take the key or signature out of a configuration, since obstore prefers a key in the environment to it."""
    key, sas = config.pop("azure_storage_account_key", None), config.pop("azure_storage_sas_token", None)
    if key is None and sas is None:
        return None
    found = {"access_key": key} if key is not None else {"sas_token": sas}
    return lambda: {**found, "expires_at": None}


def _against_environment(known: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What else to tell a client of S3, so that it takes endpoint and keys from the settings."""
    more = {}
    if "aws_endpoint_url" in known and _S3_ENDPOINT in environment:
        more["aws_endpoint_url_s3"] = known["aws_endpoint_url"]
    if "aws_endpoint_url" in known and "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" in environment:
        name = "aws_virtual_hosted_style_request"  # Arrow's client has the bucket in the path there
        more[name] = known.get(name, "false")
    if "AWS_SKIP_SIGNATURE" in environment:
        more["aws_skip_signature"] = known.get("aws_skip_signature", "false")
    return more


# Settings that are no configuration of object_store's, but of the client or of who gives it credentials.
CLIENT = ("timeout", "connect_timeout", "proxy_url", "tls_ca_file_path", "max_retries", "retry_timeout")
ROLE = ("role_arn", "session_name", "external_id")
PROFILE, ALLOW_HTTP = "aws_profile", "allow_http"
# Of deltalake's, and what is told to the client otherwise.
_OTHERS = (
    *("aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "delta_dynamo_table_name"),
    *("aws_allow_http", "aws_use_ssl", "aws_request_payer", "allow_invalid_certificates", "allow_http"),
)
_TOLD = {each.key: each.delta for each in SETTINGS if each.delta and each.delta not in _OTHERS}
_TOLD |= {("s3", name): name for name in (*ROLE, "tls_ca_file_path")}
_ADDRESSES = ("aws_endpoint_url", "google_base_url", "azure_storage_endpoint")
_IN_HEADERS = ("aws_access_key_id", "aws_session_token", "aws_region", "google_bearer_token", "azure_storage_token")
_URL = re.compile(r"https?://([^\s/?#@]*@)?([A-Za-z0-9._%-]+|\[[0-9A-Fa-f:.%]+\])(:\d+)?(/[!-~]*)?", re.I)
_GOOGLE_FIRST = (  # variables that obstore prefers to those that reading knows
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY"),
    "GOOGLE_BEARER_TOKEN",
)
_AZURE_FIRST = (*SECRETS, "AZURE_STORAGE_TOKEN")  # variables that obstore prefers to an application's secret


def client_settings(
    options: StorageOptions, scheme: str, authority: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The settings of obstore's client of a bucket or container.

    Raises `InvalidOption` for a setting that Arrow's client cannot obey, that contradicts another, or that no request
    can have.
    """
    store = ALIASES.get(scheme, scheme)
    options.check_obeyed(store)
    found = {
        name: text
        for key, value in options.values.items()
        if key[0] == store and (name := _TOLD.get(key, "")) and (text := _as_text(name, value))
    }
    if options.is_of_catalog:
        found.pop(PROFILE, None)  # which Arrow's client of a catalog does not read
    match store:
        case "s3":
            found |= _s3(options, authority, environment)
        case "gcs":
            found |= _gcs(options, environment)
        case "abfs":
            found |= _abfs(options, account_of(authority, options.azure_account, environment), environment)
    _check_sendable(found, f"{scheme}://{authority}")
    return found


def _check_sendable(settings: Mapping[str, str], root: str) -> None:
    """Raise `InvalidOption` for settings that no request can have: obstore panics at them."""
    for name in _IN_HEADERS:
        if (value := settings.get(name)) is not None and not (value.isascii() and value.isprintable()):
            raise InvalidOption(
                f"the setting {name!r} of {root} has letters that no header of a request can have, such as a line "
                "break. Look for a part of another text in it."
            )
    for name in _ADDRESSES:
        if (value := settings.get(name)) is not None and not _is_url(value):
            raise InvalidOption(
                f"the endpoint {redact(value)} of {root} is no address of a server. Give it as https://host:port."
            )


def _is_url(address: str) -> bool:
    """Whether an address has a scheme, a host and, if any, a port of HTTP."""
    try:
        parts = urlsplit(address)
        return parts.port != 0 and _URL.fullmatch(address) is not None
    except ValueError:  # of brackets without an address, and of ports
        return False


def _s3(options: StorageOptions, bucket: str, environment: Mapping[str, str]) -> dict[str, str]:
    arguments = {} if options.is_of_catalog else options.s3(environment)
    found = {}
    if (region := arguments.get("region") or options.region(environment)) is not None:
        found["aws_region"] = str(region)
    if arguments.get("anonymous"):
        found["aws_skip_signature"] = "true"
    if (endpoint := options.endpoint("s3", environment)) is None:
        return found
    scheme, separator, host = endpoint.partition("://")
    if not separator:
        host = endpoint
    is_plain = scheme == "http" if separator else _is_plain(options, arguments)
    if arguments.get("force_virtual_addressing") and not _is_address(host):
        host = f"{bucket}.{host}"  # object_store leaves the bucket out where it stands in the host
    elif "force_virtual_addressing" in arguments:
        found["aws_virtual_hosted_style_request"] = "false"
    found["aws_endpoint_url"] = f"{'http' if is_plain else 'https'}://{host}"
    if is_plain:
        found[ALLOW_HTTP] = "true"
    return found


def _is_plain(options: StorageOptions, arguments: Mapping[str, object]) -> bool:
    """Whether an endpoint without a scheme is one without TLS."""
    return arguments.get("scheme", options.values.get(("s3", "scheme"))) == "http"


def _is_address(host: str) -> bool:
    """Whether a host is an IP address: Arrow's client has the bucket in the path there."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name.startswith("[") or name.replace(".", "").isdigit()


def _gcs(options: StorageOptions, environment: Mapping[str, str]) -> dict[str, str]:
    arguments = options.gcs(environment)
    found = {}
    if arguments.get("anonymous"):
        found["google_skip_signature"] = "true"
    elif token := arguments.get("access_token"):
        found |= {"google_bearer_token": str(token), "google_skip_signature": "false"}
    elif other := next((each for each in _GOOGLE_FIRST if environment.get(each)), None):
        raise UnsupportedFeature(
            f"committing to Google's storage with other credentials in {other}",
            "The client of conditional puts would take these, and reading those of GOOGLE_APPLICATION_CREDENTIALS: set "
            f"that to the file, and unset {other}.",
        )
    if (address := options.google_address(environment)) is not None:
        found["google_base_url"] = address
        if arguments.get("anonymous"):  # obstore asks Google's metadata service for a token of its puts even then
            found |= {"google_bearer_token": "anonymous", "google_skip_signature": "false"}
        if address.startswith("http://"):
            found[ALLOW_HTTP] = "true"
    return found


def _abfs(options: StorageOptions, account: str, environment: Mapping[str, str]) -> dict[str, str]:
    arguments = options.abfs(account, environment)
    names = {"account_key": "azure_storage_account_key", "sas_token": "azure_storage_sas_token"}
    found = {names[name]: str(value) for name, value in arguments.items() if name in names}
    other = next((each for each in _AZURE_FIRST if environment.get(each)), None)
    if other is not None and not found and not options.is_anonymous_in_azure:
        raise UnsupportedFeature(
            f"committing to the Azure account {account} with other credentials in {other}",
            "The client of conditional puts would take these, and not those that reading uses: unset it.",
        )
    found["azure_storage_account_name"] = account
    if (address := options.azure_endpoint(account, environment)) is not None:
        found["azure_storage_endpoint"] = address
        if address.startswith("http://"):
            found[ALLOW_HTTP] = "true"
    return found


def _as_text(name: str, value: object) -> str:
    if name in ("timeout", "connect_timeout") and isinstance(value, int | float):
        return f"{value:.0f}s" if value == int(value) else f"{value * 1000:.0f}ms"
    if name == "retry_timeout":
        return str(value.total_seconds() if hasattr(value, "total_seconds") else value)
    return str(value).lower() if isinstance(value, bool) else str(value)
