"""Sixteen concurrent writers of one table, half of them in the JVM."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_WRITERS, _COMMITS = 16, 2


def written_by_many(here: Callable[[int], object], there: Callable[[int], object]) -> list[int]:
    """Commit ids, each by `here` or `there`, and return all ids; raise the first error of a writer."""

    def write(writer: int) -> list[int]:
        ids = [_COMMITS * writer + number for number in range(_COMMITS)]
        for each in ids:
            (here if writer % 2 else there)(each)
        return ids

    with ThreadPoolExecutor(_WRITERS) as pool:
        return [each for ids in pool.map(write, range(_WRITERS)) for each in ids]
