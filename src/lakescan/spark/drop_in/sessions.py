"""The enabled sessions: which sessions they are, the catalogs of each, and the current catalog and namespace.

A session's state is also in its own settings, because Spark copies settings to the sessions that it derives from it,
such as that of `foreachBatch`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Condition, get_ident
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary, WeakSet, ref

from lakescan.catalogs.registry import lend, register_catalog, registered_at
from lakescan.errors import LakescanError, UnsupportedFeature
from lakescan.options.session_settings import ENABLED
from lakescan.spark.drop_in.settings import DEFAULT_CATALOG, PREFIX
from lakescan.spark.following import use_scope
from lakescan.spark.session import cache_settings, conf
from lakescan.spark.statements.names import NAMESPACE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")
Refresh = Callable[["EnabledSession"], None]


class EnabledSession:
    """An enabled session.

    - `catalogs`: the properties of its Iceberg catalogs, by name.
    - `session_catalog`: the format whose tables Spark's own catalog, `spark_catalog`, may have: "delta", "iceberg" or
      None.
    - `removed`: the session settings that `enable` removed, as Spark cannot load their classes. `disable` restores
      them.
    - `changes`: the number of changes of settings in this process when the settings were read.
    """

    def __init__(
        self,
        spark: Any,
        catalogs: Mapping[str, Mapping[str, str]],
        session_catalog: str | None = None,
        removed: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = ref(spark)
        self._namespace: tuple[int, str | None] = (-1, None)
        self.update(catalogs, session_catalog, removed or {})

    def update(
        self, catalogs: Mapping[str, Mapping[str, str]], session_catalog: str | None, removed: Mapping[str, str]
    ) -> None:
        """Replace the catalogs by those that the session's settings have now."""
        self.catalogs, self.session_catalog, self.removed = catalogs, session_catalog, dict(removed)
        self.changes = _changes.of_catalogs
        self._registered: dict[str, int] = {}  # by catalog, the time of its configuration
        self._refused: set[str] = set()

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        found: SparkSession | None = self._spark()
        assert found is not None
        return found

    @property
    def namespace(self) -> str | None:
        """The value of the session setting `NAMESPACE`. The session is only asked again after a change."""
        read_at, value = self._namespace
        if read_at != (now := _changes.of_namespaces):
            with cache_settings({}):
                value = conf(self.spark, NAMESPACE)
            self._namespace = now, value
        return value

    def register_catalogs(self, *, strict: bool = False) -> None:
        """Register the session's catalogs in this process, where another session may have other ones of these names.

        A catalog with properties that are not supported is not registered: a warning is logged, and statements that
        name the catalog fail. With `strict`, raise `InvalidOption` instead.
        """
        self._lend_session_catalog()
        if self._registered and all(registered_at(name) == at for name, at in self._registered.items()):
            return
        for name, properties in self.catalogs.items():
            if name in self._refused:
                continue
            try:
                register_catalog(name, properties)
            except LakescanError as error:
                if strict:
                    raise
                self._refused.add(name)
                _LOG.warning("the catalog %s of the session's settings cannot be used: %s", name, error)
        self._registered = {name: registered_at(name) for name in self.catalogs}

    def _lend_session_catalog(self) -> None:
        """Make Spark's own catalog known in this process if it has Delta tables."""
        for name, make in _session_catalogs.items():
            lend(name, make() if self.session_catalog == "delta" else None)

    def conflicts_with(self, other: EnabledSession) -> bool:
        """Return whether a name is that of different catalogs in both sessions, which may be Spark's own catalog."""
        return self.session_catalog != other.session_catalog or self.differs_from(other)

    def differs_from(self, other: EnabledSession) -> bool:
        """Return whether both sessions have a catalog of the same name with different properties."""
        if self.catalogs is other.catalogs or self.catalogs == other.catalogs:
            return False
        return any(other.catalogs.get(name, own) != own for name, own in self.catalogs.items())

    def to_json(self) -> str:
        """Return the state as text for the session's setting `ENABLED`."""
        own = {"catalogs": self.catalogs, "session_catalog": self.session_catalog, "removed": self.removed}
        return json.dumps({"state": own, "process": _PROCESS, "changes": self.changes})

    @staticmethod
    def from_json(spark: SparkSession, text: str) -> EnabledSession:
        """Read the state of `to_json`. Changes of settings since then, or in another process, are read at first use."""
        node = json.loads(text)
        found = EnabledSession(spark, **node["state"])
        found.changes = node["changes"] if node["process"] == _PROCESS else -1
        return found


