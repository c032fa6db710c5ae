"""Ids of identity columns, assigned by tasks that know nothing of each other, so that no id is given twice.

An id is `mark + k * step` with a positive number k. A write of one task takes all k. Of many tasks, each takes the k
that end, in binary, in the task's own code: `1` for task 0, `010` and `110` for tasks 1 and 2, `00100` for task 3, and
so on. No code ends in another one (they are Elias gamma codes of the task's number plus 1), so any number of tasks has
ids of its own, and few tasks leave small gaps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.errors import SchemaMismatch

_LONGS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Identity:
    """An identity column: ids follow `mark`, the last one in the direction of `step`.

    - `mark`: of a column without ids yet, `start - step`.
    - `takes_values`: whether rows may give ids of their own.
    """

    step: int
    mark: int
    takes_values: bool


class IdentityValues:
    """The ids that one task assigns to its rows, in order."""

    def __init__(self, identity: Identity, task: int | None) -> None:
        self._identity = identity
        self._next, self._stride = _numbers_of(task)
        self.mark: int | None = None  # the last id

    def take(self, count: int) -> pa.Array:
        """The ids of the next `count` rows; raises `SchemaMismatch` if the column has no more."""
        first = self._identity.mark + self._next * self._identity.step
        by = self._stride * self._identity.step
        if not count:
            return pa.array([], pa.int64())
        last = first + (count - 1) * by
        if not all(_LONGS[0] <= each <= _LONGS[1] for each in (first, last)):
            raise SchemaMismatch(f"an identity column has no more ids after {self._identity.mark}")
        self._next += count * self._stride
        self.mark = last
        return pa.array(first + np.arange(count, dtype=np.int64) * np.int64(by if count > 1 else 0))


def _numbers_of(task: int | None) -> tuple[int, int]:
    """The first k of a task, and the distance to its next; without a number, the write has no other task.

    A code has as many zeros at its end as bits before its last 1; those bits tell tasks apart.
    """
    if task is None:
        return 1, 1
    bits = (task + 1).bit_length() - 1
    more = task + 1 - (1 << bits)
    return (more << (bits + 1)) | (1 << bits), 1 << (2 * bits + 1)
