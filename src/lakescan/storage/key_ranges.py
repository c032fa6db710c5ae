"""Ranges of keys that divide a listing among workers: found by a few pages, whatever the keys look like.

Any boundaries divide a listing correctly, since each key is in exactly one range; pages only make the ranges alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from string import ascii_letters, digits

Range = tuple[str, str | None]  # keys after the first (exclusive), up to the second (inclusive; None: all)
_WANTED, _PROBES = 64, 256
_PLAIN = "".join(sorted(f"-./={digits}_{ascii_letters}"))


def key_ranges(
    page: Callable[[str], Sequence[str]], prefix: str, size: int, wanted: int = _WANTED, probes: int = _PROBES
) -> list[Range]:
    """Divide the keys with a prefix.

    `page` returns the first `size` keys with the prefix after a given one, in order; fewer if there are no more. It is
    called about `probes` times at most. Prefixes that have more than a page of keys are divided by their next
    character, the shortest ones first, until there are as many as `wanted`.
    """
    large, whole, left = deque([prefix]), list[str](), probes
    while large and len(large) + len(whole) < wanted and left > 0:
        first = large.popleft()
        inner, used = _divide(page, first, size, left)
        large += inner
        left -= used
        if not inner:
            whole.append(first)
    bounds = ["", *sorted(each for each in [*large, *whole] if each != prefix)]
    return [(one, bounds[at + 1] if at + 1 < len(bounds) else None) for at, one in enumerate(bounds)]


def _divide(page: Callable[[str], Sequence[str]], prefix: str, size: int, most: int) -> tuple[list[str], int]:
    """The prefixes, longer by a character or more, that have more than a page of keys; and the pages that it took."""
    found, after, used = list[str](), prefix, 0
    while used < most:
        keys, used = page(after), used + 1
        mine = [key for key in keys if key.startswith(prefix) and len(key) > len(prefix)]
        if not mine or len(mine) < len(keys) or len(keys) < size:
            return found, used  # the rest fits into a page
        shared = _common_prefix(mine[0], mine[-1])
        if len(shared) > len(prefix):  # a page of one character: are there any others, or is it a longer prefix?
            if not found and after == prefix:
                beyond, used = page(_successor(shared)), used + 1
                if not any(key.startswith(prefix) for key in beyond):
                    return [shared], used
            found.append(mine[0][: len(prefix) + 1])
            after = _successor(found[-1])
        else:
            after = mine[-1][: len(prefix) + 1]  # from the last character of the page on
    return found, used


def _common_prefix(one: str, other: str) -> str:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _successor(text: str) -> str:
    """What is after all keys with a prefix, but for some with odd characters: clients encode those in what they ask."""
    following = next((each for each in _PLAIN if each > text[-1]), None)
    return f"{text}zzzz" if following is None else text[:-1] + following
