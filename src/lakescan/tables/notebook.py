"""Tables, scans, changes, streams, catalogs, views and transactions as HTML for notebooks (`_repr_html_`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from lakescan.common.html import facts_table, grid, name_list, pre_block, section
from lakescan.errors import LakescanError
from lakescan.tables.scan_spec import ScanSpec

_MOST_NAMESPACES, _MOST_TABLES = 10, 50


def table_as_html(name: str, format_name: str, spec: ScanSpec) -> str:
    """Return HTML with a table's name, format, location, version and columns."""
    return _page(name, {"format": format_name, "location": spec.table.location}, spec)


def scan_as_html(spec: ScanSpec) -> str:
    """Return HTML with a scan's table, filter, limit and output columns."""
    facts = {"format": spec.table.name, "table": spec.location, "where": str(spec.predicate)}
    if spec.max_rows is not None:
        facts["limit"] = f"{spec.max_rows:,}"
    return _page("Scan", facts, spec)


def changes_as_html(spec: ScanSpec, identity: Sequence[str]) -> str:
    """Return HTML with the table whose changes are read, and the columns of the changes.

    `identity` are the columns that pair a delete and an insert into an update.
    """
    facts = {"format": spec.table.name, "table": spec.location}
    if identity:
        facts["identity"] = name_list(identity)
    return _page("Changes", facts, spec)


def stream_as_html(spec: ScanSpec, state: str, offset: Mapping[str, object]) -> str:
    """Return HTML with the table, filter, state, offset and columns of a stream, without reading the table.

    `offset` maps parts of the offset, such as version and index, to their values.
    """
    at = name_list([f"{name}: {value}" for name, value in offset.items() if name != "table"])
    facts = {"format": spec.table.name, "table": spec.location, "where": str(spec.predicate), "state": state}
    return section("Stream", facts_table(facts | {"offset": at}), _columns(spec))


def catalog_as_html(name: str, namespaces: Callable[[], list[str]], tables: Callable[[str], list[str]]) -> str:
    """Return HTML with a catalog's first namespaces and their tables; each namespace is one request.

    Returns the message of a lakescan error as HTML instead of raising it.
    """
    try:
        found = namespaces()
        rows = [(each, name_list(tables(each), _MOST_TABLES)) for each in found[:_MOST_NAMESPACES]]
    except LakescanError as error:
        return section(f"Catalog {name}", pre_block(str(error)))
    if len(found) > _MOST_NAMESPACES:
        rows.append((f"and {len(found) - _MOST_NAMESPACES:,} more", ""))
    return section(f"Catalog {name}", grid(("namespace", "tables"), rows))


def view_as_html(name: str, facts: Mapping[str, str], queries: Mapping[str, str], schema: pa.Schema) -> str:
    """Return HTML with a view's properties, its queries by dialect, and its columns."""
    return _definition(f"View {name}", facts, queries, schema)


def view_version_as_html(number: int, facts: Mapping[str, str], queries: Mapping[str, str], schema: pa.Schema) -> str:
    """Return HTML with a view version's properties, its queries by dialect, and its columns."""
    return _definition(f"View version {number}", facts, queries, schema)


def transaction_as_html(catalog: str, facts: Mapping[str, str], changed: Mapping[str, Sequence[str]]) -> str:
    """Return HTML with a transaction's state (`facts`), and its operations by table (`changed`)."""
    rows = [(name, name_list(operations)) for name, operations in changed.items()]
    changes = grid(("table", "changes"), rows) if rows else ""
    return section(f"Transaction of catalog {catalog}", facts_table(facts), changes)


def _definition(title: str, facts: Mapping[str, str], queries: Mapping[str, str], schema: pa.Schema) -> str:
    texts = [section(dialect, pre_block(query)) for dialect, query in queries.items()]
    columns = grid(("column", "type"), [(field.name, str(field.type)) for field in schema])
    return section(title, facts_table(facts), *texts, columns)


def _state(spec: ScanSpec) -> dict[str, str]:
    snapshot = spec.snapshot
    facts = {spec.table.words.state: "none" if snapshot.id is None else str(snapshot.id)}
    return facts if snapshot.timestamp is None else facts | {"committed": f"{snapshot.timestamp:%Y-%m-%d %H:%M:%S} UTC"}


def _page(title: str, facts: dict[str, str], spec: ScanSpec) -> str:
    try:
        facts, columns = facts | _state(spec), _columns(spec)
    except LakescanError as error:  # a cell that shows a table should not end in a traceback
        return section(title, pre_block(str(error)))
    return section(title, facts_table(facts), columns)


def _columns(spec: ScanSpec) -> str:
    fields = spec.output.fields
    rows = [(f.name, str(f.type), "required" if f.required else "", f.doc or "") for f in fields]
    return grid(("column", "type", "", "comment"), rows)
