"""Protocol and metadata actions, and which reader features this version obeys (protocol, "Table Features")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.errors import UnsupportedFeature

SUPPORTED_READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "typeWidening",
        "typeWidening-preview",
        "variantType",
        "variantType-preview",
        "variantShredding",
        "variantShredding-preview",
        "geospatial",
    }
)
_CATALOG = (
    "Its newest commits are known to its catalog only, and the log alone could miss them: a reader has to ask the "
    "catalog, which this version does not. Read it with the catalog's own engine, or drop the feature from the table."
)
_WHY = {
    "catalogManaged": _CATALOG,
    "catalogOwned-preview": _CATALOG,
}


# What a writer version below 7 stands for, by the version from which on it does.
_MEANT = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}


@dataclass(frozen=True)
class Protocol:
    """The versions and features that a reader must obey."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str]
    writer_features: frozenset[str] = frozenset()

    @staticmethod
    def parse(node: Mapping[str, Any]) -> Protocol:
        """From a protocol action."""
        return Protocol(
            int(node["minReaderVersion"]),
            int(node.get("minWriterVersion") or 0),
            frozenset(node.get("readerFeatures") or ()),
            frozenset(node.get("writerFeatures") or ()),
        )

    @property
    def features(self) -> frozenset[str]:
        """The table features in force: those that are named, and those that older versions mean."""
        meant = {f for version, names in _MEANT.items() if version <= self.min_writer_version < 7 for f in names}
        return self.reader_features | self.writer_features | meant

    def check_readable(self, location: str) -> None:
        """Refuse, by name, what this version does not obey."""
        if not 1 <= self.min_reader_version <= 3:
            raise UnsupportedFeature(f"Delta reader version {self.min_reader_version}", f"{location} needs it.")
        for feature in sorted(self.reader_features - SUPPORTED_READER_FEATURES):
            raise UnsupportedFeature(
                f"Delta table feature {feature!r}",
                _WHY.get(feature, f"{location} requires readers to obey it."),
            )


@dataclass(frozen=True)
class Metadata:
    """The table's schema (as JSON text), partition columns and configuration."""

    id: str
    name: str | None
    description: str | None
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None

    @staticmethod
    def parse(node: Mapping[str, Any]) -> Metadata:
        """From a metaData action."""
        return Metadata(
            id=str(node.get("id") or ""),
            name=node.get("name"),
            description=node.get("description"),
            schema_string=node["schemaString"],
            partition_columns=tuple(node.get("partitionColumns") or ()),
            configuration={k: str(v) for k, v in dict(node.get("configuration") or {}).items()},
            created_time=node.get("createdTime"),
        )

    @property
    def column_mapping_mode(self) -> str:
        """none, id or name."""
        return self.configuration.get("delta.columnMapping.mode", "none").lower()
