"""Temporary credentials that a catalog vends for a table's files, each for the locations with a prefix.

They are renewed before they expire, by each process that reads or writes the files. Their values never appear in
messages, `repr` or plans.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from lakescan.common.secrets import register_secrets
from lakescan.errors import StorageError
from lakescan.storage.locations import store_of
from lakescan.storage.remote_signing import RequestSigner
from lakescan.storage.settings import find_settings

_LOG = logging.getLogger("lakescan")
_EARLY = 300  # a credential is renewed so many seconds before it expires, as in Iceberg's clients
_AGAIN = 30  # seconds before a failed renewal is retried
# Properties with the expiry of a credential, in milliseconds since 1970. Azure's ends with the account's name.
_EXPIRES = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "adls.sas-token-expires-at-ms")


def _is_secret(name: str) -> bool:
    return name.startswith("adls.sas-token.") or any(each.is_secret for each in find_settings(name))


@dataclass(frozen=True)
class Credential:
    """FileIO properties that give access to the locations with a prefix. Their values are secrets."""

    prefix: str
    properties: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        register_secrets(str(value) for name, value in self.properties.items() if _is_secret(name))

    @property
    def expires_at(self) -> float | None:
        """The earliest expiry in the properties, in seconds since 1970; None without one."""
        times = (value for name, value in self.properties.items() if name.startswith(_EXPIRES))
        known = [int(value) / 1000 for value in times if value.isascii() and value.isdecimal() and len(value) < 19]
        return min(known, default=None)

    def expires_within(self, seconds: float) -> bool:
        """Return whether the credential has expired or expires within so many seconds. False without an expiry."""
        at = self.expires_at
        return at is not None and at - seconds < time.time()


class VendedCredentials(Protocol):
    """The interface of credentials that a catalog vends for a table's files. Pickled; `repr` shows no secrets."""

    @property
    def identity(self) -> Hashable | None:
        """A key for caches that stays the same when credentials are renewed.

        None: the storage's settings are the key.
        """

    @property
    def has_credentials(self) -> bool:
        """Whether the catalog vends credentials. False for local files."""

    @property
    def signer(self) -> RequestSigner | None:
        """The signer of S3 requests, for credentials that enable remote signing and have no keys; None without one."""

    def at(self, location: str) -> Credential | None:
        """Return the credential for a location; None without one. It is the same object until the catalog renews it.

        Raises `StorageError` if the catalog does not issue a credential.
        """

    def request_write_access(self) -> VendedCredentials:
        """Return these credentials with permission to write, or themselves if the catalog decides the permissions."""


class CredentialSource(Protocol):
    """Requests credentials from a catalog. Pickled for workers."""

    def fetch(self) -> Sequence[Credential]:
        """Return new credentials; raises `StorageError`."""


class Credentials:
    """Credentials that a REST catalog vends (`VendedCredentials`). Thread-safe; workers get a copy.

    `known` are the credentials, `source` renews them if the catalog supports it, and `signer` signs S3 requests, or is
    None. The credential with the longest matching prefix applies to a location.

    Example:
        >>> Credentials([Credential("s3://lake/", {"s3.session-token": "..."})]).at("s3://lake/orders/1.parquet")
        Credential(prefix='s3://lake/')
    """

    def __init__(
        self,
        known: Sequence[Credential],
        source: CredentialSource | None = None,
        signer: RequestSigner | None = None,
    ) -> None:
        self._known, self._source = tuple(known), source
        self.signer: RequestSigner | None = signer
        self._lock, self._not_before = threading.Lock(), 0.0

    def __repr__(self) -> str:
        return f"Credentials({', '.join(sorted(each.prefix for each in self._known))})"

    def __getstate__(self) -> dict[str, Any]:
        return {"known": self._known, "source": self._source, "signer": self.signer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def identity(self) -> None:
        """Always None: the settings are the key for caches."""

    @property
    def has_credentials(self) -> bool:
        """Always True."""
        return True

    def request_write_access(self) -> Credentials:
        """Return these credentials, whose permissions the catalog decides."""
        return self

    def at(self, location: str) -> Credential | None:
        """Return the credential for a location; None without one. It is renewed if it expires within five minutes.

        Raises `StorageError` if it has expired and cannot be renewed. Without a source, it is never renewed.
        """
        with self._lock:
            found = self._longest(location)
            if found is None or not found.expires_within(_EARLY) or self._source is None:
                return found
            if found.expires_within(0) or time.monotonic() >= self._not_before:
                self._renew(found)
            return self._longest(location)

    def _renew(self, found: Credential) -> None:
        assert self._source is not None
        try:
            fetched = self._source.fetch()
        except StorageError as error:
            if found.expires_within(0):
                raise
            _LOG.warning("the credentials for %s are not renewed yet: %s", found.prefix or "a table", error)
            self._not_before = time.monotonic() + _AGAIN
            return
        self._known = _merge(self._known, fetched, instead_of=found)
        if self._longest(found.prefix) is found and found.expires_within(0):
            raise StorageError(f"the catalog has no new credentials for {found.prefix or 'the table'}: open it again")

    def _longest(self, location: str) -> Credential | None:
        fitting = [each for each in self._known if _is_under(location, each.prefix)]
        return max(fitting, key=lambda each: len(each.prefix), default=None)

    def add(self, more: Sequence[Credential], source: CredentialSource | None) -> None:
        """Add credentials, and replace those with the same prefixes. From now on, `source` renews all of them.

        If `source` is None, the earlier source stays.
        """
        with self._lock:
            self._known = _merge(self._known, more)
            self._source = source or self._source


def _is_under(location: str, prefix: str) -> bool:
    location, prefix = _unify_scheme(location), _unify_scheme(prefix)
    return location.startswith(prefix) or location + "/" == prefix


def _unify_scheme(location: str) -> str:
    """Replace the scheme of a location by the one of its kind of store: s3 for s3a."""
    scheme, separator, rest = location.partition("://")
    return store_of(scheme) + separator + rest


def _merge(
    known: Sequence[Credential], more: Sequence[Credential], instead_of: Credential | None = None
) -> tuple[Credential, ...]:
    """Return the `known` credentials and `more`, which replace those with the same prefixes.

    `instead_of` is the credential that was renewed: if it has no prefix, the new ones replace it.
    """
    new = {each.prefix for each in more}
    goes = instead_of is not None and instead_of.prefix == "" and bool(more)
    kept = (each for each in known if each.prefix not in new and not (goes and each is instead_of))
    return (*kept, *more)
