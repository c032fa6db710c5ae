"""View metadata: convert JSON to `ViewMetadata` and back (the view specification, format version 1)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.metadata.json_document import INT_MAX, Node, read_document
from lakescan.iceberg.metadata.schema_json import parse_schema_node, schema_node
from lakescan.storage.errors import redact

FORMAT_VERSION = 1


@dataclass(frozen=True)
class ViewVersionNode:
    """One version of a view in the view metadata; it never changes.

    - `representations`: JSON objects with SQL texts, or with representations of later specifications.
    - `catalog`: the default catalog of table names in the query; None for the view's own catalog.
    - `namespace`: the default namespace of table names in the query.
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
        """The SQL texts by dialect in lower case."""
        texts = (each for each in self.representations if each.get("type") == "sql")
        return {str(each["dialect"]).lower(): str(each["sql"]) for each in texts}

    def means(self, other: ViewVersionNode) -> bool:
        """Return whether both versions define the same view, ignoring their ids, times and summaries."""
        return (self.schema_id, self.representations, self.catalog, self.namespace) == (
            other.schema_id,
            other.representations,
            other.catalog,
            other.namespace,
        )

    def node(self) -> dict[str, Any]:
        """Return the version as a JSON object."""
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
    """The metadata of a view. `log` lists the versions that became current: (milliseconds since 1970, version id)."""

    uuid: str
    location: str
    schemas: Mapping[int, Schema]
    versions: Mapping[int, ViewVersionNode]
    current_version_id: int
    log: tuple[tuple[int, int], ...]
    properties: Mapping[str, str]

    @property
    def current(self) -> ViewVersionNode:
        """The current version."""
        return self.versions[self.current_version_id]

    @property
    def schema(self) -> Schema:
        """The columns of the current version."""
        return self.schemas[self.current.schema_id]

    def node(self) -> dict[str, Any]:
        """Return the metadata as a JSON object."""
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
    """Parse the JSON object of a view's metadata.

    Raises `CorruptMetadata` for metadata that violates the specification, `UnsupportedFeature` for a newer version.
    """
    if (version := node.integer("format-version")) != FORMAT_VERSION:
        raise UnsupportedFeature(
            f"view format version {version} of {redact(node.source)}", "Only version 1 can be read."
        )
    schemas = {each.id: each for each in map(parse_schema_node, node.children("schemas"))}
    versions = {each.id: each for each in map(_version, node.children("versions"))}
    current = node.integer("current-version-id", most=INT_MAX)
    if current not in versions:
        raise node.fault(f"has the current version {current}, which is not among its versions")
    if (schema := versions[current].schema_id) not in schemas:
        raise node.fault(f"has no schema {schema}, which its current version needs")
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
        raise node.fault("has two SQL texts of one dialect")
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


# Versions are numbered, reused and expired as in Iceberg's Java library (`ViewMetadata.Builder`).

DIALECT = "spark"
COMMENT = "comment"
QUERY_COLUMNS = "spark.query-column-names"  # Spark's property for the column names of the query itself
_HISTORY, _HISTORY_DEFAULT = "version.history.num-entries", 10
_DROPS_DIALECTS = "replace.drop-dialect.allowed"
_LAST_ADDED = -1


@dataclass(frozen=True)
class ViewText:
    """A new version of a view: its query in Spark's dialect, and the defaults that its table names are resolved by.

    - `schema`: the columns of the query.
    - `catalog`, `namespace`: the defaults; None for the view's own catalog.
    - `timestamp_ms`, `summary`: when and by what the version was made.
    """

    query: str
    schema: Schema
    catalog: str | None
    namespace: tuple[str, ...]
    timestamp_ms: int
    summary: Mapping[str, str]

    def version(self, number: int, schema_id: int) -> ViewVersionNode:
        """Return the view version with this number and schema."""
        text = {"type": "sql", "sql": self.query, "dialect": DIALECT}
        return ViewVersionNode(
            number, schema_id, self.timestamp_ms, (text,), self.catalog, self.namespace, self.summary
        )


def new_view(text: ViewText, location: str, properties: Mapping[str, str]) -> ViewMetadata:
    """Return the metadata of a new view with its first version; raises `InvalidOption` for an invalid history size."""
    _history_size(properties)
    schema = replace(text.schema, id=0)
    version = text.version(1, schema.id)
    log = ((version.timestamp_ms, version.id),)
    return ViewMetadata(str(uuid.uuid4()), location, {0: schema}, {1: version}, 1, log, dict(properties))


