"""The command that compares the rows that different engines read from the same tables."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

from lakescan.cli.arguments import pairs
from lakescan.cli.maintenance import print_written
from lakescan.cli.output import console, print_json
from lakescan.cli.progress import working
from lakescan.cli.settings import Section, command, storage_options, wants_json
from lakescan.conformance.engines import ENGINES, ReadLimits, find_tables, job_of
from lakescan.conformance.report import TableConformance, as_markdown, as_record, conformance, sums
from lakescan.errors import InvalidOption, NotATable

app: Section = Section("Comparing engines")


@command(app, "conformance")
def conformance_command(
    places: Annotated[list[str], typer.Argument(help="Tables, or local folders with tables below them.")],
    seconds: Annotated[float, typer.Option(help="Seconds that each engine may take for a table.")] = 60,
    rows: Annotated[int, typer.Option(help="Compare values up to this many rows; only count more.")] = 1_000_000,
    python: Annotated[
        list[str] | None,
        typer.Option("--python", help="The Python interpreter of an engine, name=path; may be repeated."),
    ] = None,
    write: Annotated[Path | None, typer.Option("--markdown", help="Also write the report to this file.")] = None,
) -> None:
    """Read tables with lakescan, deltalake, pyiceberg, Polars and DuckDB, as installed, and compare the rows.

    The exit code is 1 if an engine reads other rows, or if lakescan fails to read a table.
    """
    found: list[TableConformance] = []
    with working("reading"):
        for each in _tables(places):
            job = job_of(each, {}, storage_options() or {})
            found.append(conformance(each, job, ReadLimits(seconds, rows), _interpreters(python)))
            if wants_json():
                print_json(as_record(found[-1]))
            else:
                _print(found[-1])
    if write is not None:
        write.write_text(as_markdown(found))
        print_written(write)
    if not wants_json() and len(found) > 1:
        told = "; ".join(f"{engine}: {outcomes}" for engine, (_, outcomes) in sums(found).items())
        console.print(f"{len(found)} tables. {told}", soft_wrap=True)
    if any(each.is_in_doubt for each in found):
        raise typer.Exit(1)


def _tables(places: list[str]) -> list[str]:
    """Find the tables at or below the places, without duplicates; raises `NotATable` if there are none."""
    tables = list(dict.fromkeys(each for place in places for each in find_tables(place)))
    if not tables:
        raise NotATable(f"there is no table below {', '.join(places)}")
    return tables


def _interpreters(python: list[str] | None) -> dict[str, str]:
    """Parse `--python` arguments into absolute paths by engine.

    Raises `InvalidOption` for an unknown engine or a missing interpreter.
    """
    found = dict(pairs(python, "--python takes name=path, e.g. --python duckdb=env/bin/python"))
    others = [engine for engine in ENGINES if engine != "lakescan"]
    for engine, path in found.items():
        if engine not in others:
            raise InvalidOption(f"--python {engine}={path}: use one of the engines {', '.join(others)}")
        if shutil.which(path) is None:
            raise InvalidOption(f"--python {engine}={path}: there is no such program")
    return {engine: os.path.abspath(shutil.which(path) or path) for engine, path in found.items()}


def _print(each: TableConformance) -> None:
    told = ", ".join([*each.features, *(f"{count} {name}" for name, count in each.deletes.items())])
    console.print(f"{each.table}: {each.format} {each.format_version} {told}".rstrip(), soft_wrap=True)
    for r in each.readings:
        rows, why = "" if r.rows is None else f", {r.rows} rows", f": {r.detail}" if r.detail else ""
        console.print(f"  {r.engine} {r.version}".rstrip() + f": {r.outcome}{rows}{why}", soft_wrap=True)
