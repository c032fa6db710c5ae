"""obstore's clients of buckets and containers, configured for the same store and identity as Arrow's clients.

obstore completes settings from the environment, where some variables override settings: another endpoint, or the
session token of other keys. Settings are therefore also passed so that these variables have no effect.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

from lakescan.errors import InvalidOption
from lakescan.storage.settings import StorageOptions
from lakescan.storage.settings.aws_credentials import aws_credentials
from lakescan.storage.settings.obstore_settings import ALLOW_HTTP, PROFILE, ROLE, client_settings

# Keys that obstore and Arrow send unchanged.
PLAIN_KEY = re.compile(r"(?:(?!\.{1,2}/)[A-Za-z0-9_.=-]+/)*(?!\.{1,2}$)[A-Za-z0-9_.=-]+")
_S3_ENDPOINT = "AWS_ENDPOINT_URL_S3"  # obstore prefers it to an endpoint in the settings
_ENDPOINTS = (_S3_ENDPOINT, "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Variables that a client reads when it is created. If one of them changes, a new client is created.
_VARIABLES = (
    *_ENDPOINTS,
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_SKIP_SIGNATURE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
    *("AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"),
)
_is_made = False  # whether this process has created a client
_is_forked = False  # whether this process was forked from one that had created a client
_may_wait = False  # whether this process was forked from one that had imported obstore


def _mark_fork() -> None:
    """Record that this process was forked: obstore would wait forever for threads that only the parent has."""
    global _is_forked, _may_wait
    _is_forked |= _is_made
    _may_wait |= "obstore" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_fork)


def is_forked() -> bool:
    """Return whether requests by obstore would hang: this process was forked from one that had created a client."""
    return _is_forked


def is_usable() -> bool:
    """Return whether obstore may replace another client: not in a process forked after obstore was imported."""
    return not _may_wait


def may_mean_another_store(settings: StorageOptions) -> bool:
    """Return whether the environment has an S3 endpoint that obstore would use, but Arrow's client does not."""
    return settings.endpoint("s3") is None and any(map(os.environ.get, _ENDPOINTS))


def may_replace_arrow(settings: StorageOptions) -> bool:
    """Return whether obstore is installed, and can send S3 requests instead of Arrow's client, to the same store."""
    is_installed = importlib.util.find_spec("obstore") is not None
    return is_installed and is_usable() and not may_mean_another_store(settings)


def client_config(options: StorageOptions, root: str) -> tuple[tuple[str, str], ...]:
    """Return the settings that `object_store` takes, for a bucket or container (`root`, such as `s3://bucket`).

    Raises the errors of `client_settings`.
    """
    scheme, _, authority = root.partition("://")
    return tuple(sorted(client_settings(options, scheme, authority).items()))


def object_store(root: str, settings: tuple[tuple[str, str], ...], *, retries: int | None = 0) -> Any:
    """Return obstore's client of a bucket or container (`root`, such as `s3://bucket`), which is cached.

    `settings` are those of `client_config`. `retries` limits the retries of a request; None is obstore's default.
    Unless it is 0, the setting `max_retries` takes precedence. Raises `MissingDependency`, `InvalidOption`, and
    obstore's errors.
    """
    return _client(root, settings, environment_of_clients(), retries)


def environment_of_clients() -> tuple[tuple[str, str], ...]:
    """Return (name, value) of the set environment variables that obstore's clients read when they are created."""
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
    """Remove the options of the HTTP client from `config`, and return them as obstore's `client_options`.

    Raises `InvalidOption` if the file of certificate authorities cannot be read.
    """
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
    """Remove the retry settings from `config`, and return them as obstore's `retry_config`; None without any.

    With `retries=0`, requests are not retried.
    """
    most, seconds = config.pop("max_retries", None), config.pop("retry_timeout", None)
    found: dict[str, Any] = {} if retries is None else {"max_retries": retries}
    if retries != 0 and most is not None:
        found["max_retries"] = int(most)
    if seconds is not None:
        found["retry_timeout"] = timedelta(seconds=float(seconds))
    return found or None


def _azure_secret(config: dict[str, str]) -> Callable[[], dict[str, Any]] | None:
    """Remove the account key or signature from `config`, and return a provider of it; None without one.

    With a provider, obstore does not prefer a key in the environment.
    """
    key, sas = config.pop("azure_storage_account_key", None), config.pop("azure_storage_sas_token", None)
    if key is None and sas is None:
        return None
    found = {"access_key": key} if key is not None else {"sas_token": sas}
    return lambda: {**found, "expires_at": None}


def _against_environment(known: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return settings that make obstore's S3 client ignore the endpoint and signing options in the environment.

    `known` are the client's settings.
    """
    more = {}
    if "aws_endpoint_url" in known and _S3_ENDPOINT in environment:
        more["aws_endpoint_url_s3"] = known["aws_endpoint_url"]
    if "aws_endpoint_url" in known and "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" in environment:
        name = "aws_virtual_hosted_style_request"  # Arrow's client puts the bucket into the path
        more[name] = known.get(name, "false")
    if "AWS_SKIP_SIGNATURE" in environment:
        more["aws_skip_signature"] = known.get("aws_skip_signature", "false")
    return more
