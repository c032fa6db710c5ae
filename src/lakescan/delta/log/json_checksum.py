"""The checksum that a JSON object of the log has of its own members (protocol, "JSON checksum")."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

CHECKSUM = "checksum"


def has_right_checksum(node: Mapping[str, Any]) -> bool | None:
    """Whether an object's checksum matches its other members; None if it has none, or it cannot be computed."""
    if not isinstance(node.get(CHECKSUM), str):
        return None
    try:
        return checksum_of(node) == node[CHECKSUM]
    except (_Unknown, UnicodeEncodeError, RecursionError):
        return None


def checksum_of(node: Mapping[str, Any]) -> str:
    """The checksum of an object's members, those named `checksum` left out; there must be no floating-point number."""
    pairs = sorted(_pairs({k: v for k, v in node.items() if k != CHECKSUM}, ()))
    text = ",".join(f"{path}={value}" for path, value in pairs)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


class _Unknown(Exception):
    """A value whose canonical form is its original text, which parsing has discarded."""


def _pairs(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Path and value of each scalar, in canonical form."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _pairs(inner, (*path, _quote_text(name)))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _pairs(inner, (*path, str(place)))
    elif isinstance(value, float):
        raise _Unknown
    else:
        yield "+".join(path), _quote_text(value) if isinstance(value, str) else json.dumps(value)


def _quote_text(text: str) -> str:
    return f'"{quote(text, safe="")}"'
