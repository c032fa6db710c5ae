"""Parse arguments that several commands take."""

from __future__ import annotations

from lakescan.errors import InvalidOption


def pairs(texts: list[str] | None, usage: str) -> list[tuple[str, str]]:
    """Split `name=value` arguments at the first `=`; `texts` is None without arguments.

    Raises `InvalidOption` with the text `usage` if one has no `=`.
    """
    split = [text.partition("=") for text in texts or []]
    if any(not equals for _, equals, _ in split):
        raise InvalidOption(usage)
    return [(name, value) for name, _, value in split]
