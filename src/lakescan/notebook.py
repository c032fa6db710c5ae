"""Tables and scans as HTML, for notebooks (`_repr_html_`)."""

from __future__ import annotations

from lakescan.common.html import facts_table, grid, preformatted, section
from lakescan.errors import LakescanError
from lakescan.scan_spec import ScanSpec


def table_as_html(name: str, format_name: str, spec: ScanSpec) -> str:
    """A table's name, format, location, version and columns."""
    return _page(name, {"format": format_name, "location": spec.table.location}, spec)


def scan_as_html(spec: ScanSpec) -> str:
    """A scan's table, filter, limit and output columns."""
    facts = {"format": spec.table.name, "table": spec.location, "where": str(spec.predicate)}
    if spec.max_rows is not None:
        facts["limit"] = f"{spec.max_rows:,}"
    return _page("Scan", facts, spec)


def _state(spec: ScanSpec) -> dict[str, str]:
    snapshot = spec.snapshot
    facts = {spec.table.words.state: "none" if snapshot.id is None else str(snapshot.id)}
    return facts if snapshot.timestamp is None else facts | {"committed": f"{snapshot.timestamp:%Y-%m-%d %H:%M:%S} UTC"}


def _page(title: str, facts: dict[str, str], spec: ScanSpec) -> str:
    try:
        facts, fields = facts | _state(spec), spec.output.fields
    except LakescanError as error:  # a cell that shows a table should not end in a traceback
        return section(title, preformatted(str(error)))
    columns = ((f.name, str(f.type), "required" if f.required else "", f.doc or "") for f in fields)
    return section(title, facts_table(facts), grid(("column", "type", "", "comment"), columns))
