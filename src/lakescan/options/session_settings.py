"""Settings of a Spark session that reads and writes take: staging (write, audit, publish), and options."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.errors import InvalidOption

ID_SETTING, BRANCH_SETTING = "spark.wap.id", "spark.wap.branch"


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a session that reads and writes of its rows take; None where one is not set.

    Rows are staged in tables with the property `write.wap.enabled` alone.

    - `wap_id`: `spark.wap.id`, under which rows are staged, in snapshots that no branch names.
    - `wap_branch`: `spark.wap.branch`, to which rows are written, and from which they are read where it is there.
    - `options`: the options that the session sets, each with the format of its tables (`options/session_defaults.py`).
    """

    wap_id: str | None = None
    wap_branch: str | None = None
    options: tuple[tuple[str, str, str], ...] = ()

    @staticmethod
    def parse(
        wap_id: str | None, wap_branch: str | None, options: tuple[tuple[str, str, str], ...] = ()
    ) -> SessionSettings:
        """The settings as a session has them, where an empty text is none."""
        return SessionSettings(wap_id or None, wap_branch or None, options)

    @property
    def options_only(self) -> SessionSettings:
        """The session's options alone, for rows that are staged as the options of the write say."""
        return SessionSettings(options=self.options)

    def check(self) -> None:
        """Raise `InvalidOption` if both are set, as Iceberg's writer and reader for Spark refuse them."""
        if self.wap_id is not None and self.wap_branch is not None:
            raise InvalidOption(
                f"the session has both {ID_SETTING} ({self.wap_id!r}) and {BRANCH_SETTING} ({self.wap_branch!r}): "
                "unset one of them"
            )


NO_SESSION = SessionSettings()
