"""The enabled sessions: which sessions they are, the catalogs of each, and the current catalog and namespace.

A session's state is also in its own settings, because Spark copies settings to the sessions that it derives from it,
such as that of `foreachBatch`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from lakescan.catalogs.registry import register_catalog
from lakescan.spark.session import conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE = "spark.lakescan.enabled"  # session setting: the session's catalogs and sources, as JSON


@dataclass(frozen=True)
class EnabledSession:
    """An enabled session.

    - `catalogs`: the properties of its Iceberg catalogs, by name.
    - `session_catalog`: the format whose tables Spark's own catalog, `spark_catalog`, may have: "delta", "iceberg" or
      None.
    - `removed`: the session settings that `enable` removed, as Spark cannot load their classes; `disable` restores them.
    """

    _spark: ref[Any] = field(repr=False)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    session_catalog: str | None = None
    removed: Mapping[str, str] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        found: SparkSession | None = self._spark()
        assert found is not None
        return found

    def register_catalogs(self) -> None:
        """Register the session's catalogs in this process, where another session may have other ones of these names."""
        for name, properties in self.catalogs.items():
            register_catalog(name, properties)

    def to_json(self) -> str:
        """Return the state as text for the session's setting `STATE`."""
        return json.dumps(
            {"catalogs": self.catalogs, "session_catalog": self.session_catalog, "removed": self.removed}
        )

    @staticmethod
    def from_json(spark: SparkSession, text: str) -> EnabledSession:
        """Read the state of `to_json`."""
        return EnabledSession(ref(spark), **json.loads(text))


_ENABLED: WeakKeyDictionary[Any, EnabledSession | None] = WeakKeyDictionary()
_hooks: list[Any] = []  # functions that enable a session when it is first used


def find_session(spark: Any) -> EnabledSession | None:
    """Return the state of an enabled session; None for any other session, and for None.

    A session that Spark derived from an enabled one is enabled, too.
    """
    if spark is None:
        return None
    if spark in _ENABLED:
        return _ENABLED[spark]
    text = conf(spark, STATE)
    found = None if not text else EnabledSession.from_json(spark, text)
    if found is None:
        for hook in _hooks:
            found = hook(spark)
    _ENABLED[spark] = found
    return found


def enable_all(hook: Any) -> None:
    """Enable each session when it is first used: `hook(spark)` returns its state."""
    _hooks[:] = [hook]
    for spark in [each for each, state in _ENABLED.items() if state is None]:
        del _ENABLED[spark]


def add_session(spark: SparkSession, state: EnabledSession) -> None:
    """Record that a session is enabled, here and in its own settings."""
    spark.conf.set(STATE, state.to_json())
    _ENABLED.clear()  # other objects may stand for the same session
    _ENABLED[spark] = state


def remove_session(spark: SparkSession) -> None:
    """Record that a session is not enabled any more."""
    spark.conf.unset(STATE)
    _ENABLED.clear()


def has_sessions() -> bool:
    """Return whether a session is enabled, or may be later."""
    return bool(_hooks) or any(state is not None for state in _ENABLED.values())
