"""Write-audit-publish on Spark: read a session's staging settings, and check them in the tasks of a read."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakescan.errors import InvalidOption
from lakescan.formats.snapshot_refs import RefKind
from lakescan.options.session_defaults import parse_session_settings, session_settings
from lakescan.options.session_settings import BRANCH_SETTING, ENABLED, ID_SETTING, SessionSettings
from lakescan.spark.session import confs
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.wap import is_audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def names_of_settings() -> tuple[str, ...]:
    """Return the names of the session settings that `settings_of_session` reads."""
    return ID_SETTING, BRANCH_SETTING, ENABLED, *session_settings()


def settings_of_session(spark: SparkSession) -> SessionSettings:
    """Return a session's staging settings and its options for Iceberg tables."""
    found = confs(spark, names_of_settings())
    return SessionSettings.parse(
        found.get(ID_SETTING),
        found.get(BRANCH_SETTING),
        parse_session_settings(found),
        is_enabled=bool(found.get(ENABLED)),
    )


def staging_of_session(spark: SparkSession) -> SessionSettings:
    """Return a session's staging settings, without its options for Iceberg tables."""
    found = confs(spark, (ID_SETTING, BRANCH_SETTING))
    return SessionSettings.parse(found.get(ID_SETTING), found.get(BRANCH_SETTING))


def settings_in_task() -> SessionSettings:
    """Return the staging settings that Spark passes to the task of this worker; empty outside of tasks."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return SessionSettings()
    return SessionSettings.parse(context.getLocalProperty(ID_SETTING), context.getLocalProperty(BRANCH_SETTING))


@dataclass(frozen=True)
class StagedReads:
    """The WAP branch that a read was planned with, for its tasks to check that the session still names it.

    A data source is planned without access to the session.

    - `table`: the table's location or name.
    - `branch`: the WAP branch that the session had when the data source was registered; None without one.
    - `there`: the names of the table's branches.
    """

    table: str
    branch: str | None
    there: Set[str]

    @staticmethod
    def record(scan: ScanSpec, session: SessionSettings, *, is_stream: bool = False) -> StagedReads | None:
        """Record the session's WAP branch for a read; None if staging settings do not apply to the table."""
        if not is_audited(scan, is_stream=is_stream):
            return None
        return StagedReads(scan.location, session.wap_branch, frozenset(scan.table.refs(RefKind.BRANCH)))

    def check(self, now: SessionSettings) -> None:
        """Raise `InvalidOption` if the settings `now` name another branch of the table, or both an id and a branch.

        A branch that the table does not have counts as no branch.
        """
        now.check()
        read, wanted = (each if each in self.there else None for each in (self.branch, now.wap_branch))
        if read != wanted:
            raise InvalidOption(
                f"{self.table} is read by a plan with {BRANCH_SETTING}={self.branch or ''!r}, but the session now has "
                f"{now.wap_branch or ''!r}: call lakescan.spark.register(spark) after each change of the setting, "
                "or say what to read with the option branch"
            )
