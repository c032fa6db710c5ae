"""Tables and scans as HTML, for notebooks (`_repr_html_`)."""

from __future__ import annotations

from html import escape

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
        return f"<div><b>{escape(title)}</b><pre>{escape(str(error))}</pre></div>"
    rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    columns = "".join(
        f"<tr><td>{escape(f.name)}</td><td>{escape(str(f.type))}</td><td>{'required' if f.required else ''}</td>"
        f"<td>{escape(f.doc or '')}</td></tr>"
        for f in fields
    )
    return (
        f"<div><b>{escape(title)}</b><table>{rows}</table>"
        f"<table><tr><th>column</th><th>type</th><th></th><th>comment</th></tr>{columns}</table></div>"
    )
