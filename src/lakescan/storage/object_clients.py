"""obstore's clients of buckets and containers: each means the store and the identity that Arrow's client means.

obstore takes what the settings lack from the environment, and there some variables come before settings: another
endpoint, or the session token of other keys. What the settings say is therefore said against the environment, too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from lakescan.storage.options import StorageOptions

_CLIENT = {"timeout", "connect_timeout", "proxy_url", "allow_invalid_certificates"}
_RETRIES = {"max_retries", "retry_timeout"}
_OF_DELTALAKE = {"aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "delta_dynamo_table_name"}
_PREFIXES = {"s3": "aws_", "gs": "google_", "abfss": "azure_"}  # of settings, by the scheme of a client's root
_S3_ENDPOINT = "AWS_ENDPOINT_URL_S3"  # obstore prefers it to an endpoint in the settings
_ENDPOINTS = (_S3_ENDPOINT, "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# What a client takes from the environment when it is made: where one of these has changed, another is made.
_VARIABLES = (
    *_ENDPOINTS,
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_SKIP_SIGNATURE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_KEY"),
)
_is_made = False  # whether this process has made a client
_is_forked = False  # whether this process is a fork of one that had made one
_may_wait = False  # whether this process is a fork of one that had imported obstore


def _forked() -> None:
    """After a fork, the threads of an obstore that the parent used are gone: it would wait for them for ever."""
    global _is_forked, _may_wait
    _is_forked |= _is_made
    _may_wait |= "obstore" in sys.modules


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def is_forked() -> bool:
    """Whether a request by obstore would be waited for for ever: the process was forked after its parent sent some."""
    return _is_forked


def is_usable() -> bool:
    """Whether obstore may be used where another client can do the same."""
    return not _may_wait


def may_mean_another_store(settings: StorageOptions) -> bool:
    """Whether the environment has an endpoint for obstore that Arrow does not go to."""
    return settings.endpoint("s3") is None and any(map(os.environ.get, _ENDPOINTS))


def object_store(root: str, settings: tuple[tuple[str, str], ...], *, retries: int | None = 0) -> Any:
    """The client of a bucket or container (`s3://bucket`); None: it repeats requests as often as it likes.

    `settings` are those of `StorageOptions.delta_rs`; those of other stores among them are left out.
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
    known = {name: value for name, value in settings if name not in _OF_DELTALAKE}
    client: dict[str, Any] = {name: known.pop(name) for name in _CLIENT & known.keys()}
    if known.pop("aws_allow_http", "false") == "true" and scheme == "s3":
        client["allow_http"] = True
    addresses = {"gs": "google_base_url", "abfss": "azure_storage_endpoint"}
    if known.get(addresses.get(scheme, ""), "").startswith("http://"):
        client["allow_http"] = True
    if profile := known.pop("aws_profile", None):
        known |= {f"aws_{name}": value for name, value in _of_profile(profile).items()}
    known = {name: value for name, value in known.items() if name.startswith(_PREFIXES.get(scheme, ""))}
    arguments: dict[str, Any] = {"config": known}
    if retries is not None:
        arguments["retry_config"] = {"max_retries": retries}
    if client:
        arguments["client_options"] = client
    if scheme != "s3":
        return from_url(root, **arguments)
    if (provider := _aws_credentials(known, dict(environment))) is not None:
        arguments["credential_provider"] = provider
    return S3Store(name, **{**arguments, "config": known | _against_environment(known, dict(environment))})


def _against_environment(known: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """What else to tell a client of S3, so that it takes endpoint and keys from the settings."""
    more = {}
    if "aws_endpoint_url" in known and _S3_ENDPOINT in environment:
        more["aws_endpoint_url_s3"] = known["aws_endpoint_url"]
    if "aws_endpoint_url" in known and "AWS_VIRTUAL_HOSTED_STYLE_REQUEST" in environment:
        name = "aws_virtual_hosted_style_request"  # Arrow's client has the bucket in the path there
        more[name] = known.get(name, "false")
    if "aws_access_key_id" in known and "AWS_SKIP_SIGNATURE" in environment:
        more["aws_skip_signature"] = known.get("aws_skip_signature", "false")
    return more


def _of_profile(name: str) -> dict[str, str]:
    arguments = StorageOptions.of({"profile": name}).s3({})
    names = {"access_key": "access_key_id", "secret_key": "secret_access_key"}
    return {names.get(key, key): str(value) for key, value in arguments.items()}


def _aws_credentials(settings: Mapping[str, str], environment: Mapping[str, str]) -> Any:
    """Where a client gets credentials, if not by itself from the settings or the environment.

    Keys in the settings without a session token have none, whatever is in the environment. Without any keys, boto3
    finds them where it is installed: obstore itself knows keys, web identities and the metadata services of AWS, but
    not AWS's configuration files.
    """
    key, secret = settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")
    if key is not None or secret is not None:
        if "aws_session_token" in settings or "AWS_SESSION_TOKEN" not in environment:
            return None
        found = {
            "access_key_id": key or environment.get("AWS_ACCESS_KEY_ID", ""),
            "secret_access_key": secret or environment.get("AWS_SECRET_ACCESS_KEY", ""),
            "token": None,
            "expires_at": None,
        }
        return lambda: found
    if {"aws_skip_signature", "aws_iam_role_arn"} & settings.keys() or "AWS_ACCESS_KEY_ID" in environment:
        return None
    try:
        import boto3  # type: ignore[import-untyped]
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return None
    session = boto3.Session()
    return None if session.get_credentials() is None else Boto3CredentialProvider(session)
