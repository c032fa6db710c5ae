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
        console.print(Markdown(f"## {name}\n\n{table}"))
        sections[name] = f"## {name}\n\n{module.__doc__}\n\n{table}\n"
    if arguments.write:
        about = (
            f"Python {platform.python_version()}, {os.cpu_count()} cores; medians of {arguments.runs} runs, in which "
            "lakescan and the peer take\nturns. The ratio is lakescan's time over the peer's time: below 1, lakescan "
            "is faster."
        )
        sections = {**_kept_sections(), **sections}
        text = "\n".join(sections[name] for name in BENCHMARKS if name in sections)
        picture = "![Ratios of lakescan to its peers](benchmarks.svg)"
        whole = f"# Benchmarks\n\nWritten by `make bench BENCH_ARGS=--write`. {about}\n\n{picture}\n\n{text}"
        _DOCUMENT.write_text(whole)
        PICTURE.write_text(draw(whole))


def _kept_sections() -> dict[str, str]:
    """The sections that the document already has, by benchmark name."""
    parts = _DOCUMENT.read_text().split("\n## ")[1:] if _DOCUMENT.exists() else []
    return {part.split("\n", 1)[0]: f"## {part.rstrip()}\n" for part in parts}


if __name__ == "__main__":
    main()
