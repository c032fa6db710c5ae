"""Retry policies: for commits that lost a race, for commits with an unknown outcome, and for reads after a change."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakescan.errors import CommitConflict, CommitStateUnknown, LocationRefused, NoSuchTable, StorageError

T = TypeVar("T")

_LOG = logging.getLogger("lakescan.commits")
_JITTER = 0.5  # the largest random addition to a wait, as a fraction of it, so that writers do not collide again


@dataclass(frozen=True)
class RetryPolicy:
    """The number of attempts of an operation and the waits between them.

    `attempts` includes the first attempt; None means no limit. The first wait takes `first` seconds. Each further wait
    is `factor` times longer, up to `ceiling` seconds. Up to half of each wait is added at random. No wait begins after
    `timeout` seconds. The fields correspond to Iceberg's table properties `commit.retry.*`: `num-retries` is `attempts`
    - 1, `min-wait-ms` is `first`, `max-wait-ms` is `ceiling`, and `total-timeout-ms` is `timeout`.
    """

    attempts: int | None
    first: float
    factor: float = 2.0
    ceiling: float = 1.0
    timeout: float | None = None

    def waits(self) -> Iterator[float]:
        """Yield the seconds of each wait without the random part; there is one wait fewer than attempts."""
        wait, number = min(self.first, self.ceiling), 1
        while self.attempts is None or number < self.attempts:
            yield wait
            wait, number = min(self.factor * wait, self.ceiling), number + 1

    @staticmethod
    def strictest(policies: Sequence[RetryPolicy]) -> RetryPolicy:
        """Combine policies into one: the fewest attempts, the longest waits, the shortest timeout; None: no limit."""
        return RetryPolicy(
            min((each.attempts for each in policies if each.attempts is not None), default=None),
            max(each.first for each in policies),
            max(each.factor for each in policies),
            max(each.ceiling for each in policies),
            min((each.timeout for each in policies if each.timeout is not None), default=None),
        )


# Commits that conflict with concurrent commits, and that plan their files again before each attempt.
COMMITS = RetryPolicy(attempts=30, first=0.05)
# Appends, which are valid on any snapshot or version of the table.
APPENDS = RetryPolicy(attempts=None, first=0.05, timeout=120)
# Checks of a table for a commit whose response was lost: the commit may become visible a little later.
LOOKS = RetryPolicy(attempts=4, first=0.1, factor=4)


class Attempts:
    """Counts the attempts of one operation, and waits between them by a policy.

    Example:
        >>> attempts = Attempts(COMMITS)
        >>> while True:
        ...     try:
        ...         return commit(table)
        ...     except CommitConflict as error:
        ...         attempts.wait_or_raise(table.name, error)
        ...         table = table.reopen()
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._timeout, self._waits = policy.timeout, policy.waits()
        self._started = time.monotonic()
        self.number: int = 1

    def wait(self) -> bool:
        """Wait before the next attempt and return True; return False immediately if no attempt or no time is left."""
        seconds = next(self._waits, None)
        if seconds is None or (self._timeout is not None and time.monotonic() - self._started > self._timeout):
            return False
        time.sleep(seconds * random.uniform(1, 1 + _JITTER))
        self.number += 1
        return True

    def wait_or_raise(self, name: str, error: Exception) -> None:
        """Wait before the next attempt to commit to the table `name`, after an attempt that failed with `error`.

        Raises `CommitConflict` with the number of attempts if none is left.
        """
        _LOG.debug("%s: attempt %d failed because of concurrent commits: %s", name, self.number, error)
        if not self.wait():
            seconds = time.monotonic() - self._started
            raise CommitConflict(
                f"{name}: the commit failed after {self.number} attempts in {seconds:.0f} s because of concurrent "
                f"commits: {str(error).removeprefix(f'{name}: ')}"
            ) from error


def outcome_of(
    name: str,
    error: Exception,
    look: Callable[[], T | None],
    definite: tuple[type[Exception], ...] = (),
    policy: RetryPolicy | None = None,
    *,
    doing: bool = False,
) -> T:
    """Return the outcome of a commit whose response was lost, by reading the table until `look` returns it.

    Args:
        name: The table's name; with `doing`, the operation instead, such as "dropping local.db.t".
        error: The error with which the commit ended.
        look: Reads the table again and returns the outcome; None if the commit is not there but may still arrive.
        definite: Errors of `look` that are raised immediately, because they are the outcome, such as a conflict. After
            any other error of `look`, the table is read again.
        policy: How often to read the table; `LOOKS` by default.
        doing: Whether `name` is an operation. It changes only the messages.

    Raises:
        CommitStateUnknown: The outcome is still unknown after the last read.
    """
    attempts, why = Attempts(policy or LOOKS), error
    _LOG.debug("%s: whether it succeeded is looked up after %s: %s", name, type(error).__name__, _error_message(error))
    while True:
        try:
            if (outcome := look()) is not None:
                return outcome
        except definite:
            raise
        except Exception as failure:
            why = failure
        if not attempts.wait():
            reason = "" if why is error else f" ({_error_message(why)})"
            advice = "no file is removed. Look" if doing else "its files are kept. Check the table"
            raise CommitStateUnknown(
                f"{name if doing else f'a commit to {name}'} ended with {type(error).__name__}: "
                f"{_error_message(error)}. "
                f"Whether it succeeded is unknown{reason}, so {advice} before you repeat it."
            ) from error


def _error_message(error: Exception) -> str:
    """Return an error's message; for SQLAlchemy errors, without the SQL statement and its values."""
    return str(getattr(error, "orig", None) or error)


def retry_read(read: Callable[[], T], done: str) -> T:
    """Call `read` to reopen a changed table or catalog entry, and retry by the policy `LOOKS` after a `StorageError`.

    `done` describes the completed change ("local.db.t is created, but cannot be opened") and begins the messages.
    Raises `StorageError` after the last attempt, `NoSuchTable` if another writer has dropped or renamed the table, and
    other errors immediately.
    """
    attempts = Attempts(LOOKS)
    while True:
        try:
            return read()
        except LocationRefused:
            raise
        except NoSuchTable as error:
            raise NoSuchTable(f"{done}: another writer has dropped or renamed it since") from error
        except StorageError as error:
            if not attempts.wait():
                raise StorageError(f"{done}: {error}") from error
