"""`View`: a view of a catalog, as `Catalog.load_view` returns it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pyarrow as pa

from lakescan.catalogs.views import StoredView
from lakescan.common.identifiers import Identifier
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.view.metadata import COMMENT, DIALECT, QUERY_COLUMNS, ViewMetadata, ViewVersionNode
from lakescan.tables.notebook import view_as_html, view_version_as_html

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ViewVersion:
    """One version of a view's definition.

    - `version_id`: the version's number.
    - `created`: when the version was created, in UTC.
    - `queries`: the query's text by SQL dialect: spark, trino, ...
    - `default_catalog`, `default_namespace`: where the query's short table names are resolved.
    - `schema`: the view's columns.

    Example:
        >>> lake.load_view("shop.open_orders").versions[0].queries["spark"]
        'SELECT * FROM orders WHERE open'
    """

    version_id: int
    created: datetime
    queries: Mapping[str, str]
    default_catalog: str
    default_namespace: tuple[str, ...]
    schema: pa.Schema

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: when the version was created, its queries and its columns."""
        facts = {
            "created": f"{self.created:%Y-%m-%d %H:%M:%S} UTC",
            "default catalog": self.default_catalog,
            "default namespace": ".".join(self.default_namespace),
        }
        return view_version_as_html(self.version_id, facts, self.queries, self.schema)


class View:
    """A view of a catalog, as it was when it was loaded.

    To read its rows, query it: `lakescan.sql("SELECT * FROM lake.shop.open_orders")`.

    Example:
        >>> view = lake.load_view("shop.open_orders")
        >>> view.query
        'SELECT * FROM orders WHERE open'
    """

    def __init__(self, stored: StoredView) -> None:
        self._stored = stored

    def __repr__(self) -> str:
        return f"View({str(self.name)!r})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the location of the view, its queries and its columns."""
        facts = {"location": self.location, "version": str(self.version)}
        if self.comment is not None:
            facts["comment"] = self.comment
        return view_as_html(str(self.name), facts, self.queries, self.schema)

    @property
    def name(self) -> Identifier:
        """The view's name in its catalog, as an identifier: catalog, namespace, name."""
        return self._stored.identifier

    @property
    def query(self) -> str:
        """The view's query in Spark's dialect, which lakescan runs.

        Raises:
            UnsupportedFeature: The view only has queries in other dialects.
        """
        text = self.queries.get(DIALECT)
        if text is None:
            raise UnsupportedFeature(
                f"the view {self.name}, with queries only in {', '.join(sorted(self.queries)) or 'no dialect'}",
                "A view is read by its query in Spark's dialect: add it with CREATE OR REPLACE VIEW.",
            )
        return text

    @property
    def queries(self) -> Mapping[str, str]:
        """The view's queries by dialect; the names of dialects are in lower case."""
        return MappingProxyType(self._metadata.current.queries)

    @property
    def schema(self) -> pa.Schema:
        """The view's columns, with the types that they had when the view was created."""
        return self._metadata.schema.arrow()

    @property
    def query_columns(self) -> tuple[str, ...]:
        """The names that the query gives to its columns; empty if not recorded."""
        names = tuple(name for name in self.properties.get(QUERY_COLUMNS, "").split(",") if name)
        return names if len(names) == len(self._metadata.schema.fields) else ()

    @property
    def default_namespace(self) -> tuple[str, ...]:
        """The catalog and namespace in which the query's short table names are resolved."""
        current = self._metadata.current
        return (current.catalog or self.name.catalog, *current.namespace)

    @property
    def properties(self) -> Mapping[str, str]:
        """The view's properties."""
        return MappingProxyType(dict(self._metadata.properties))

    @property
    def comment(self) -> str | None:
        """The view's description; None without one."""
        return self.properties.get(COMMENT)

    @property
    def location(self) -> str:
        """The folder of the view's metadata."""
        return self._metadata.location

    @property
    def uuid(self) -> str:
        """The view's UUID, which a rename does not change."""
        return self._metadata.uuid

    @property
    def version(self) -> int:
        """The number of the current version."""
        return self._metadata.current_version_id

    @property
    def versions(self) -> tuple[ViewVersion, ...]:
        """The versions in the metadata, by number: at most 10, or the property `version.history.num-entries`."""
        return tuple(self._version(each) for _, each in sorted(self._metadata.versions.items()))

    def _version(self, each: ViewVersionNode) -> ViewVersion:
        return ViewVersion(
            each.id,
            _EPOCH + timedelta(milliseconds=each.timestamp_ms),
            MappingProxyType(each.queries),
            each.catalog or self.name.catalog,
            each.namespace,
            self._metadata.schemas[each.schema_id].arrow(),
        )

    @property
    def _metadata(self) -> ViewMetadata:
        return self._stored.metadata
