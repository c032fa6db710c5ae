"""What a storage setting is, and the kinds of values that settings have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any
from urllib.parse import quote

from lakescan.common.option_values import ValueParser, any_text, boolean, duration


class Role(Enum):
    """What a setting decides, and so who may set it; a table's metadata may set none of them.

    A catalog's server may set credentials, hosts only together with its own credentials, and how requests are made.
    Everything else is the user's own: identities, proxies, trusted certificates, local files and classes.
    """

    CREDENTIAL = "credential"
    HOST = "host"
    REQUESTS = "requests"
    OF_USER = "of the user"


_SECRETS = (
    "secret_key",
    "session_token",
    "access_token",
    "account_key",
    "sas_token",
    "client_secret",
    "azure_storage_token",
)


@dataclass(frozen=True)
class Setting:
    """One setting of a store: pyarrow's argument, object_store's name, its aliases, and the kind of its value.

    `arrow` or `delta` is empty if that library lacks the setting. `refused` is what to do instead where Arrow's client
    of the store cannot obey it: a value that asks for something is refused when a location of the store is reached.
    """

    store: str
    arrow: str
    delta: str
    names: tuple[str, ...]
    parse: ValueParser[Any] = any_text
    doc: str = ""
    refused: str = ""
    role: Role = Role.OF_USER

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the setting: store and name."""
        return self.store, self.arrow or self.delta

    @property
    def is_secret(self) -> bool:
        """Whether no text may show its value."""
        return self.role is Role.CREDENTIAL and self.key[1] in _SECRETS

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names of the setting, for this kind of value."""
        own = () if self.parse in (reversed_, milliseconds) else (self.arrow, self.delta)
        return tuple(dict.fromkeys(name.lower() for name in (*own, *self.names) if name))


def _negate(value: Any) -> bool:
    return not boolean(value)


def _parse_milliseconds(value: Any) -> float:
    """Hadoop's durations, in milliseconds if they have no unit; returns seconds."""
    text = str(value).strip()
    return duration(f"{text}ms" if text.isdecimal() else text)


def _parse_timestamp(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromtimestamp(int(value) / 1000, UTC)


def _parse_timespan(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=duration(value))


def _parse_proxy(value: Any) -> str:
    """A proxy's URI, which both clients take; pyarrow's own form is a dictionary."""
    if isinstance(value, str):
        return value
    try:
        scheme, host, port = value["scheme"], value["host"], int(value["port"])
    except KeyError as error:
        raise ValueError(error) from error
    name, password = value.get("username"), value.get("password")
    user = f"{quote(name, '')}{':' + quote(password, '') if password else ''}@" if name else ""
    return f"{scheme}://{user}{host}:{port}"


def _parse_sas(value: Any) -> str:
    """A shared access signature with its question mark: without it, Arrow takes it for a part of the path."""
    text = str(value)
    return text if text.startswith("?") else f"?{text}"


def _kind(parse: Callable[[Any], Any], expects: str) -> ValueParser[Any]:
    return ValueParser(parse, expects, "Any")


reversed_: ValueParser[Any] = _kind(_negate, "true or false")
milliseconds: ValueParser[Any] = _kind(_parse_milliseconds, "milliseconds, or a duration such as 500ms, 10s or 5m")
timestamp: ValueParser[Any] = _kind(_parse_timestamp, "milliseconds since 1970")
timespan: ValueParser[Any] = _kind(_parse_timespan, "seconds, or a duration such as 500ms, 10s or 5m")
proxy: ValueParser[Any] = _kind(_parse_proxy, "a URI, or a dictionary of scheme, host, port, username and password")
sas: ValueParser[Any] = _kind(_parse_sas, "text")
object_: ValueParser[Any] = _kind(lambda value: value, "an object of pyarrow's")
