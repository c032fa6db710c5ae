"""Credentials that the catalog issues for a table's files, as FileIO properties, and when they have to be renewed."""

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

_MARGIN = 300.0  # seconds before they expire, at most: tasks that have got them need them for some time
_SHARE = 0.5  # of their lifetime: what is left of it when they are renewed, at most
_UNCLEAR = 60.0  # seconds that credentials are used which expired, by the clock here, before they were issued
_SECONDS = 100_000_000_000  # the least number that means milliseconds: March 1973; a smaller one means seconds
# Names of the API of Delta tables, as those of FileIO.
_NAMES = {
    "s3.access-key-id": "s3.access-key-id",
    "s3.secret-access-key": "s3.secret-access-key",
    "s3.session-token": "s3.session-token",
    "gcs.oauth-token": "gcs.oauth2.token",
    "azure.sas-token": "adls.sas-token",
}
# Those of the older API: the member of the answer, its member, and the FileIO property.
_OLD_NAMES = (
    ("aws_temp_credentials", "access_key_id", "s3.access-key-id"),
    ("aws_temp_credentials", "secret_access_key", "s3.secret-access-key"),
    ("aws_temp_credentials", "session_token", "s3.session-token"),
    ("gcp_oauth_token", "oauth_token", "gcs.oauth2.token"),
    ("azure_user_delegation_sas", "sas_token", "adls.sas-token"),
)


@dataclass(frozen=True)
class IssuedCredentials:
    """Properties with secrets; `renewal` and `expiry` are in seconds since 1970, None if they do not expire."""

    properties: Mapping[str, str] = field(repr=False)
    renewal: float | None = None
    expiry: float | None = None

    @staticmethod
    def until(properties: Mapping[str, str], expiry_millis: Any, location: str) -> IssuedCredentials:
        """Properties that expire at a time in milliseconds since 1970; never, for what is no such time."""
        of_location = _account_properties(location) if "adls.sas-token" in properties else {}
        expiry, now = _seconds(expiry_millis), time.time()
        if expiry is None:
            return IssuedCredentials({**of_location, **properties})
        if expiry <= now:  # when it is issued: the clocks differ, and to ask each time would not help
            return IssuedCredentials({**of_location, **properties}, now + _UNCLEAR, now + _UNCLEAR)
        if "gcs.oauth2.token" in properties:
            of_location = {"gcs.oauth2.token-expires-at": str(int(expiry * 1000))}
        margin = min(_MARGIN, (expiry - now) * _SHARE)
        return IssuedCredentials({**of_location, **properties}, expiry - margin, expiry)

    @cached_property
    def credential(self) -> Credential:
        """The properties as what gives access to all locations of the table: the same object each time."""
        return Credential("", self.properties)

    @property
    def is_due(self) -> bool:
        """Whether they are to be renewed."""
        return self.renewal is not None and time.time() >= self.renewal

    @property
    def is_valid(self) -> bool:
        """Whether they can still be used."""
        return self.expiry is None or time.time() < self.expiry


def parse_credentials(answer: UnityResponse, location: str) -> IssuedCredentials:
    """The credentials of an answer of the API of Delta tables, of those for the longest prefix of the location.

    Raises `StorageError` if there are none, `CorruptMetadata` if they cannot be read.
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
    """The credentials of an answer of `temporary-table-credentials`."""
    known = ((name, answer.node(member).text(inner)) for member, inner, name in _OLD_NAMES)
    found = {name: value for name, value in known if value is not None}
    return IssuedCredentials.until(found, answer.get("expiration_time"), location)


def valid_credentials(known: IssuedCredentials | None, ask: Callable[[], IssuedCredentials]) -> IssuedCredentials:
    """Credentials that are valid: those that are known until they are due, and after that while there are no others."""
    if known is not None and not known.is_due:
        return known
    try:
        return ask()
    except (CorruptMetadata, StorageError):  # those that are there may be good for a while
        if known is None or not known.is_valid:
            raise
        return known


def has_credentials(location: str) -> bool:
    """Whether files of a location are accessed with credentials."""
    scheme = split_location(location)[0]
    return store_of(scheme) != "file"


def _seconds(millis: Any) -> float | None:
    """A time in seconds since 1970; servers also give texts, and seconds. None for what is no time."""
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
    """The account of a location in Azure: `abfss://container@account.dfs.core.windows.net/path`."""
    host = split_location(location)[1].partition("@")[2]
    return {"adls.account-name": host.split(".")[0]} if host else {}
