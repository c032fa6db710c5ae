"""Write the tables of `docs/reference/` from the source: `python scripts/reference_doc.py`.

Features of both formats, table properties, metrics, environment variables, and the pages of the API.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import lakescan
from lakescan.delta.metadata.features import FEATURES, Support
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.iceberg.metadata.format_versions import VERSIONS
from lakescan.iceberg.metadata.table_properties import IcebergProperties

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "reference"
SOURCE = ROOT / "src" / "lakescan"
_NOTE = "This page is made from the source by `scripts/reference_doc.py`.\n"
_VARIABLE = re.compile(r"(AWS|GOOGLE|AZURE|LAKESCAN|PYSPARK|PYICEBERG|JAVA|HADOOP)_[A-Z0-9_]+")
_API = {
    "tables": (
        "Tables",
        "Open, read, write and change a table.",
        ("table", "save", "convert_to_delta", "Table", "AlterBuilder", "MergeBuilder"),
    ),
    "scans": (
        "Scans and queries",
        "Describe what to read, then read it.",
        (
            "Scan",
            "Column",
            "col",
            "Predicate",
            "sql",
            "Query",
            "ScanPlan",
            "ScanReport",
            "ScanMetrics",
            "ScanTask",
            "TaskGroup",
            "TaskGroups",
            "FileScanTask",
            "DeleteFile",
            "DeleteKind",
        ),
    ),
    "changes": ("Changes and streams", "Read what changed, and follow a table.", ("Changes", "BatchStream", "Backlog")),
    "catalogs": (
        "Catalogs, views, transactions",
        "Names of tables.",
        ("catalog", "Catalog", "Identifier", "Transaction", "View", "ViewVersion"),
    ),
}


def pages() -> dict[Path, str]:
    """Return the text of each page."""
    texts = {
        "features": _features(),
        "properties": _properties(),
        "metrics": _metrics(),
        "environment": _environment(),
        **{f"api/{name}": text for name, text in _api()},
    }
    return {FOLDER / f"{name}.md": "\n".join(lines).rstrip() + "\n" for name, lines in texts.items()}


def _features() -> list[str]:
    lines = [
        "# Table features",
        "",
        "What lakescan does with tables that have a feature. One that is not listed is refused by name.",
        "",
        _NOTE,
    ]
    lines += [
        "## Delta",
        "",
        "*read*: readers know it. *write*: new files and commits comply with it. *vacuum*: files can be removed.",
        "",
    ]
    lines += ["A feature of writers alone need not be known by readers: tables with it are read in any case.", ""]
    lines += ["| feature | read | write | vacuum | brought by the property |", "|---|---|---|---|---|"]
    for each in FEATURES.values():
        has = ["yes" if flag in each.support else "" for flag in (Support.READ, Support.WRITE, Support.VACUUM)]
        by = f"`{each.property[0]}={each.property[1]}`" if each.property else ""
        lines.append(f"| `{each.name}` | {' | '.join(has)} | {by} |")
    names = [f.name for f in fields(next(iter(VERSIONS.values()))) if f.name not in ("number", "lists_all")]
    lines += ["", "## Iceberg", "", "What a format version brings; all three are read and written.", ""]
    lines += ["| | " + " | ".join(f"version {n}" for n in VERSIONS) + " |", "|---|" + "---|" * len(VERSIONS)]
    for name in names:
        lines.append(
            f"| {name.replace('_', ' ')} | "
            + " | ".join("yes" if getattr(v, name) else "" for v in VERSIONS.values())
            + " |"
        )
    return lines


def _properties() -> list[str]:
    lines = [
        "# Table properties",
        "",
        "The properties of tables that lakescan obeys, and those that it only checks. Others are kept, without effect.",
        "",
        _NOTE,
    ]
    for name, declared in (("Iceberg", IcebergProperties.declarations()), ("Delta", DeltaProperties.declarations())):
        lines += [f"## {name}", "", "| property | default | what it does |", "|---|---|---|"]
        shown = [each for each in declared.values() if not each.is_internal]
        rows = {each.name: f"| `{each.name}` | {_default(each.default)} | {_cell(each.doc)} |" for each in shown}
        lines += [rows[each.name] for each in shown if not each.is_kept]
        lines.append("")
        if kept := [rows[each.name] for each in shown if each.is_kept]:
            lines += [
                f"### {name}: checked and kept, without effect",
                "",
                "For other readers and writers. A value of another type is refused.",
                "",
                "| property | default | what it does there |",
                "|---|---|---|",
                *kept,
                "",
            ]
    return lines


def _default(value: object) -> str:
    if value is None or not isinstance(value, str | int | float | bool):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _metrics() -> list[str]:
    lines = [
        "# Metrics",
        "",
        "The figures of a plan, `Scan.plan().report.metrics`, under the names of Iceberg's scan metrics.",
        "",
        _NOTE,
    ]
    docs = re.findall(r"^- `(\w+)`(?:, `\w+`)*: (.+)$", lakescan.ScanMetrics.__doc__ or "", re.MULTILINE)
    about = dict(docs)
    lines += ["## Metrics of a scan", "", "| in Python | in reports | |", "|---|---|---|"]
    for each in fields(lakescan.ScanMetrics):
        lines.append(f"| `{each.name}` | `{each.name.replace('_', '-')}` | {about.get(each.name, '')} |")
    lines += ["", "## Report of a plan", "", "| attribute of `ScanReport` |", "|---|"]
    lines += [f"| `{each.name}` |" for each in fields(lakescan.ScanReport)]
    return lines


def _environment() -> list[str]:
    lines = [
        "# Environment variables",
        "",
        "Variables that lakescan's code names. Libraries below it (pyiceberg, obstore, Spark) read more.",
        "",
        _NOTE,
    ]
    lines += ["| variable | where |", "|---|---|"]
    found: dict[str, set[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _VARIABLE.fullmatch(node.value):
                found.setdefault(node.value, set()).add(file.relative_to(SOURCE).as_posix())
    return lines + [
        f"| `{name}` | {', '.join(f'`{each}`' for each in sorted(found[name]))} |" for name in sorted(found)
    ]


def _api() -> Iterator[tuple[str, list[str]]]:
    errors = tuple(
        n
        for n in lakescan.__all__
        if isinstance(getattr(lakescan, n), type) and issubclass(getattr(lakescan, n), Exception)
    )
    named = {name for _, _, names in _API.values() for name in names} | {*errors, "__version__", "errors", "spark"}
    others = tuple(name for name in lakescan.__all__ if name not in named)
    every = {
        **_API,
        "results": ("Results and others", "What calls return.", others),
        "errors": ("Errors", "What lakescan raises: see [Troubleshooting](../../guides/troubleshooting.md).", errors),
    }
    index = ["# Python API", "", "Every public name, from its docstring.", "", "| page | names |", "|---|---|"]
    for name, (title, about, names) in every.items():
        index.append(f"| [{title}]({name}.md) | {', '.join(f'`{each}`' for each in names)} |")
        yield (
            f"api/{name}".removeprefix("api/"),
            [f"# {title}", "", about, "", *(f"::: {_place(each)}\n" for each in names)],
        )
    index.append("| [lakescan.spark](spark.md) | what runs on Spark |")
    yield "index", [*index, "", _NOTE]
    yield (
        "spark",
        [
            "# lakescan.spark",
            "",
            "What runs on a Spark session.",
            "",
            "::: lakescan.spark",
            "    options:",
            "      heading_level: 2",
            "      show_root_heading: false",
            "      members:",
        ]
        + [f"        - {n}" for n in lakescan.spark.__all__],
    )


def _place(name: str) -> str:
    return f"{lakescan._WHERE.get(name, 'lakescan.errors')}.{name}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


if __name__ == "__main__":
    (FOLDER / "api").mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
