"""Protocol and metaData actions: parse them, check them, and change the table features (protocol, "Table Features")."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lakescan.common.schema import Schema
from lakescan.common.types import walk
from lakescan.delta.log.log_text import ADVICE, Action, parse_object, short_json
from lakescan.delta.metadata.features import (
    FEATURES,
    LISTED,
    READERS_LISTED,
    Support,
    implied_features,
    is_for_readers,
    oldest_reader,
    unsupported_features,
    why_not_read,
)
from lakescan.delta.metadata.schema_json import parse_schema
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import CorruptMetadata, UnsupportedFeature

_MAPPING_MODE, _MAPPED = DeltaProperties.column_mapping.name, DeltaProperties.max_column_id.name
_MAPPING_MODES = ("none", "id", "name")


@dataclass(frozen=True)
class Protocol:
    """The reader and writer versions and the table features that clients must support."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str]
    writer_features: frozenset[str] = frozenset()

    @staticmethod
    def parse(action: Action) -> Protocol:
        """Parse a protocol action.

        Raises `CorruptMetadata` if `minReaderVersion` is missing, if `readerFeatures` is missing with reader version 3,
        or if a field is malformed.
        """
        reader = action.whole_number("minReaderVersion")
        features = action.texts("readerFeatures")
        if reader is None:
            raise action.wrong("minReaderVersion", "a whole number")
        if reader == READERS_LISTED and features is None:
            raise action.wrong("readerFeatures", f"a list of texts, with reader version {reader},")
        return Protocol(
            reader,
            action.whole_number("minWriterVersion") or 0,
            frozenset(features or ()),
            frozenset(action.texts("writerFeatures") or ()),
        )

    @property
    def features(self) -> frozenset[str]:
        """The table features in force: listed ones, and those that older protocol versions imply."""
        listed = self.reader_features | self.writer_features
        return listed | implied_features(self.min_writer_version, self.min_reader_version)

    @staticmethod
    def weakest(names: Collection[str]) -> Protocol:
        """Return the lowest protocol that has exactly these features, normalized like Delta on Spark.

        That is an older version if it implies exactly these features. Otherwise they are listed as writer features, and
        also as reader features if one of them requires that. A table whose only reader feature is column mapping keeps
        reader version 2.
        """
        wanted = frozenset(names)
        reader = max([1, *map(oldest_reader, wanted)])
        writer = max([1, *(FEATURES[name].writer_version if name in FEATURES else LISTED for name in wanted)])
        if writer < LISTED and implied_features(writer, reader) == wanted:
            return Protocol(reader, writer, frozenset())
        for_readers = frozenset(name for name in wanted if is_for_readers(name))
        return Protocol(reader, LISTED, for_readers if reader == READERS_LISTED else frozenset(), wanted)

    def with_features(self, names: Collection[str]) -> Protocol:
        """Return the lowest protocol with these additional features; this one if it has them all."""
        if not set(names) - self.features:
            return self
        return Protocol.weakest(self.features | set(names))

    def remove_features(self, names: Collection[str]) -> Protocol:
        """Return the lowest protocol with this one's features except these."""
        return Protocol.weakest(self.features - set(names))

    def check_readable(self, location: str) -> None:
        """Raise `UnsupportedFeature` for an unsupported reader version or reader feature."""
        if not 1 <= self.min_reader_version <= READERS_LISTED:
            raise UnsupportedFeature(f"Delta reader version {self.min_reader_version}", f"{location} needs it.")
        for feature in unsupported_features(self.reader_features, Support.READ):
            raise UnsupportedFeature(
                f"Delta table feature {feature!r}",
                why_not_read(feature, f"{location} requires readers to support it."),
            )

    def check_supports(self, support: Support, doing: str, location: str) -> None:
        """Raise `UnsupportedFeature` if lakescan lacks this support for the writer version or a feature.

        `doing` names the operation in the message, such as "writing to".
        """
        if self.min_writer_version > LISTED:
            raise UnsupportedFeature(f"Delta writer version {self.min_writer_version}", f"{location} needs it.")
        for feature in unsupported_features(self.features, support):
            raise UnsupportedFeature(f"{doing} Delta tables with the feature {feature!r}", f"{location} has it.")


