"""Where obstore's client of S3 gets credentials from, if not by itself: from where Arrow's client gets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lakescan.errors import InvalidOption, missing_dependency
from lakescan.storage.aws_profiles import botocore_session

_FRESH = timedelta(minutes=5)  # how long botocore's answer is used: it renews credentials early enough
_SESSION = "lakescan"  # the name of an assumed role's session, where none is given
Provider = Callable[[], dict[str, Any]]


def aws_credentials(settings: Mapping[str, str], environment: Mapping[str, str]) -> Provider | None:
    """Who gives credentials to a client; None: it finds them by itself, in the settings or the environment.

    Keys in the settings without a session token have none, whatever is in the environment. Without any keys, boto3
    finds them where it is installed: obstore itself knows keys, web identities and the metadata services of AWS, but
    not AWS's configuration files. Raises `MissingDependency`, `InvalidOption`.
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
        raise InvalidOption(f"the AWS profile {profile!r} has no credentials: add some, or name another")

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
    """The credentials of an assumed role, which the credentials of the environment may assume, as in Arrow."""
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
            "expires_at": keys["Expiration"].astimezone(UTC),  # obstore takes this zone alone
        }

    return provide_keys
