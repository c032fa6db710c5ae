"""The `lakescan` command: its global options, and the commands that read tables."""

from __future__ import annotations

import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as Grid
from rich.text import Text

import lakescan
from lakescan.cli import catalogs, conformance, maintenance, query, states
from lakescan.cli import run as jobs
from lakescan.cli.arguments import pairs
from lakescan.cli.failures import exit_code, print_error
from lakescan.cli.output import console, print_json, print_rows
from lakescan.cli.progress import working
from lakescan.cli.settings import Section, TablePath, command, storage_options, wants_json
from lakescan.common.option_values import mapping
from lakescan.common.references import parse_reference, split_list
from lakescan.common.secrets import hide_secrets
from lakescan.errors import InvalidOption, NoSuchColumn, missing_dependency, nearest
from lakescan.planning.explain import plan_for_terminal, write_html

app: Section = Section(
    "Looking at tables",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Iceberg and Delta tables, from the command line.",
)
GROUPS = (catalogs, states, maintenance, query, jobs, conformance)
for _group in GROUPS:
    app.add_typer(_group.app)
_CONTEXT = ("clusterId", "userId", "userName", "job", "notebook")
_TOO_WIDE = ("summary", "operationMetrics", "engineInfo", "userMetadata", *_CONTEXT)

OptionList = Annotated[list[str] | None, typer.Option("--option", "-o", help="A read option, name=value.")]
Relocate = Annotated[str | None, typer.Option(help="JSON object that maps old location prefixes to new ones.")]
Where = Annotated[str | None, typer.Option("--where", "-w", help="Row filter, as SQL.")]
Columns = Annotated[str | None, typer.Option("--select", "-s", help="Columns to read, separated by commas.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        console.print(f"lakescan {lakescan.__version__}")
        raise typer.Exit()


@app.callback()
def known_catalogs(
    embedded: Annotated[
        list[str] | None,
        typer.Option("--catalog", help="An embedded catalog, name=folder. Others come from pyiceberg's configuration."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and exit.")
    ] = False,
) -> None:
    """Iceberg and Delta tables, from the command line."""
    for name, folder in pairs(embedded, "catalogs are written name=folder, e.g. --catalog local=./lake"):
        lakescan.catalog(name, warehouse=folder)


@command(app, "doctor", opens=False)
def doctor_command(
    path: Annotated[str | None, typer.Option(help="A storage location whose access to check.")] = None,
    spark: Annotated[bool, typer.Option(help="Start a local Spark session and check its workers.")] = False,
) -> None:
    """Check Spark, Java, Python and Arrow, in this process and on Spark's workers."""
    session: Any = None
    if spark:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise missing_dependency("pyspark", "spark", "looking at Spark") from error
        from lakescan.spark import register

        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        register(session)
    diagnosis = lakescan.doctor(session, path)
    if wants_json():
        for check in diagnosis.checks:
            print_json(asdict(check))
    else:
        _show_diagnosis(diagnosis)
    if not diagnosis.ok:
        raise typer.Exit(1)


@command(app, "describe")
def describe(path: TablePath, option: OptionList = None, relocate: Relocate = None) -> None:
    """Show a table's format, location, layout, columns and properties."""
    opened = _open(path, option, relocate)
    facts = {
        "name": None if opened.name is None else str(opened.name),
        "format": opened.format,
        "format version": opened.format_version,
        "location": opened.folder,
        "comment": opened.comment,
        "version": opened.version,
        "partitioning": opened.partitioning,
        "sort order": opened.sort_order,
    }
    columns, properties = _columns(opened), dict(sorted(opened.properties.items()))
    if wants_json():
        names = {name.replace(" ", "_"): value for name, value in facts.items()}
        print_json({**names, "columns": columns, "properties": properties})
        return
    for name, value in facts.items():
        if value is not None:
            console.print(Text.assemble((f"{name:<16}", "bold"), str(value)), soft_wrap=True)
    print_rows(columns)
    for name, value in properties.items():
        console.print(f"{name} = {value}", soft_wrap=True)


@command(app, "schema")
def schema(path: TablePath, option: OptionList = None, relocate: Relocate = None) -> None:
    """List the columns of a table."""
    print_rows(_columns(_open(path, option, relocate)))


@command(app, "properties")
def properties(path: TablePath) -> None:
    """List the properties of a table."""
    found = sorted(_open(path, None, None).properties.items())
    print_rows([{"property": name, "value": value} for name, value in found])


@command(app, "explain")
def explain(
    path: TablePath,
    where: Where = None,
    select: Columns = None,
    html: Annotated[Path | None, typer.Option(help="Also write the plan to this file, as an HTML page.")] = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show which files a scan would read, which files it would skip, and why."""
    plan = _scan(_open(path, option, relocate), where, select).plan()
    if wants_json():
        print_json(asdict(plan.report))
    else:
        console.print(plan_for_terminal(plan))
    if html is not None:
        write_html([plan], html)
        maintenance.print_written(html)


@command(app, "history")
def history(path: TablePath, relocate: Relocate = None) -> None:
    """List the table's commits, oldest first."""
    commits = _open(path, None, relocate).history()
    wide = () if wants_json() else _TOO_WIDE
    print_rows(commits.select([n for n in commits.column_names if n not in wide]))


@command(app, "head")
def head(
    path: TablePath,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of rows to show.")] = 10,
    where: Where = None,
    select: Columns = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show the first rows of a scan."""
    print_rows(_scan(_open(path, option, relocate), where, select).limit(rows).to_arrow())


@command(app, "count")
def count(path: TablePath, where: Where = None, option: OptionList = None, relocate: Relocate = None) -> None:
    """Count the rows of a scan, from metadata only where possible."""
    with working("counting"):
        rows = _scan(_open(path, option, relocate), where, None).count()
    if wants_json():
        print_json({"rows": rows})
    else:
        console.print(str(rows))


@command(app, "inspect")
def inspect(
    path: TablePath,
    name: Annotated[str, typer.Argument(help="A metadata table, such as snapshots, files or partitions.")],
    select: Columns = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show a metadata table."""
    rows = _open(path, option, relocate).inspect(name)
    columns = [".".join(parse_reference(n)) for n in split_list(select)] if select else rows.column_names
    if unknown := [n for n in columns if n not in rows.column_names]:
        suggestion = nearest(unknown[0], rows.column_names)
        raise NoSuchColumn(f"{name} has no column {unknown[0]!r}.{suggestion} Columns: {', '.join(rows.column_names)}")
    print_rows(rows.select(columns))


def run() -> None:
    """Run a command; print errors of lakescan, storage and catalogs without a traceback."""
    try:
        app(standalone_mode=True)
    except Exception as error:
        code = exit_code(error)
        if code is None:
            print(hide_secrets(traceback.format_exc()), end="", file=sys.stderr)
            raise SystemExit(70) from None
        print_error(error)
        raise SystemExit(code) from None


def _open(path: str, options: list[str] | None, relocate: str | None) -> lakescan.Table:
    read_options: dict[str, Any] = dict(pairs(options, "options are written name=value, e.g. -o versionAsOf=3"))
    prefixes = _prefixes(relocate) if relocate else None
    return lakescan.table(path, relocate=prefixes, storage_options=storage_options(), **read_options)


def _columns(opened: lakescan.Table) -> list[dict[str, Any]]:
    fields = opened.scan().spec.output.fields
    return [{"column": f.name, "type": str(f.type), "required": bool(f.required), "comment": f.doc} for f in fields]


def _prefixes(text: str) -> dict[str, str]:
    try:
        return {str(old): str(new) for old, new in mapping(text).items()}
    except ValueError as error:
        raise InvalidOption(
            f'--relocate {text!r} is not a JSON object such as {{"s3://old/": "/new/"}}: {error}'
        ) from error


def _scan(opened: lakescan.Table, where: str | None, select: str | None) -> lakescan.Scan:
    scan = opened.scan()
    if where:
        scan = scan.where(where)
    return scan.select(*split_list(select)) if select else scan


def _show_diagnosis(diagnosis: lakescan.Diagnosis) -> None:
    grid = Grid(box=None, header_style="bold")
    for name in ("", "check", "found", "what to do"):
        grid.add_column(name, overflow="fold")
    for check in diagnosis.checks:
        mark = Text("ok", style="green") if check.ok else Text("wrong", style="red")
        grid.add_row(mark, check.subject, check.found, "" if check.ok else check.advice)
    console.print(grid)