@dataclass(frozen=True)
class Metadata:
    """A metaData action: the table's schema (as JSON text), partition columns and configuration.

    - `configuration`: the table properties as text, by name.
    - `created_time`: milliseconds since 1970.
    - `format_options`: options of the data file format, without effect here.
    - `where`: the action's file and line, for messages.
    """

    id: str
    name: str | None
    description: str | None
    schema_string: str
    partition_columns: tuple[str, ...]
    configuration: Mapping[str, str]
    created_time: int | None
    format_options: Mapping[str, str] = field(default_factory=dict)
    where: str = field(default="", compare=False)  # the action's file and line, for messages

    @staticmethod
    def parse(action: Action) -> Metadata:
        """Parse a metaData action.

        Raises `CorruptMetadata` if it is incomplete or malformed, and `UnsupportedFeature` for data files other
        than Parquet.
        """
        schema = action.text("schemaString")
        if not schema:
            raise CorruptMetadata(
                f"{action.where}: the metaData action has no schema (schemaString): the table has no columns yet"
            )
        columns = action.texts("partitionColumns")
        if columns is None or len(set(columns)) < len(columns):
            raise action.wrong("partitionColumns", "a list with each partition column once")
        configuration = action.text_map("configuration")
        mode = DeltaProperties(configuration, action.where).column_mapping
        if mode not in _MAPPING_MODES:
            raise CorruptMetadata(
                f"{action.where}: {_MAPPING_MODE} is {short_json(mode)}; it must be {', '.join(_MAPPING_MODES)}. "
                f"{ADVICE}"
            )
        format_options = _format_options(action)
        return Metadata(
            id=action.text("id") or "",
            name=action.text("name"),
            description=action.text("description"),
            schema_string=schema,
            partition_columns=columns,
            configuration=configuration,
            created_time=action.whole_number("createdTime"),
            format_options=format_options,
            where=action.where,
        )

    def schema(self) -> Schema:
        """Parse the table's schema.

        Raises `CorruptMetadata`, and `UnsupportedFeature` for an unsupported column type.
        """
        if _MAPPED in self.configuration and _MAPPING_MODE not in self.configuration:
            self._check_unmapped()
        return parse_schema(self.schema_string, self.column_mapping_mode, self.where)

    def _check_unmapped(self) -> None:
        """Raise `CorruptMetadata` for a schema with physical names but no column mapping mode.

        Data files may have the physical names. Looked up by logical names, their columns would read as null.
        """
        mapped = parse_schema(self.schema_string, "name", self.where)
        if renamed := [f.name for f in walk(mapped.fields) if f.physical_name != f.name]:
            raise CorruptMetadata(
                f"{self.where}: column {short_json(renamed[0])} has another physical name, and {_MAPPED} is set, but "
                f"{_MAPPING_MODE} is not: data files may have the column under either name. {ADVICE}"
            )

    @property
    def column_mapping_mode(self) -> str:
        """The column mapping mode: `none`, `id` or `name`."""
        return self.properties.column_mapping

    @cached_property
    def properties(self) -> DeltaProperties:
        """The table properties (`configuration`), typed."""
        return DeltaProperties(self.configuration, self.where)


def _format_options(action: Action) -> dict[str, str]:
    """Return the options of the data file format; empty without options or format, which writers may omit.

    Raises `UnsupportedFeature` for a format other than Parquet, and `CorruptMetadata` for a malformed one.
    """
    file_format = action.get("format")
    provider = file_format.get("provider") if isinstance(file_format, dict) else None
    if (file_format is not None and not isinstance(file_format, dict)) or not isinstance(provider, str | None):
        raise action.wrong("format", "an object with a provider")
    if provider is not None and provider.lower() != "parquet":
        raise UnsupportedFeature(
            f"Delta tables of {short_json(provider)} files",
            f"{action.where} declares this format; only Parquet is read.",
        )
    options = (file_format or {}).get("options")  # only kept for other clients, so any value is accepted
    return {k: v for k, v in options.items() if isinstance(v, str)} if isinstance(options, dict) else {}


def check_known(protocol: Protocol, doing: str, location: str) -> None:
    """Raise `UnsupportedFeature` for a feature that is not in `FEATURES`, or for a newer writer version.

    Such tables may have other content in the log. `doing` names the operation in the message, such as "writing to".
    """
    if protocol.min_writer_version > LISTED:
        raise UnsupportedFeature(f"Delta writer version {protocol.min_writer_version}", f"{location} needs it.")
    for name in sorted(protocol.features):
        if name not in FEATURES or FEATURES[name].support == Support.NONE:
            raise UnsupportedFeature(f"{doing} Delta tables with the feature {name!r}", f"{location} has it.")


# Columns that change data feeds add to the table's (protocol, "Reader Requirements for Change Data Feed").
_OF_CHANGES = {"_change_type", "_commit_version", "_commit_timestamp"}


def check_columns(metadata: Metadata) -> None:
    """Raise an error if a table with this metadata could not be read.

    That is `CorruptMetadata` for an invalid schema, and `UnsupportedFeature` if the table has a change data feed and a
    column with the name of one of the feed's columns.
    """
    names = {name.lower(): name for name in metadata.schema().names}
    if metadata.properties.change_feed and (taken := sorted(_OF_CHANGES & names.keys())):
        raise UnsupportedFeature(
            f"column {names[taken[0]]!r} of a Delta table with a change data feed",
            "The feed has a column of this name: rename it, or set delta.enableChangeDataFeed to false.",
        )


CLUSTERING = "delta.clustering"


def clustering_paths(domain: Action | None) -> list[tuple[str, ...]]:
    """Return the clustering columns as paths of physical names; empty if `domain` is None.

    `domain` is the domainMetadata action of `delta.clustering`. Raises `CorruptMetadata` if it is malformed.
    """
    if domain is None:
        return []
    where = f"{domain.where}: the clustering configuration"
    paths = parse_object(domain.text("configuration") or "", where).get("clusteringColumns")
    if not isinstance(paths, list) or not all(_are_names(path) for path in paths):
        raise CorruptMetadata(f"{where} has clusteringColumns {short_json(paths)}; expected lists of names. {ADVICE}")
    return [tuple(path) for path in paths]


def _are_names(node: Any) -> bool:
    return isinstance(node, list) and all(isinstance(name, str) for name in node)