class _Changes:
    """Counters of changed settings in this process: of catalogs, and of the namespace that `USE` sets.

    PySpark's objects for settings do not know their session, so a change counts for all sessions. Reading a counter
    costs nothing, whereas asking a session for a setting is a call of the JVM or of the server.
    """

    of_catalogs = 0
    of_namespaces = 0


_PROCESS = uuid4().hex
_changes = _Changes()
_ENABLED: WeakKeyDictionary[Any, EnabledSession | None] = WeakKeyDictionary()
_ROOTS: WeakSet[Any] = WeakSet()  # sessions that were enabled by a call or a hook
_DISABLED: WeakSet[Any] = WeakSet()  # sessions that `disable` was called for
_hooks: list[Any] = []  # functions that enable a session when it is first used
_refreshes: list[Refresh] = []
_session_catalogs: dict[str, Callable[[], Any]] = {}  # by name, functions that connect to Spark's own catalog
_IN_USE: list[tuple[int, EnabledSession]] = []  # the sessions of running handlers, with their threads
_FREE = Condition()


def note_change(key: Any) -> None:
    """Record that a session setting may have changed in any session: `key`, or unknown ones if it is None."""
    if key is None or str(key).startswith((PREFIX, DEFAULT_CATALOG)):
        _changes.of_catalogs += 1
    if key is None or key == NAMESPACE:
        _changes.of_namespaces += 1


def find_session(spark: Any) -> EnabledSession | None:
    """Return the state of an enabled session; None for any other session, and for None.

    A session that Spark derived from an enabled one is enabled, too. A session that was stopped is not enabled.
    """
    if spark is None:
        return None
    try:
        found = _ENABLED[spark]
    except KeyError:
        found = _look_up(spark)
    if found is None or has_stopped(spark):
        return None
    if found.changes != _changes.of_catalogs:
        for refresh in _refreshes:
            refresh(found)
    return found


def _look_up(spark: Any) -> EnabledSession | None:
    if has_stopped(spark):
        return None
    text = conf(spark, ENABLED)
    found = None if not text else EnabledSession.from_json(spark, text)
    if found is None and spark not in _DISABLED:
        for hook in _hooks:
            found = hook(spark)
    _ENABLED[spark] = found
    return found


def has_stopped(spark: Any) -> bool:
    """Return whether a session was stopped, without a call of the JVM or the server."""
    context = spark.__dict__.get("_sc")
    if context is not None:
        return context._jsc is None
    return bool(getattr(spark, "is_stopped", False))


def on_refresh(refresh: Refresh) -> None:
    """Set the function that reads the settings of a session again after a change."""
    _refreshes[:] = [refresh]


def enable_all(hook: Any) -> None:
    """Enable each session when it is first used: `hook(spark)` returns its state."""
    _hooks[:] = [hook]
    for spark in [each for each, state in _ENABLED.items() if state is None]:
        del _ENABLED[spark]


def add_session(spark: SparkSession, state: EnabledSession) -> None:
    """Record that a session is enabled, here and in its own settings."""
    spark.conf.set(ENABLED, state.to_json())
    for other in [each for each, known in _ENABLED.items() if known is None]:
        del _ENABLED[other]  # it may stand for the same session
    _ENABLED[spark] = state
    _ROOTS.add(spark)
    _DISABLED.discard(spark)


def remove_session(spark: SparkSession) -> None:
    """Record that a session is not enabled any more."""
    spark.conf.unset(ENABLED)
    _ROOTS.discard(spark)
    for other in [each for each in _ENABLED if each not in _ROOTS]:
        del _ENABLED[other]  # it may stand for the same session
    _DISABLED.add(spark)