def replace_view(base: ViewMetadata, text: ViewText, properties: Mapping[str, str], name: str) -> ViewMetadata:
    """Return the view with `text` as its current version and with more properties; reuse an equal earlier version.

    Raises:
        UnsupportedFeature: The current version has SQL texts in other dialects, which the new version would not have.
    """
    latest = max(at for at, _ in base.log) if base.log else base.current.timestamp_ms
    text = replace(text, timestamp_ms=max(text.timestamp_ms, latest + 1))  # clocks of writers may disagree
    merged = {**base.properties, **properties}
    lost = base.current.queries.keys() - {DIALECT}
    if lost and merged.get(_DROPS_DIALECTS, "").lower() != "true":
        raise UnsupportedFeature(
            f"replacing the view {name}, which also has a query in the dialect of {', '.join(sorted(lost))}",
            f"The new version has only Spark's dialect. Set the view's property '{_DROPS_DIALECTS}' to 'true' to drop "
            "the other queries.",
        )
    schemas = dict(base.schemas)
    same = next((number for number, each in schemas.items() if each.fields == text.schema.fields), None)
    schema_id = max(schemas) + 1 if same is None else same
    schemas.setdefault(schema_id, replace(text.schema, id=schema_id))
    version = text.version(max(base.versions) + 1, schema_id)
    known = next((each for each in base.versions.values() if each.means(version)), None)
    current = version if known is None else known
    log = base.log
    if current.id != base.current_version_id:
        log = (*log, (text.timestamp_ms, current.id))
    found = replace(
        base,
        schemas=schemas,
        versions={**base.versions, current.id: current},
        current_version_id=current.id,
        log=log,
        properties=merged,
    )
    return _trim_versions(found)


def with_properties(base: ViewMetadata, changed: Mapping[str, str], removed: Collection[str]) -> ViewMetadata:
    """Return the view with properties set and removed; raises `InvalidOption` for an invalid history size."""
    kept = {name: value for name, value in base.properties.items() if name not in removed}
    found = replace(base, properties={**kept, **changed})
    _history_size(found.properties)
    return found


def updates(base: ViewMetadata, new: ViewMetadata) -> Iterator[dict[str, Any]]:
    """Yield the updates that turn `base` into `new`, as JSON objects for a REST catalog (`CommitViewRequest`).

    They cover properties and the current version with its schema; versions are never removed.
    """
    changed = {name: value for name, value in new.properties.items() if base.properties.get(name) != value}
    if changed:
        yield {"action": "set-properties", "updates": changed}
    if removed := sorted(base.properties.keys() - new.properties.keys()):
        yield {"action": "remove-properties", "removals": removed}
    version = new.current
    if version.id == base.current_version_id:
        return
    if version.id in base.versions:
        yield {"action": "set-current-view-version", "view-version-id": version.id}
        return
    if version.schema_id not in base.schemas:
        yield {"action": "add-schema", "schema": schema_node(new.schema)}
        version = replace(version, schema_id=_LAST_ADDED)
    yield {"action": "add-view-version", "view-version": version.node()}
    yield {"action": "set-current-view-version", "view-version-id": _LAST_ADDED}


def _trim_versions(view: ViewMetadata) -> ViewMetadata:
    """Return the view with at most as many versions as its property `version.history.num-entries` allows.

    The current version and the newest others stay. The log is cut after the last entry of a removed version.
    """
    count = _history_size(view.properties)
    if len(view.versions) <= count:
        return view
    newest = [each for each in sorted(view.versions, reverse=True) if each != view.current_version_id]
    kept = {view.current_version_id, *newest[: count - 1]}
    log: list[tuple[int, int]] = []
    for at, version in view.log:
        log = [*log, (at, version)] if version in kept else []
    versions = {number: each for number, each in view.versions.items() if number in kept}
    return replace(view, versions=versions, log=tuple(log))


def _history_size(properties: Mapping[str, str]) -> int:
    text = properties.get(_HISTORY, str(_HISTORY_DEFAULT))
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOption(f"the view property {_HISTORY} is {text!r}: expected a whole number of at least 1")
    return int(text)
