"""AWS's configuration files: the region and endpoint of a profile, read here, and its credentials, which botocore gets.

The clients read keys of profiles, too, but not the endpoint: both get it from here.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lakescan.errors import InvalidOption, missing_dependency


@dataclass(frozen=True)
class Profile:
    """What a profile says of S3."""

    region: str | None = None
    endpoint: str | None = None


def find_profile(name: str | None, environment: Mapping[str, str]) -> Profile:
    """A profile of the configuration file; None: that of the environment. One that is not there says nothing."""
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
    """All profiles of a file as it was at a time; none of one that cannot be read, which AWS's own tools say."""
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
    """The settings in the lines below a setting."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}


def profile_credentials(name: str) -> dict[str, Any]:
    """The keys of a profile as arguments of pyarrow's client, and its region.

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
    """botocore's session of a profile; raises `MissingDependency`."""
    try:
        from botocore.session import Session  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_dependency("botocore", "all", f"the AWS profile {name!r}") from error
    return Session(profile=name)
