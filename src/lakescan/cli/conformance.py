"""The command that compares what engines read of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lakescan.cli.arguments import pairs
from lakescan.cli.maintenance import print_written
from lakescan.cli.output import console, print_json
from lakescan.cli.progress import working
from lakescan.cli.settings import Section, command, storage_options, wants_json
from lakescan.conformance.engines import Limits
from lakescan.conformance.report import TableConformance, as_record, conformance, markdown
from lakescan.conformance.tables import found_below, job_of
from lakescan.errors import NotATable

app: Section = Section("Comparing engines")


@command(app, "conformance")
def conformance_command(
    places: Annotated[list[str], typer.Argument(help="Tables, or local folders with tables below them.")],
    seconds: Annotated[float, typer.Option(help="How long each engine may take for a table.")] = 60,
    rows: Annotated[int, typer.Option(help="Up to so many rows are compared by values; more are counted.")] = 1_000_000,
    python: Annotated[
        list[str] | None,
        typer.Option("--python", help="The Python of an engine, name=path; may be repeated."),
    ] = None,
    write: Annotated[Path | None, typer.Option("--markdown", help="Also write the report to this file.")] = None,
) -> None:
    """Read tables with lakescan, deltalake, pyiceberg, Polars and DuckDB, as installed, and compare the rows."""
    interpreters = dict(pairs(python, "an engine's Python is written name=path, e.g. --python duckdb=env/bin/python"))
    tables = [each for place in places for each in found_below(place)]
    if not tables:
        raise NotATable(f"there is no table below {', '.join(places)}")
    found: list[TableConformance] = []
    with working("reading"):
        for each in tables:
            job = job_of(each, {}, storage_options() or {})
            found.append(conformance(each, job, Limits(seconds, rows), interpreters))
            if wants_json():
                print_json(as_record(found[-1]))
    if write is not None:
        write.write_text(markdown(found))
        print_written(write)
    if not wants_json():
        _print(found)


def _print(found: list[TableConformance]) -> None:
    for each in found:
        told = ", ".join([*each.features, *(f"{count} {name}" for name, count in each.deletes.items())])
        console.print(f"{each.table}: {each.format} {each.format_version} {told}".rstrip(), soft_wrap=True)
        for r in each.readings:
            rows, why = "" if r.rows is None else f", {r.rows} rows", f": {r.detail}" if r.detail else ""
            console.print(f"  {r.engine} {r.version}: {r.outcome}{rows}{why}", soft_wrap=True)
