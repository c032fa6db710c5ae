"""Credentials that a Unity Catalog issues for a table's files, as FileIO properties, and their renewal times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakescan.catalogs.unity.client import UnityResponse
from lakescan.errors import CorruptMetadata, StorageError
from lakescan.storage.locations import normal, split_location, store_of
from lakescan.storage.vended_credentials import Credential

# Credentials are renewed this many seconds before they expire, but not before this fraction of their lifetime.
_MARGIN = 300.0
_SHARE = 0.5
_UNCLEAR = 60.0  # seconds of use for credentials that, by the local clock, had expired when they were issued
_SECONDS = 100_000_000_000  # times from this number on are in milliseconds (March 1973), smaller ones in seconds
# FileIO properties by their names in the API of Delta tables.
_NAMES = {
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "gcs.oauth-token": "gcs.oauth2.token",
    "azure.sas-token": "adls.sas-token",
}
# In the older API: the member of the response, its member, and the FileIO property.
_OLD_NAMES = (
    ("aws_temp_credentials", "access_key_id", "s3.access-key-id"),
    ("aws_temp_credentials", "secret_access_key", "s3.secret-access-key"),
    ("aws_temp_credentials", "session_token", "s3.session-token"),
    ("gcp_oauth_token", "oauth_token", "gcs.oauth2.token"),
    ("azure_user_delegation_sas", "sas_token", "adls.sas-token"),
)


@dataclass(frozen=True)
class IssuedCredentials:
    """Credentials as FileIO properties.

    At `renewal`, new ones are requested, and at `expiry`, these become invalid. Both are in seconds since 1970, or None
    if the credentials do not expire.
    """

    properties: Mapping[str, str] = field(repr=False)
    renewal: float | None = None
    expiry: float | None = None

    @staticmethod
    def until(properties: Mapping[str, str], expiry_millis: Any, location: str) -> IssuedCredentials:
        """Return credentials for `location` that expire at `expiry_millis`, or never if it is not a valid time.

        `expiry_millis` is in milliseconds since 1970. Credentials for Azure get the account of the location.
        """
        of_location = _account_properties(location) if "adls.sas-token" in properties else {}
        expiry, now = _seconds(expiry_millis), time.time()
        if expiry is None:
            return IssuedCredentials({**of_location, **properties})
        if expiry <= now:  # already expired: the clocks differ, and requesting new ones would not help
            return IssuedCredentials({**of_location, **properties}, now + _UNCLEAR, now + _UNCLEAR)
        if "gcs.oauth2.token" in properties:
            of_location = {"gcs.oauth2.token-expires-at": str(int(expiry * 1000))}
        margin = min(_MARGIN, (expiry - now) * _SHARE)
        return IssuedCredentials({**of_location, **properties}, expiry - margin, expiry)

    @cached_property
    def credential(self) -> Credential:
        """These properties as the credential for all locations, always the same object: connections are reused."""
        return Credential("", self.properties)

    @property
    def is_due(self) -> bool:
        """Whether it is time to request new credentials."""
        return self.renewal is not None and time.time() >= self.renewal

    @property
    def is_valid(self) -> bool:
        """Whether the credentials can still be used."""
        return self.expiry is None or time.time() < self.expiry


def parse_credentials(answer: UnityResponse, location: str) -> IssuedCredentials:
    """Return the credentials with the longest matching prefix of the location, from a response of the Delta tables API.

    Raises `StorageError` if no prefix matches, `CorruptMetadata` if they cannot be read.
    """
    place = f"{normal(location)}/"
    prefixes = [(normal(each.text("prefix") or ""), each) for each in answer.nodes("storage-credentials")]
    fitting = [(prefix, each) for prefix, each in prefixes if place.startswith(f"{prefix}/")]
    if not fitting:
        raise StorageError(f"the catalog issues no credentials for {location} ({answer.request})")
    chosen = max(fitting, key=lambda each: len(each[0]))[1]
    found = {_NAMES[name]: value for name, value in chosen.texts("config").items() if name in _NAMES and value}
    return IssuedCredentials.until(found, chosen.get("expiration-time-ms"), location)


def parse_legacy_credentials(answer: UnityResponse, location: str) -> IssuedCredentials:
    """Return the credentials in a `temporary-table-credentials` response (older API); raises `CorruptMetadata`."""
    known = ((name, answer.node(member).text(inner)) for member, inner, name in _OLD_NAMES)
    found = {name: value for name, value in known if value is not None}
    return IssuedCredentials.until(found, answer.get("expiration_time"), location)


def valid_credentials(known: IssuedCredentials | None, ask: Callable[[], IssuedCredentials]) -> IssuedCredentials:
    """Return `known` credentials until they are due for renewal, then new ones from `ask`.

    If `ask` fails, the known credentials are used until they expire. Then, and without known ones, its error is raised.
    """
    if known is not None and not known.is_due:
        return known
    try:
        return ask()
    except (CorruptMetadata, StorageError):  # the known credentials may still be valid
        if known is None or not known.is_valid:
            raise
        return known


def has_credentials(location: str) -> bool:
    """Return whether files at a location are accessed with credentials, that is, are not local."""
    scheme = split_location(location)[0]
    return store_of(scheme) != "file"


def _seconds(millis: Any) -> float | None:
    """Convert a server's time, a number or text in milliseconds or seconds, to seconds since 1970; None for others."""
    if isinstance(millis, bool) or not isinstance(millis, int | float | str):
        return None
    try:
        value = float(millis)
    except (ValueError, OverflowError):
        return None
    if not 0 < value < math.inf:
        return None
    return value if value < _SECONDS else value / 1000


def _account_properties(location: str) -> dict[str, str]:
    """Return `adls.account-name` from a location such as `abfss://container@account.dfs.core.windows.net/path`.

    Empty if the location has no account.
    """
    host = split_location(location)[1].partition("@")[2]
    return {"adls.account-name": host.split(".")[0]} if host else {}
