"""Protocol and metadata actions, and which reader features this version obeys (protocol, "Table Features")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakescan.common.schema import Schema
from lakescan.common.types import walk
from lakescan.delta.log.text import ADVICE, Action, shown
from lakescan.delta.metadata.schema_json import parse_schema
from lakescan.errors import CorruptMetadata, UnsupportedFeature

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


_NAMES_FEATURES = 3  # the reader version from which on features are named
_MAPPING_MODE = "delta.columnMapping.mode"
_MAPPED = "delta.columnMapping.maxColumnId"
_MAPPING_MODES = ("none", "id", "name")

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
    def parse(action: Action) -> Protocol:
        """From a protocol action; raises `CorruptMetadata` for one that is not whole."""
        reader = action.whole_number("minReaderVersion")
        features = action.texts("readerFeatures")
        if reader is None:
            raise action.wrong("minReaderVersion", "a whole number")
        if reader == _NAMES_FEATURES and features is None:
            raise action.wrong("readerFeatures", f"a list of texts, with reader version {reader},")
        return Protocol(
            reader,
            action.whole_number("minWriterVersion") or 0,
            frozenset(features or ()),
            frozenset(action.texts("writerFeatures") or ()),
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
    where: str = field(default="", compare=False)  # the action, for messages

    @staticmethod
    def parse(action: Action) -> Metadata:
        """From a metaData action; raises `CorruptMetadata` for one that is not whole."""
        schema = action.text("schemaString")
        if not schema:
            raise CorruptMetadata(
                f"{action.where}: the metaData action has no schema (schemaString): the table has no columns yet"
            )
        columns = action.texts("partitionColumns")
        if columns is None or len(set(columns)) < len(columns):
            raise action.wrong("partitionColumns", "a list with each partition column once")
        configuration = action.text_map("configuration")
        mode = configuration.get(_MAPPING_MODE, "none").lower()
        if mode not in _MAPPING_MODES:
            raise CorruptMetadata(
                f"{action.where}: {_MAPPING_MODE} is {shown(mode)}; known are {', '.join(_MAPPING_MODES)}. {ADVICE}"
            )
        _check_format(action)
        return Metadata(
            id=action.text("id") or "",
            name=action.text("name"),
            description=action.text("description"),
            schema_string=schema,
            partition_columns=columns,
            configuration=configuration,
            created_time=action.whole_number("createdTime"),
            where=action.where,
        )

    def schema(self) -> Schema:
        """The table's columns; raises `CorruptMetadata`."""
        if _MAPPED in self.configuration and _MAPPING_MODE not in self.configuration:
            self._check_unmapped()
        return parse_schema(self.schema_string, self.column_mapping_mode, self.where)

    def _check_unmapped(self) -> None:
        """Files of a table that lost its mapping mode have other names than its columns, which would read as null."""
        mapped = parse_schema(self.schema_string, "name", self.where)
        if renamed := [f.name for f in walk(mapped.fields) if f.physical_name != f.name]:
            raise CorruptMetadata(
                f"{self.where}: column {shown(renamed[0])} has another physical name, and {_MAPPED} is set, but "
                f"{_MAPPING_MODE} is not: by which name files have it cannot be told. {ADVICE}"
            )

    @property
    def column_mapping_mode(self) -> str:
        """none, id or name."""
        return self.configuration.get(_MAPPING_MODE, "none").lower()


def _check_format(action: Action) -> None:
    """Refuse data files of another format than Parquet; writers may leave out that they are."""
    found = action.get("format")
    provider = found.get("provider") if isinstance(found, dict) else None
    if (found is not None and not isinstance(found, dict)) or not isinstance(provider, str | None):
        raise action.wrong("format", "an object with a provider")
    if provider is not None and provider.lower() != "parquet":
        raise UnsupportedFeature(f"Delta tables of {shown(provider)} files", f"{action.where} says so.")
