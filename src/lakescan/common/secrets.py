"""Secrets that this process has been given: no message, log line, warning or `repr` of lakescan's shows them.

Catalogs, storage settings and credentials that catalogs issue add theirs. Texts of other libraries may quote them: of a
header that is not valid, of an address that cannot be resolved. So texts are looked through when they are shown.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

_LEAST = 5  # letters; shorter texts are in every message
_BEFORE, _AFTER = "([:='\"]|Bearer )", r"(?=[@&'\",;\s\\]|$)"  # of a value
_WORD = 12  # letters; a text of more is no word of a message
_MOST = 20_000  # secrets; the oldest are forgotten first
_KNOWN: dict[str, None] = {}
_PASSWORD = re.compile(r"(?:^|//)[^/@:\s]*:([^/\s]+)@")  # in an address
_SIGNED = re.compile(r"[?&](?:sig|token|password|secret|X-Amz-(?:Signature|Security-Token))=([^&\s]+)", re.I)


class Secret(str):
    """A text whose `repr` hides it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret('***')"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_secret, (str(self),)


def secret(value: Any) -> Secret:
    """Return a text as a secret, without the white space around it, such as the line end of a file.

    Example:
        >>> secret("s3cr3t\\n")
        Secret('***')
    """
    text = str(value).strip()
    register_secrets([text, *text.split(":")[1:]])  # of `client_id:client_secret`, the latter alone
    return Secret(text)


def register_secrets(values: Iterable[str]) -> None:
    """Hide these texts from now on."""
    for value in values:
        for each in {value, value.strip(), quote(value, safe="")}:
            if len(each) >= _LEAST:
                _KNOWN.pop(each, None)
                _KNOWN[each] = None
    while len(_KNOWN) > _MOST:
        _KNOWN.pop(next(iter(_KNOWN)), None)


def register_address_secrets(value: Any) -> None:
    """Hide the password and the signature in an address; of a password that was not quoted, its parts, too."""
    text = str(value)
    for match in _PASSWORD.finditer(text):
        register_secrets([match[1], unquote(match[1]), *match[1].split("@")])
    register_secrets(_SIGNED.findall(text))


def hide_secrets(text: str) -> str:
    """Return a text with `***` in the place of each secret.

    One that looks like a word of a message (`another`) is hidden where it is a value: in `:another@`, `=another`, in
    quotes, and in `Bearer another`.
    """
    for each in sorted((each for each in list(_KNOWN) if each in text), key=len, reverse=True):
        if each.isalpha() and len(each) < _WORD:
            text = re.sub(f"{_BEFORE}{each}{_AFTER}", r"\1***", text)
        else:
            text = text.replace(each, "***")
    return text


def hide_error_secrets(error: BaseException) -> None:
    """Hide secrets in the texts of an error of another library and of its causes, which tracebacks show."""
    for each in iter_causes(error):
        _hide_in_one(each)


def iter_causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, each once: an error that is raised again may be one of its own causes."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__


_TEXTS = (str, bytes, dict, list, tuple, set)  # and collections that may have some
_OF_ERRORS = ("strerror", "filename", "filename2", "object")  # attributes of errors in C: `OSError`, `UnicodeError`


def _hide_in_one(error: BaseException) -> None:
    """Hide secrets in the arguments of an error and in its texts, and so in its own text and `repr`.

    Objects that an error carries, such as a view that was found, stay what they are. Thrift's errors let nobody set
    their attributes: their classes are passed by.
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
    """Return a value without secrets: a text or bytes with `***`, and for another object with secrets its `repr`."""
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
    """Hides secrets in log lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the line; True."""
        shown = record.getMessage()
        if (without := hide_secrets(shown)) != shown:
            record.msg, record.args = without, ()
        return True


def _unpickle_secret(text: str) -> Secret:
    return secret(text)


_CLIENTS = ("botocore.auth", "botocore.endpoint", "urllib3.connectionpool")  # which log headers and addresses
for _name in ("lakescan", "lakescan.metrics", "lakescan.sql", *_CLIENTS):  # a logger's filter sees none below it
    logging.getLogger(_name).addFilter(_SecretFilter())
