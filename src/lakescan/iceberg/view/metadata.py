"""View metadata: JSON to `ViewMetadata` and back (the view specification, format version 1)."""

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


# Versions are numbered, reused and expired as by Iceberg's Java library (`ViewMetadata.Builder`).

DIALECT = "spark"
COMMENT = "comment"
QUERY_COLUMNS = "spark.query-column-names"  # the query's own names of the columns, as Iceberg's Spark keeps them
_HISTORY, _HISTORY_DEFAULT = "version.history.num-entries", 10
_DROPS_DIALECTS = "replace.drop-dialect.allowed"
_LAST_ADDED = -1


@dataclass(frozen=True)
class ViewText:
    """What a new version of a view says: its query in Spark's dialect, and where its short names are."""

    query: str
    schema: Schema
    catalog: str | None
    namespace: tuple[str, ...]
    timestamp_ms: int
    summary: Mapping[str, str]

    def version(self, number: int, schema_id: int) -> ViewVersionNode:
        """The version of a number."""
        text = {"type": "sql", "sql": self.query, "dialect": DIALECT}
        return ViewVersionNode(
            number, schema_id, self.timestamp_ms, (text,), self.catalog, self.namespace, self.summary
        )


def new_view(text: ViewText, location: str, properties: Mapping[str, str]) -> ViewMetadata:
    """A view with its first version."""
    _history_size(properties)
    schema = replace(text.schema, id=0)
    version = text.version(1, schema.id)
    log = ((version.timestamp_ms, version.id),)
    return ViewMetadata(str(uuid.uuid4()), location, {0: schema}, {1: version}, 1, log, dict(properties))


def replace_view(base: ViewMetadata, text: ViewText, properties: Mapping[str, str], name: str) -> ViewMetadata:
    """The view with another current version, and more properties. Earlier versions of the same meaning are reused.

    Raises:
        UnsupportedFeature: The current version has texts in other dialects, which would no longer be true.
    """
    latest = max(at for at, _ in base.log) if base.log else base.current.timestamp_ms
    text = replace(text, timestamp_ms=max(text.timestamp_ms, latest + 1))  # whatever the clocks of writers do
    merged = {**base.properties, **properties}
    lost = base.current.queries.keys() - {DIALECT}
    if lost and merged.get(_DROPS_DIALECTS, "").lower() != "true":
        raise UnsupportedFeature(
            f"replacing the view {name}, which has a query in the dialect of {', '.join(sorted(lost))}, too",
            f"The new version has Spark's alone. Set the view's property '{_DROPS_DIALECTS}' to 'true' if the others "
            "may go.",
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
    """The view with properties set and removed."""
    kept = {name: value for name, value in base.properties.items() if name not in removed}
    found = replace(base, properties={**kept, **changed})
    _history_size(found.properties)
    return found


def updates(base: ViewMetadata, new: ViewMetadata) -> Iterator[dict[str, Any]]:
    """What makes one of the other, as REST catalogs take it (`CommitViewRequest`)."""
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
    """The view with as many versions as its property says, and the log since a version that is gone."""
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
