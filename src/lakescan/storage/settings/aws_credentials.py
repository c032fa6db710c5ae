"""AWS credentials for obstore's S3 client, from the same sources as those of Arrow's client."""

from __future__ import annotations

import configparser
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from lakescan.errors import InvalidOption, missing_dependency

_FRESH = timedelta(minutes=5)  # how long credentials from botocore are used: it renews them early enough
_SESSION = "lakescan"  # the default name of an assumed role's session
Provider = Callable[[], dict[str, Any]]


def aws_credentials(settings: Mapping[str, str], environment: Mapping[str, str]) -> Provider | None:
    """Return a credential provider for obstore's client; None if the client itself finds the credentials.

    Keys in the settings without a session token are used without one, even if the environment has one. Without any
    keys, botocore finds credentials if it is installed: obstore supports keys, web identities and the metadata services
    of AWS, but not AWS's configuration files. Raises `MissingDependency`, `InvalidOption`.
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
    if settings.get("aws_skip_signature") == "true":
        return None
    if "role_arn" in settings:
        return _role_provider(settings)
    if (profile := settings.get("aws_profile")) is not None:
        return _session_provider(botocore_session(profile), profile)
    if "AWS_ACCESS_KEY_ID" in environment:
        return None
    try:
        from botocore.session import Session  # type: ignore[import-untyped]
    except ImportError:
        return None
    session = Session()
    return None if session.get_credentials() is None else _session_provider(session, "")


def _session_provider(session: Any, profile: str) -> Provider:
    if (credentials := session.get_credentials()) is None:
        raise InvalidOption(f"the AWS profile {profile!r} has no credentials: add some, or set another profile")

    def provide_keys() -> dict[str, Any]:
        found = credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.now(UTC) + _FRESH,
        }

    return provide_keys


def _role_provider(settings: Mapping[str, str]) -> Provider:
    """Return a provider that assumes a role with the credentials of the environment, like Arrow.

    Raises `MissingDependency` without botocore.
    """
    try:
        from botocore.session import Session
    except ImportError as error:
        raise missing_dependency("botocore", "all", "commits with an assumed role (role_arn)") from error
    request = {"RoleArn": settings["role_arn"], "RoleSessionName": settings.get("session_name", _SESSION)}
    if (external := settings.get("external_id")) is not None:
        request["ExternalId"] = external

    def provide_keys() -> dict[str, Any]:
        found = Session().create_client("sts", region_name=settings.get("aws_region")).assume_role(**request)
        keys = found["Credentials"]
        return {
            "access_key_id": keys["AccessKeyId"],
            "secret_access_key": keys["SecretAccessKey"],
            "token": keys["SessionToken"],
            "expires_at": keys["Expiration"].astimezone(UTC),  # obstore only accepts UTC
        }

    return provide_keys


# The clients read the keys of profiles, but not the endpoints, which are parsed here.


@dataclass(frozen=True)
class Profile:
    """The S3 settings of an AWS profile; None for one that is not set."""

    region: str | None = None
    endpoint: str | None = None


def find_profile(name: str | None, environment: Mapping[str, str]) -> Profile:
    """Return a profile of AWS's configuration file; `name` is by default that of the environment, or "default".

    Returns an empty `Profile` if the file or the profile does not exist.
    """
    name = name or environment.get("AWS_DEFAULT_PROFILE") or environment.get("AWS_PROFILE") or "default"
    home = environment.get("HOME") or environment.get("USERPROFILE") or ""
    path = environment.get("AWS_CONFIG_FILE") or os.path.join(home, ".aws", "config")
    if path.startswith("~"):
        path = home + path[1:]
    if not os.path.isabs(path):
        return Profile()
    try:
        found = os.stat(path)
    except OSError:
        return Profile()
    return _read(path, found.st_mtime_ns, found.st_size).get(name, Profile())


@lru_cache(maxsize=8)
def _read(path: str, modified: int, size: int) -> dict[str, Profile]:
    """Parse all profiles of a configuration file, by name; empty if it cannot be read.

    The result is cached. `modified` (the file's time) and `size` are only part of the cache key.
    """
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return {}
    services = {
        each.partition(" ")[2].strip(): parser[each] for each in parser.sections() if each.startswith("services ")
    }
    profiles = {}
    for section in parser.sections():
        kind, _, name = section.partition(" ")
        if section != "default" and kind != "profile":
            continue
        values = parser[section]
        ignored = values.get("ignore_configured_endpoint_urls", "").lower() == "true"
        named = services.get(values.get("services", ""))
        of_s3 = None if named is None else _parse_subsettings(named.get("s3", "")).get("endpoint_url")
        endpoint = None if ignored else of_s3 or values.get("endpoint_url")
        profiles[name.strip() or section] = Profile(values.get("region") or None, endpoint or None)
    return profiles


def _parse_subsettings(text: str) -> dict[str, str]:
    """Parse the nested settings (`name = value`) in the lines below a setting."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def profile_credentials(name: str) -> dict[str, Any]:
    """Return a profile's keys and region as arguments of pyarrow's `S3FileSystem`, without those that are not set.

    Raises `MissingDependency`, and `InvalidOption` for a profile that cannot be used.
    """
    session = botocore_session(name)
    from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

    try:
        keys, region = session.get_credentials(), session.get_config_variable("region")
        frozen = None if keys is None else keys.get_frozen_credentials()
    except (BotoCoreError, ClientError) as error:
        raise InvalidOption(f"the AWS profile {name!r} cannot be used: {error}") from error
    arguments = {"region": region}
    if frozen is not None:
        arguments |= {"access_key": frozen.access_key, "secret_key": frozen.secret_key, "session_token": frozen.token}
    return {argument: value for argument, value in arguments.items() if value is not None}


def botocore_session(name: str) -> Any:
    """Return a botocore session with a profile; raises `MissingDependency` if botocore is not installed."""
    try:
        from botocore.session import Session
    except ImportError as error:
        raise missing_dependency("botocore", "all", f"the AWS profile {name!r}") from error
    return Session(profile=name)
