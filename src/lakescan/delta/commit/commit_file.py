"""Put a commit's file into the log, if it is absent; find out whose commit has the version otherwise."""

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

# A store that asks for patience gets half a minute. Its client does not repeat requests itself: an error of the first
# one, such as a denied permission, would not prove any more that nothing was created.
PUTS = RetryPolicy(attempts=10, first=0.1, ceiling=10)
UNSENT = RetryPolicy(attempts=4, first=0.2, factor=3, ceiling=2)  # for one that cannot be connected to
_NOBODY, _OWN, _OTHER = "nobody's", "our own", "another writer's"


def commit_file(location: str, version: int) -> str:
    """Return the location of a commit's file."""
    return join(location, LOG_FOLDER, f"{version:020d}.json")


def put_commit(storage: Storage, location: str, version: int, data: bytes, own_id: str) -> bool:
    """Put the commit; False if another writer's commit has the version.

    After an error the same bytes are put again: they are the commit itself, whichever attempt arrives first. Raises
    `CommitStateUnknown` if no attempt has an answer, or a refused one cannot be looked up, and `NotCreated` if the
    commit was provably not made.
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
        # a proxy may have answered for the store, which has the file by then
        made = outcome_of(name, error, lambda: _whose(storage, file, own_id))
        if made == _NOBODY:
            raise
        return made == _OWN
    except (UnsupportedFeature, InvalidOption, LocationRefused, MissingDependency, MemoryError):
        raise
    except Exception as error:
        return outcome_of(name, error, put_or_find, policy=PUTS)


def _retry_send(look: Callable[[], bool | None]) -> bool | None:
    """Put the commit, again while nothing could be sent; raises what `look` raises, at last `NotSent`."""
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
    """Whose a commit's file is."""
    if storage.look_up([file])[0] is None:
        return _NOBODY
    return _OWN if _is_own(storage, file, own_id) else _OTHER


def _is_own(storage: Storage, file: str, own_id: str) -> bool:
    return commit_info(LogText(file, storage.read(file))).get(ID) == own_id
