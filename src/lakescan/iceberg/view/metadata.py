"""View metadata: JSON to `ViewMetadata` and back (the view specification, format version 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.common.schema import Schema
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.metadata.document import read_document
from lakescan.iceberg.metadata.json_node import INT_MAX, Node
from lakescan.iceberg.metadata.schema_json import parse_schema_node
from lakescan.iceberg.metadata.schema_writer import schema_node
from lakescan.storage.faults import redact

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ViewVersionNode:
    """One definition of a view, as metadata has it; it never changes.

    - `representations`: JSON objects, SQL texts and what later specifications may add.
    - `catalog`: of short names; None for the catalog that has the view. `namespace`: of names of one part.
    """

    id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[Mapping[str, Any], ...]
    catalog: str | None
    namespace: tuple[str, ...]
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def queries(self) -> dict[str, str]:
        """The SQL texts by dialect, in lower case."""
        texts = (each for each in self.representations if each.get("type") == "sql")
        return {str(each["dialect"]).lower(): str(each["sql"]) for each in texts}

    def means(self, other: ViewVersionNode) -> bool:
        """Whether both define the same view; who made them when does not count."""
        return (self.schema_id, self.representations, self.catalog, self.namespace) == (
            other.schema_id,
            other.representations,
            other.catalog,
            other.namespace,
        )

    def node(self) -> dict[str, Any]:
        """The version as a JSON object."""
        found: dict[str, Any] = {
            "version-id": self.id,
            "timestamp-ms": self.timestamp_ms,
            "schema-id": self.schema_id,
            "summary": dict(self.summary),
            "default-namespace": list(self.namespace),
            "representations": [dict(each) for each in self.representations],
        }
        return found if self.catalog is None else {**found, "default-catalog": self.catalog}


@dataclass(frozen=True)
class ViewMetadata:
    """A view. `log` has the versions that were current, with the time since when, in milliseconds."""

    uuid: str
    location: str
    schemas: Mapping[int, Schema]
    versions: Mapping[int, ViewVersionNode]
    current_version_id: int
    log: tuple[tuple[int, int], ...]
    properties: Mapping[str, str]

    @property
    def current(self) -> ViewVersionNode:
        """The version that is read."""
        return self.versions[self.current_version_id]

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return self.schemas[self.current.schema_id]

    def node(self) -> dict[str, Any]:
        """The metadata as a JSON object."""
        return {
            "view-uuid": self.uuid,
            "format-version": FORMAT_VERSION,
            "location": self.location,
            "schemas": [schema_node(each) for each in self.schemas.values()],
            "current-version-id": self.current_version_id,
            "versions": [each.node() for each in self.versions.values()],
            "version-log": [{"timestamp-ms": at, "version-id": version} for at, version in self.log],
            "properties": dict(self.properties),
        }


def parse_view(data: bytes, source: str) -> ViewMetadata:
    """Parse the bytes of a view's metadata file; `source` names it in errors.

    Raises `CorruptMetadata` for metadata that violates the specification, `UnsupportedFeature` for a newer version.
    """
    return view_of(read_document(data, source))


def view_of(node: Node) -> ViewMetadata:
    """The metadata in a JSON object; raises `CorruptMetadata` and `UnsupportedFeature`."""
    if (version := node.integer("format-version")) != FORMAT_VERSION:
        raise UnsupportedFeature(f"view format version {version} of {redact(node.source)}", "This version reads 1.")
    schemas = {each.id: each for each in map(parse_schema_node, node.children("schemas"))}
    versions = {each.id: each for each in map(_version, node.children("versions"))}
    current = node.integer("current-version-id", most=INT_MAX)
    if current not in versions:
        raise node.fault(f"has the current version {current}, which is none of its versions")
    if (schema := versions[current].schema_id) not in schemas:
        raise node.fault(f"has no schema {schema}, which its current version has")
    return ViewMetadata(
        node.text("view-uuid"),
        node.text("location").rstrip("/"),
        schemas,
        versions,
        current,
        tuple((each.integer("timestamp-ms"), each.integer("version-id")) for each in node.children("version-log", [])),
        node.texts("properties"),
    )


def _version(node: Node) -> ViewVersionNode:
    representations = list(node.children("representations"))
    texts = [each for each in representations if each.text("type") == "sql"]
    dialects = [each.text("dialect").lower() for each in texts if each.text("sql") is not None]
    if len(set(dialects)) < len(dialects):
        raise node.fault("has two texts of one dialect")
    namespace = node.items("default-namespace")
    if wrong := [each for each in namespace if not isinstance(each, str)]:
        raise node.fault(f"has {wrong[0]!r} in its default-namespace, which is not a string")
    return ViewVersionNode(
        node.integer("version-id", most=INT_MAX),
        node.integer("schema-id", most=INT_MAX),
        node.integer("timestamp-ms"),
        tuple(each.value for each in representations),
        node.text("default-catalog", None),
        tuple(namespace),
        node.texts("summary"),
    )
