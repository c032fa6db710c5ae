"""Views of catalogs, as `Catalog.load_view` returns them."""

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
    """One definition of a view.

    - `version_id`: its number. `created`: when it was made, in UTC.
    - `queries`: its texts by dialect: spark, trino, ...
    - `default_catalog`, `default_namespace`: where the short names of its texts are.
    - `schema`: its columns.

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
        """The version as notebooks show it: when it was made, its queries and its columns."""
        facts = {
            "created": f"{self.created:%Y-%m-%d %H:%M:%S} UTC",
            "default catalog": self.default_catalog,
            "default namespace": ".".join(self.default_namespace),
        }
        return view_version_as_html(self.version_id, facts, self.queries, self.schema)


class View:
    """A view of a catalog, in the state that it had when it was loaded.

    Its rows are those of its query: `lakescan.sql("SELECT * FROM lake.shop.open_orders")`.

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
        """The view as notebooks show it: where it is, its queries and its columns."""
        facts = {"location": self.location, "version": str(self.version)}
        if self.comment is not None:
            facts["comment"] = self.comment
        return view_as_html(str(self.name), facts, self.queries, self.schema)

    @property
    def name(self) -> Identifier:
        """Its name: catalog, namespace, view."""
        return self._stored.identifier

    @property
    def query(self) -> str:
        """Its query in Spark's dialect, which is what runs.

        Raises:
            UnsupportedFeature: It has queries in other dialects alone.
        """
        text = self.queries.get(DIALECT)
        if text is None:
            raise UnsupportedFeature(
                f"the view {self.name}, with queries in {', '.join(sorted(self.queries)) or 'no dialect'} alone",
                "A view is read by its query in Spark's dialect: add it with CREATE OR REPLACE VIEW.",
            )
        return text

    @property
    def queries(self) -> Mapping[str, str]:
        """Its queries by dialect, in lower case."""
        return MappingProxyType(self._metadata.current.queries)

    @property
    def schema(self) -> pa.Schema:
        """Its columns, with the types that they had when it was made."""
        return self._metadata.schema.arrow()

    @property
    def query_columns(self) -> tuple[str, ...]:
        """What its query calls its columns; empty if that is not recorded."""
        names = tuple(name for name in self.properties.get(QUERY_COLUMNS, "").split(",") if name)
        return names if len(names) == len(self._metadata.schema.fields) else ()

    @property
    def default_namespace(self) -> tuple[str, ...]:
        """The catalog and namespace of the short names in its query."""
        current = self._metadata.current
        return (current.catalog or self.name.catalog, *current.namespace)

    @property
    def properties(self) -> Mapping[str, str]:
        """Its properties."""
        return MappingProxyType(dict(self._metadata.properties))

    @property
    def comment(self) -> str | None:
        """What it is about."""
        return self.properties.get(COMMENT)

    @property
    def location(self) -> str:
        """The folder of its metadata."""
        return self._metadata.location

    @property
    def uuid(self) -> str:
        """What identifies it, also after it was renamed."""
        return self._metadata.uuid

    @property
    def version(self) -> int:
        """The number of the version that is read."""
        return self._metadata.current_version_id

    @property
    def versions(self) -> tuple[ViewVersion, ...]:
        """The versions that its metadata keeps, by number: ten, unless `version.history.num-entries` says otherwise."""
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
