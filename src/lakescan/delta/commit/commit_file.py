"""Create a commit file in the log with put-if-absent; if the version is taken, find out whose commit it is."""

from __future__ import annotations

from collections.abc import Callable

from lakescan.common.retries import Attempts, RetryPolicy, outcome_of
from lakescan.delta.log.log_text import LogText
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.log.time_travel import commit_info
from lakescan.errors import InvalidOption, LocationRefused, MissingDependency, UnsupportedFeature
from lakescan.storage import Storage, join
from lakescan.storage.put_if_absent import NotCreated, NotReady, NotSent, put_if_absent

ID = "txnId"  # member of commitInfo with the commit's own id, as in Delta on Spark

# A store that asks to slow down gets half a minute. The storage client does not retry by itself: after its retries, an
# error such as a denied permission would no longer prove that nothing was created.
PUTS = RetryPolicy(attempts=10, first=0.1, ceiling=10)
UNSENT = RetryPolicy(attempts=4, first=0.2, factor=3, ceiling=2)  # for a store that cannot be connected to
_NOBODY, _OWN, _OTHER = "nobody's", "our own", "another writer's"


def commit_file(location: str, version: int) -> str:
    """Return the location of the log file of a version."""
    return join(location, LOG_FOLDER, f"{version:020d}.json")


def put_commit(storage: Storage, location: str, version: int, data: bytes, own_id: str) -> bool:
    """Create the commit file of a version; return False if another writer's commit has the version.

    After an error the same `data` is put again: it is the commit, whichever attempt succeeds. `own_id` is the `txnId`
    in it, which identifies the commit in the log. Raises `CommitStateUnknown` if no attempt gets a response or the file
    cannot be looked up after a rejection, and `NotCreated` if the commit was provably not made.
    """
    file = commit_file(location, version)

    def put_or_find() -> bool | None:
        return True if put_if_absent(storage, file, data) else _is_own(storage, file, own_id)

    name = f"{location} (version {version})"
    try:
        return bool(_retry_send(put_or_find))
    except NotSent:
        raise
    except NotCreated as error:
        # the error may come from a proxy, although the store has created the file
        made = outcome_of(name, error, lambda: _whose(storage, file, own_id))
        if made == _NOBODY:
            raise
        return made == _OWN
    except (UnsupportedFeature, InvalidOption, LocationRefused, MissingDependency, MemoryError):
        raise
    except Exception as error:
        return outcome_of(name, error, put_or_find, policy=PUTS)


def _retry_send(look: Callable[[], bool | None]) -> bool | None:
    """Return the result of `look`, which puts the commit; call it again as long as the request cannot be sent.

    Raises the errors of `look`, and `NotSent` after the last attempt.
    """
    attempts: Attempts | None = None
    while True:
        try:
            return look()
        except NotSent as error:
            if attempts is None:
                attempts = Attempts(PUTS if isinstance(error, NotReady) else UNSENT)
            if not attempts.wait():
                raise


def _whose(storage: Storage, file: str, own_id: str) -> str:
    """Return whose commit the file holds: `_NOBODY` if it does not exist, `_OWN`, or `_OTHER` (another writer's)."""
    if storage.look_up([file])[0] is None:
        return _NOBODY
    return _OWN if _is_own(storage, file, own_id) else _OTHER


def _is_own(storage: Storage, file: str, own_id: str) -> bool:
    return commit_info(LogText(file, storage.read(file))).get(ID) == own_id