def has_sessions() -> bool:
    """Return whether a session is enabled, or may be later."""
    return bool(_hooks) or any(not has_stopped(each) for each in list(_ROOTS))


def check_streams(state: EnabledSession) -> None:
    """Raise `UnsupportedFeature` if another enabled session has a catalog of the same name with other properties.

    The workers of a stream serve all sessions of this process, and know a catalog by its name.
    """
    for other in list(_ENABLED.values()):
        if other is not None and other is not state and state.differs_from(other):
            raise UnsupportedFeature(
                "streams by name while two enabled sessions have different catalogs of the same name",
                "Give one of the catalogs another name, or disable the other session.",
            )


def removed_setting(owner: Any, key: str) -> str | None:
    """Return the value of a setting that `enable` removed; None if it did not.

    Args:
        owner: PySpark's object for the settings of a session, classic or Connect.
        key: The setting's name.
    """
    state = _state_of_settings(owner)
    return None if state is None else state.removed.get(key)


def forget_removed(owner: Any, key: str) -> None:
    """Forget a setting that `enable` removed, as the user unsets it: the catalog of that name is not there any more.

    For the arguments see `removed_setting`.
    """
    state = _state_of_settings(owner)
    if state is not None and state.removed.pop(key, None) is not None:
        state.spark.conf.set(ENABLED, state.to_json())


def _state_of_settings(owner: Any) -> EnabledSession | None:
    for spark, state in list(_ENABLED.items()):
        own = spark.__dict__
        client = own.get("_client")
        is_own = own.get("conf") is owner if client is None else client is getattr(owner, "_client", None)
        if is_own:
            return state
    return None


class _Settings(Mapping[str, str | None]):
    """The settings of a session that are known without asking it: the namespace."""

    def __init__(self, state: EnabledSession) -> None:
        self._state = state

    def __contains__(self, name: object) -> bool:
        return name == NAMESPACE

    def __getitem__(self, name: str) -> str | None:
        if name != NAMESPACE:
            raise KeyError(name)
        return self._state.namespace

    def __iter__(self) -> Iterator[str]:
        return iter((NAMESPACE,))

    def __len__(self) -> int:
        return 1


def use_session_catalog(name: str, make: Callable[[], Any]) -> None:
    """Set the name of Spark's own catalog, and the function that connects to the Delta tables in it."""
    _session_catalogs[name] = make


def session_in_use() -> EnabledSession | None:
    """Return the session whose handler this thread runs, else the last one that any thread uses; None without one."""
    mine = [state for thread, state in list(_IN_USE) if thread == get_ident()]
    if mine:
        return mine[-1]
    others = [state for _, state in list(_IN_USE)] or [state for state in list(_ENABLED.values()) if state is not None]
    return others[-1] if others else None


@contextmanager
def in_use(state: EnabledSession, *, strict: bool = False) -> Iterator[None]:
    """Context manager: this process's catalogs are those of a session, and its namespace is known without asking it.

    Another thread with a session whose catalogs of the same names are different ones waits until it ends. For `strict`,
    see `EnabledSession.register_catalogs`.
    """
    mine = get_ident(), state
    with _FREE:
        while any(thread != mine[0] and state.conflicts_with(other) for thread, other in _IN_USE):
            _FREE.wait()
        _IN_USE.append(mine)
    try:
        state.register_catalogs(strict=strict)
        with cache_settings(_Settings(state)):
            yield
    finally:
        with _FREE:
            _IN_USE.remove(mine)
            outer = next((other for thread, other in reversed(_IN_USE) if thread == mine[0]), None)
            if outer is not None:  # a function of the user that ran in a handler of another session
                outer.register_catalogs()
            _FREE.notify_all()


def _scope_of(spark: SparkSession) -> AbstractContextManager[None]:
    state = find_session(spark)
    return nullcontext() if state is None else in_use(state)


use_scope(_scope_of)
