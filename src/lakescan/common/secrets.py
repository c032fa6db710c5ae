"""Registry of secrets that this process was given, which lakescan hides in messages, log lines, warnings and `repr`s.

Catalogs, storage settings and credentials issued by catalogs register their secrets here. Errors of other libraries may
quote them, such as an invalid header or an address that cannot be resolved, so text is searched for secrets before it
is shown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

_LEAST = 5  # characters; shorter secrets would occur in every message
_BEFORE, _AFTER = "([:='\"]|Bearer )", r"(?=[@&'\",;\s\\]|$)"  # around a value
_WORD = 12  # letters; longer secrets cannot be ordinary words of a message
_MOST = 20_000  # secrets; the oldest are forgotten first
_KNOWN: dict[str, None] = {}
_PASSWORD = re.compile(r"(?:^|//)[^/@:\s]*:([^/\s]+)@")  # in an address
_SIGNED = re.compile(r"[?&](?:sig|token|password|secret|X-Amz-(?:Signature|Security-Token))=([^&\s]+)", re.I)


class Secret(str):
    """A string whose `repr` does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_secret, (str(self),)


def secret(value: Any) -> Secret:
    """Return a text as a `Secret` and register it; surrounding white space, such as a file's line end, is removed.

    Example:
        >>> secret("s3cr3t\\n")
        Secret('***')
    """
    text = str(value).strip()
    register_secrets([text, *text.split(":")[1:]])  # also the secret in `client_id:client_secret`
    return Secret(text)


def register_secrets(values: Iterable[str]) -> None:
    """Register texts that `hide_secrets` hides from now on, also stripped and URL-encoded.

    Texts of fewer than `_LEAST` characters are not registered. Beyond `_MOST` secrets, the oldest are forgotten.
    """
    for value in values:
        for each in {value, value.strip(), quote(value, safe="")}:
            if len(each) >= _LEAST:
                _KNOWN.pop(each, None)
                _KNOWN[each] = None
    while len(_KNOWN) > _MOST:
        _KNOWN.pop(next(iter(_KNOWN)), None)


def register_address_secrets(value: Any) -> None:
    """Register the password (`user:password@`) and signature or token parameters of a URL as secrets.

    Nothing is registered if it has none. If the password has an unescaped `@`, its parts are registered, too.
    """
    text = str(value)
    for match in _PASSWORD.finditer(text):
        register_secrets([match[1], unquote(match[1]), *match[1].split("@")])
    register_secrets(_SIGNED.findall(text))


def hide_secrets(text: str) -> str:
    """Replace each registered secret in a text with `***`.

    A secret that looks like an ordinary word (`another`) is replaced only where it is a value: in `:another@`,
    `=another`, in quotes, and in `Bearer another`.
    """
    for each in sorted((each for each in list(_KNOWN) if each in text), key=len, reverse=True):
        if each.isalpha() and len(each) < _WORD:
            text = re.sub(f"{_BEFORE}{each}{_AFTER}", r"\1***", text)
        else:
            text = text.replace(each, "***")
    return text


def hide_error_secrets(error: BaseException) -> None:
    """Replace secrets with `***` in another library's error and in its causes, which tracebacks print. Changes them."""
    for each in iter_causes(error):
        _hide_in_one(each)


def iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, then its cause or context, and so on. Each is yielded once, also if an error causes itself."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


_TEXTS = (str, bytes, dict, list, tuple, set)  # texts, and collections that may contain texts
_OF_ERRORS = ("strerror", "filename", "filename2", "object")  # attributes of `OSError` and `UnicodeError`, set in C


def _hide_in_one(error: BaseException) -> None:
    """Replace secrets with `***` in one error's arguments and attributes, and thus in its text and `repr`.

    Only attributes with texts, bytes or collections change. They are set through `object`, because Thrift's error
    classes prevent setting attributes.
    """
    _set_args(error, tuple(map(_mask_secrets, error.args)))
    for name in (*getattr(error, "__dict__", ()), *_OF_ERRORS):
        value = getattr(error, name, None)
        if isinstance(value, _TEXTS) and (without := _mask_secrets(value)) is not value:
            with suppress(AttributeError, TypeError):
                object.__setattr__(error, name, without)
    shown = str(error)
    if (without := hide_secrets(shown)) != shown:
        _set_args(error, (without,))


def _set_args(error: BaseException, args: tuple[Any, ...]) -> None:
    if args != error.args:
        object.__setattr__(error, "args", args)


def _mask_secrets(value: Any) -> Any:
    """Return a text or bytes with `***` for each secret, and another object with secrets in its `repr` as that text.

    A value without secrets is returned unchanged.
    """
    if isinstance(value, bytes):
        text = value.decode("utf-8", "surrogateescape")
        return value if (without := hide_secrets(text)) == text else without.encode("utf-8", "surrogateescape")
    if isinstance(value, str):
        return value if (without := hide_secrets(value)) == value else without
    return (
        value
        if isinstance(value, int | float | None) or hide_secrets(shown := repr(value)) == shown
        else hide_secrets(shown)
    )


class _SecretFilter(logging.Filter):
    """A logging filter that replaces secrets in log messages with `***`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Replace secrets in the record's message with `***`, and return True, so that the record is logged."""
        shown = record.getMessage()
        if (without := hide_secrets(shown)) != shown:
            record.msg, record.args = without, ()
        return True


def _unpickle_secret(text: str) -> Secret:
    return secret(text)


_CLIENTS = ("botocore.auth", "botocore.endpoint", "urllib3.connectionpool")  # these log headers and addresses
_LOGGERS = tuple(f"lakescan{each}" for each in ("", ".planning", ".requests", ".commits", ".metrics", ".sql"))
for _name in (*_LOGGERS, *_CLIENTS):  # filters do not apply to child loggers
    logging.getLogger(_name).addFilter(_SecretFilter())
