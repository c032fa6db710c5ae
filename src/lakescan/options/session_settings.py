"""Settings of a Spark session that reads and writes use: staging (write-audit-publish), and options."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.errors import InvalidOption

ID_SETTING, BRANCH_SETTING = "spark.wap.id", "spark.wap.branch"
ENABLED = "spark.lakescan.enabled"  # set by `lakescan.spark.enable`: the session's catalogs and sources, as JSON


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a Spark session for reads, and for writes of its rows; None for a setting that is not set.

    Staging applies only to tables with the property `write.wap.enabled`.

    - `wap_id`: `spark.wap.id`, the id of staged rows, in snapshots without a branch.
    - `wap_branch`: `spark.wap.branch`, the branch to write to, and to read from if it exists.
    - `options`: the options that the session sets, each with its table format (see `options/session_defaults.py`).
    - `is_enabled`: whether the session runs jobs written for the JARs (`lakescan.spark.enable`).
    """

    wap_id: str | None = None
    wap_branch: str | None = None
    options: tuple[tuple[str, str, str], ...] = ()
    is_enabled: bool = False

    @staticmethod
    def parse(
        wap_id: str | None,
        wap_branch: str | None,
        options: tuple[tuple[str, str, str], ...] = (),
        *,
        is_enabled: bool = False,
    ) -> SessionSettings:
        """Build the settings from a session's values; an empty `wap_id` or `wap_branch` counts as not set."""
        return SessionSettings(wap_id or None, wap_branch or None, options, is_enabled)

    @property
    def options_only(self) -> SessionSettings:
        """The settings without `wap_id` and `wap_branch`, for a write whose options determine how rows are staged."""
        return SessionSettings(options=self.options, is_enabled=self.is_enabled)

    def check(self) -> None:
        """Raise `InvalidOption` if both `wap_id` and `wap_branch` are set, as Iceberg does in Spark."""
        if self.wap_id is not None and self.wap_branch is not None:
            raise InvalidOption(
                f"the session has both {ID_SETTING} ({self.wap_id!r}) and {BRANCH_SETTING} ({self.wap_branch!r}): "
                "unset one of them"
            )


NO_SESSION = SessionSettings()
