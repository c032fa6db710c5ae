"""Write, audit, publish on Spark: how a session stages rows of audited tables, as it says, and as its tasks know it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakescan.errors import InvalidOption
from lakescan.formats.snapshot_refs import RefKind
from lakescan.options.session_defaults import parse_session_settings, session_settings
from lakescan.options.session_settings import BRANCH_SETTING, ID_SETTING, SessionSettings
from lakescan.spark.session import confs
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.wap import is_audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names_of_settings() -> tuple[str, ...]:
    """The settings that `settings_of_session` returns, by name."""
    return ID_SETTING, BRANCH_SETTING, *session_settings()


def settings_of_session(spark: SparkSession) -> SessionSettings:
    """How a session stages rows, and which options it sets for Iceberg tables."""
    found = confs(spark, names_of_settings())
    return SessionSettings.parse(found.get(ID_SETTING), found.get(BRANCH_SETTING), parse_session_settings(found))


def settings_in_task() -> SessionSettings:
    """How the session stages rows that runs the task of this worker; Spark gives tasks the session's settings."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return SessionSettings()
    return SessionSettings.parse(context.getLocalProperty(ID_SETTING), context.getLocalProperty(BRANCH_SETTING))


@dataclass(frozen=True)
class StagedReads:
    """What a data source read of an audited table, planned where nobody knows the session; tasks check it.

    `branch` is the branch that the session had named when the data source was registered; `there` are those of the
    table.
    """

    table: str
    branch: str | None
    there: Set[str]

    @staticmethod
    def record(scan: ScanSpec, session: SessionSettings, *, is_stream: bool = False) -> StagedReads | None:
        """What is read for a session; None if it has no say."""
        if not is_audited(scan, is_stream=is_stream):
            return None
        return StagedReads(scan.location, session.wap_branch, frozenset(scan.table.refs(RefKind.BRANCH)))

    def check(self, now: SessionSettings) -> None:
        """Raise `InvalidOption` if the session names another branch of the table now, or stages rows in two ways."""
        now.check()
        read, wanted = (each if each in self.there else None for each in (self.branch, now.wap_branch))
        if read != wanted:
            raise InvalidOption(
                f"{self.table} was planned with {BRANCH_SETTING}={self.branch or ''!r}, and the session has "
                f"{now.wap_branch or ''!r} now: call lakescan.spark.register(spark) after each change of the setting, "
                "or say what to read with the option branch"
            )
