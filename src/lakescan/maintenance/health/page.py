"""Render the health of a table as a self-contained HTML page, with inline styles (light and dark) and SVG charts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from lakescan.maintenance.health.table_health import Finding, TableHealth
from lakescan.planning.explain.page import columns_chart
from lakescan.planning.explain.summary import human_bytes, pluralize


def health_as_html(health: TableHealth) -> str:
    """Return the health as an HTML page."""
    title = f"Health of {health.table}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_style()}</style></head>\n"
        f"<body><main><h1>{escape(title)}</h1>\n{_section(health)}</main></body></html>\n"
    )


def health_as_section(health: TableHealth) -> str:
    """Return the content of the health page as an HTML fragment with its style, for notebooks.

    The style applies only to the fragment and uses the notebook's colours.
    """
    style = _style() + files("lakescan.maintenance.health").joinpath("notebook.css").read_text()
    return f'<div class="lakescan-health"><style>@scope {{ {style} }}</style>{_section(health)}</div>'


def _style() -> str:
    plans = files("lakescan.planning.explain").joinpath("page.css").read_text()
    return plans + files("lakescan.maintenance.health").joinpath("health.css").read_text()


def _section(health: TableHealth) -> str:
    state = "nothing to fix" if health.is_healthy else pluralize(len(health.findings), "finding")
    mark = "good" if health.is_healthy else "due"
    committed = "" if health.committed_at is None else f", committed {health.committed_at:%Y-%m-%d %H:%M:%S} UTC"
    return (
        f'<section class="plan health"><header><span class="badge">{escape(health.format)}</span>'
        f'<h2>{escape(health.table)}</h2><span class="verdict {mark}">{escape(state)}</span></header>'
        f'<p class="about">{escape(health.state + committed)}</p>'
        f'<div class="tiles">{_tiles(health)}</div>'
        f"{_findings(health.findings)}"
        f'<ul class="hints sentences">{"".join(f"<li>{escape(each)}</li>" for each in health.sentences())}</ul>'
        f'<div class="pair">{_figures(health)}</div>'
        f"{_partitions(health)}</section>"
    )


def _tiles(health: TableHealth) -> str:
    deletes = health.position_delete_files + health.deletion_vectors + health.equality_delete_files
    tiles = [
        ("data", human_bytes(health.bytes)),
        ("files", f"{health.files:,}"),
        ("average file", human_bytes(health.bytes / health.files) if health.files else "none"),
        ("small files", f"{health.small_files:,}"),
        ("deletes", f"{deletes:,}"),
        ("metadata", human_bytes(health.metadata_bytes)),
        (f"{health.state_word}s", f"{health.snapshots:,}"),
        ("kept for history", human_bytes(health.retained_bytes)),
    ]
    if health.orphans is not None:
        tiles.append(("orphan files", f"{health.orphans:,}"))
    return "".join(f'<div class="tile"><b>{escape(v)}</b><span>{escape(n)}</span></div>' for n, v in tiles)


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    cards = "".join(
        f'<article class="finding"><h3>{escape(each.name)}</h3><p>{escape(each.what)}</p>{_cost(each)}'
        f"<pre><code>{escape(each.shell)}</code></pre><pre><code>{escape(each.python)}</code></pre></article>"
        for each in findings
    )
    return f'<h3>What is worth fixing</h3><div class="findings">{cards}</div>'


def _cost(finding: Finding) -> str:
    kind = "removes" if finding.removes else "rewrites"
    return f'<p class="cost {kind}">{escape(finding.cost)}</p>' if finding.cost else ""


def _figures(health: TableHealth) -> str:
    sizes = health.sizes.to_pylist()  # one row for each power of two
    charts = [
        ("Sizes of the data files", sizes, [human_bytes(each["at_least"]) for each in sizes], "files", "file-sizes")
    ]
    shown = health.partitions.to_pylist()  # at most 20
    if health.partition_count > 1:
        labels = [each["partition"] for each in shown]
        charts.append(("Files of the partitions with the most small ones", shown, labels, "files", "partition-files"))
    return "".join(
        f"<figure><figcaption>{escape(title)}</figcaption>{_chart(rows, labels, column, kind)}</figure>"
        for title, rows, labels, column, kind in charts
    )


def _chart(rows: Sequence[dict[str, int]], labels: Sequence[str], column: str, kind: str) -> str:
    if not rows:
        return '<p class="muted">no files</p>'
    values = [each[column] for each in rows]
    hints = [f"{label}: {pluralize(value, 'file')}" for label, value in zip(labels, values, strict=True)]
    short = [label if len(label) <= 12 else f"{label[:11]}…" for label in labels]
    return columns_chart(values, short, f"histogram {kind}", hints)


def _partitions(health: TableHealth) -> str:
    if health.partition_count < 2:
        return ""
    rows = "".join(
        f"<tr><td>{each['files']:,}</td><td>{each['small_files']:,}</td><td>{human_bytes(each['bytes'])}</td>"
        f"<td><code>{escape(each['partition'])}</code></td></tr>"
        for each in health.partitions.to_pylist()  # at most 20
    )
    more = health.partition_count - health.partitions.num_rows
    rest = f'<p class="muted">and {pluralize(more, "partition")} more</p>' if more > 0 else ""
    return (
        "<h3>Partitions</h3><table><thead><tr><th>files</th><th>small</th><th>size</th><th>partition</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{rest}"
    )
