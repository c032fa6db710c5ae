"""When to try again: commits that lost a race, commits whose outcome is unknown, files that are being written."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lakescan.errors import CommitConflict, CommitStateUnknown, LocationRefused, NoSuchTable, StorageError

T = TypeVar("T")

_LOG = logging.getLogger("lakescan")
_JITTER = 0.5  # of a wait: what is added to it at most, so that writers that collided do not collide again


@dataclass(frozen=True)
class RetryPolicy:
    """How often to try, and how long to wait between attempts.

    `attempts` counts the first one, too; None means any number. The first wait takes `first` seconds, each further one
    `factor` times the one before, up to `ceiling`; up to half of each is added at random. No wait begins after
    `timeout` seconds. Iceberg's table properties `commit.retry.*` describe the same: `num-retries` is `attempts` - 1,
    `min-wait-ms` is `first`, `max-wait-ms` is `ceiling`, and `total-timeout-ms` is `timeout`.
    """

    attempts: int | None
    first: float
    factor: float = 2.0
    ceiling: float = 1.0
    timeout: float | None = None

    def waits(self) -> Iterator[float]:
        """The seconds of each wait, without the random part; one fewer than the attempts."""
        wait, number = min(self.first, self.ceiling), 1
        while self.attempts is None or number < self.attempts:
            yield wait
            wait, number = min(self.factor * wait, self.ceiling), number + 1

    @staticmethod
    def strictest(policies: Sequence[RetryPolicy]) -> RetryPolicy:
        """What all of some policies allow: the fewest attempts, the longest waits, the shortest time."""
        return RetryPolicy(
            min((each.attempts for each in policies if each.attempts is not None), default=None),
            max(each.first for each in policies),
            max(each.factor for each in policies),
            max(each.ceiling for each in policies),
            min((each.timeout for each in policies if each.timeout is not None), default=None),
        )


# A commit that other writers' commits got ahead of, if its files are decided again before each attempt.
COMMITS = RetryPolicy(attempts=30, first=0.05)
# An append, which fits any state of the table.
APPENDS = RetryPolicy(attempts=None, first=0.05, timeout=120)
# Looks at a table for a commit whose response was lost: it may arrive a little later.
LOOKS = RetryPolicy(attempts=4, first=0.1, factor=4)


class Attempts:
    """The attempts of one operation by a policy.

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
        """Wait before another attempt; returns False, at once, if there is none left."""
        seconds = next(self._waits, None)
        if seconds is None or (self._timeout is not None and time.monotonic() - self._started > self._timeout):
            return False
        time.sleep(seconds * random.uniform(1, 1 + _JITTER))
        self.number += 1
        return True

    def wait_or_raise(self, name: str, error: Exception) -> None:
        """Wait before another attempt to commit to a table, after one that definitely failed with `error`.

        Raises `CommitConflict` with the number of attempts if there is none left.
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
    """The outcome of a commit that ended with `error`: whether it succeeded is looked up in the table.

    `name` is the table's; with `doing`, it says what was done instead, such as "dropping local.db.t".

    `look` reads the table anew and returns the outcome, or None if the commit is not there yet but may still arrive. If
    it raises one of the `definite` errors, that is the outcome; after any other error, the table is read again, as
    often as `policy` says, by default `LOOKS`.

    Raises:
        CommitStateUnknown: The last look has no outcome, either.
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
    """The message of an error; of a database's, without the statement and its values, which SQLAlchemy adds."""
    return str(getattr(error, "orig", None) or error)


def retry_read(read: Callable[[], T], done: str) -> T:
    """Read what a change has made; again, as often as `LOOKS` says, while storage or a catalog does not answer.

    `done` says what is done, such as "local.db.t is created, but cannot be opened". Raises `StorageError` that says it,
    too, `NoSuchTable` that does if another writer came in between, and other errors at once.
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
