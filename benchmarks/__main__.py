"""`python -m benchmarks [NAME ...] [--rows N] [--runs N] [--write]`."""

from __future__ import annotations

import argparse
import os
import platform
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from benchmarks import (
    appending,
    commits,
    delta_log,
    huge_deletes,
    local_read,
    maintenance,
    object_store,
    other_formats,
    planning,
    planning_growth,
    reopening,
    row_changes,
    small_files,
    spark_read,
    spark_store,
    spark_tpc,
    streaming,
    tpch,
    upserts,
    upserts_growth,
)
from benchmarks.harness import as_markdown
from benchmarks.picture import PICTURE, draw

BENCHMARKS = {
    "local_read": local_read,
    "spark_read": spark_read,
    "small_files": small_files,
    "spark_store": spark_store,
    "delta_log": delta_log,
    "planning": planning,
    "planning_growth": planning_growth,
    "reopening": reopening,
    "upserts": upserts,
    "upserts_growth": upserts_growth,
    "huge_deletes": huge_deletes,
    "streaming": streaming,
    "appending": appending,
    "commits": commits,
    "row_changes": row_changes,
    "tpch": tpch,
    "spark_tpc": spark_tpc,
    "maintenance": maintenance,
    "object_store": object_store,
    "other_formats": other_formats,
}
TITLES = {
    "local_read": "Reading in process",
    "spark_read": "Reading on Spark",
    "small_files": "Many small files on Spark",
    "spark_store": "Reading on Spark from an object store",
    "delta_log": "Planning a Delta log",
    "planning": "Planning an Iceberg table",
    "planning_growth": "Planning up to ten million files",
    "reopening": "Opening a table again",
    "upserts": "Reading many upserts",
    "upserts_growth": "Planning many upserts",
    "huge_deletes": "Very large deletes",
    "streaming": "Streaming on Spark",
    "appending": "Appending rows",
    "commits": "Committing",
    "row_changes": "Changing rows",
    "tpch": "TPC-H",
    "spark_tpc": "TPC-H and TPC-DS on Spark",
    "maintenance": "Removing files",
    "object_store": "Planning and reading in an object store",
    "other_formats": "Reading ORC and Avro",
}
console = Console()
_DOCUMENT = Path("docs/benchmarks.md")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write the results to docs/benchmarks.md")
    arguments = parser.parse_args()
    sections = {}
    for name in arguments.names or BENCHMARKS:
        module = BENCHMARKS[name]
        with console.status(f"{name}: {(module.__doc__ or '').splitlines()[0]}"):
            results = module.run(arguments.rows, arguments.runs)
        table = results if isinstance(results, str) else as_markdown(results)
        console.print(Markdown(f"## {TITLES[name]}\n\n{table}"))
        sections[name] = section(name, module.__doc__ or "", table)
    if arguments.write:
        about = (
            f"Python {platform.python_version()}, {os.cpu_count()} cores. lakescan and the peer take turns, and "
            f"seconds are medians of {arguments.runs}\nruns. The ratio is lakescan's time divided by the peer's "
            "time: below 1, lakescan is faster."
        )
        sections = {**_kept_sections(), **sections}
        text = "\n".join(sections[name] for name in BENCHMARKS if name in sections)
        picture = "![Ratios of lakescan to its peers](benchmarks.svg)"
        whole = f"# Benchmarks\n\nWritten by `make bench BENCH_ARGS=--write`. {about}\n\n{picture}\n\n{text}"
        _DOCUMENT.write_text(whole)
        PICTURE.write_text(draw(whole))


def section(name: str, about: str, table: str) -> str:
    """Return a benchmark's section of the document."""
    return f"## {TITLES[name]}\n\n{about.strip()}\n\nCode: `benchmarks/{name}.py`.\n\n{table.strip()}\n"


def _kept_sections() -> dict[str, str]:
    """Return the sections that the document already has, by benchmark name."""
    names = {title: name for name, title in TITLES.items()}
    parts = _DOCUMENT.read_text().split("\n## ")[1:] if _DOCUMENT.exists() else []
    return {names[part.split("\n", 1)[0]]: f"## {part.rstrip()}\n" for part in parts}


if __name__ == "__main__":
    main()
