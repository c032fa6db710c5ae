"""A table or view as a metastore has it, Hive's or Glue's: of which format it is, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROVIDER = "spark.sql.sources.provider"
_TYPE, _HANDLER = "table_type", "storage_handler"
_NO_LOCATION = "__PLACEHOLDER__"  # Spark's, for tables whose location is in the parameters of the SerDe alone


@dataclass(frozen=True)
class MetastoreEntry:
    """What a metastore says of a table or view.

    `kind` is the metastore's own, such as EXTERNAL_TABLE; `stored` the location of its storage descriptor, `path` that
    of the SerDe's parameters, which engines prefer.
    """

    parameters: Mapping[str, str]
    kind: str
    stored: str | None
    path: str | None

    @property
    def is_delta(self) -> bool:
        """Whether it is a Delta table, as Spark, Trino, Athena, Databricks and Hive's connector register them."""
        said = (
            self._parameter(PROVIDER) == "delta"
            or self._parameter(_TYPE) == "delta"
            or self._parameter(_HANDLER).startswith("io.delta")
        )
        return said and self.location is not None

    @property
    def location(self) -> str | None:
        """Where its files are, if that is said."""
        found = self.path or self.stored
        return None if not found or found.endswith(_NO_LOCATION) else found

    @property
    def is_managed(self) -> bool:
        """Whether the metastore moves and removes its files."""
        return self.kind.upper() == "MANAGED_TABLE" and self._parameter("EXTERNAL") != "true"

    def other(self, owner: str) -> str | None:
        """What it is, such as "a Hive view", if it is neither a Delta nor an Iceberg table of the metastore `owner`."""
        if self.is_delta or self._parameter(_TYPE) == "iceberg":
            return None
        if self._parameter(_TYPE) == "iceberg-view":
            return f"an Iceberg view in {owner}"
        if self.kind.upper().endswith("VIEW"):
            return f"a {owner} view"
        format = self._parameter(PROVIDER) or self._parameter(_TYPE)
        return f"a {owner} table ({format})" if format else f"a {owner} table"

    def _parameter(self, name: str) -> str:
        return str(self.parameters.get(name) or "").lower()
