"""The commands that look: doctor, explain, history, head, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from lakescan.catalog import catalog
from lakescan.cli.maintenance import app as upkeep
from lakescan.common.option_values import mapping
from lakescan.doctor import Diagnosis, doctor
from lakescan.errors import InvalidOption, LakescanError, NoSuchColumn, missing_dependency, nearest
from lakescan.explain import plan_for_terminal, write_html
from lakescan.opening import table
from lakescan.scan import Scan
from lakescan.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Iceberg and Delta tables, from the command line.")
app.add_typer(upkeep)
console = Console(markup=False, emoji=False)
_TOO_WIDE = ("summary", "operationMetrics", "engineInfo", "userMetadata", "clusterId", "userId", "userName")

TablePath = Annotated[
    str, typer.Argument(help="A table's folder or URI, an Iceberg metadata JSON, or catalog.namespace.table.")
]
OptionList = Annotated[list[str] | None, typer.Option("--option", "-o", help="A read option, name=value.")]
Relocate = Annotated[str | None, typer.Option(help="JSON of old location prefix to new one.")]
Where = Annotated[str | None, typer.Option("--where", "-w", help="Rows to read, as SQL.")]
Columns = Annotated[str | None, typer.Option("--select", "-s", help="Columns, separated by commas.")]


@app.callback()
def catalogs(
    embedded: Annotated[
        list[str] | None,
        typer.Option("--catalog", help="An embedded catalog, name=folder; pyiceberg's configuration has the others."),
    ] = None,
) -> None:
    """Iceberg and Delta tables, from the command line."""
    for name, folder in _pairs(embedded, "catalogs are written name=folder, e.g. --catalog local=./lake"):
        catalog(name, warehouse=folder)


@app.command("doctor")
def doctor_command(
    path: Annotated[str | None, typer.Option(help="A storage location to reach.")] = None,
    spark: Annotated[bool, typer.Option(help="Start a local Spark session and look at its workers.")] = False,
) -> None:
    """Check Spark, Java, Python and Arrow, here and on Spark's workers."""
    session: Any = None
    if spark:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise missing_dependency("pyspark", "spark", "looking at Spark") from error
        from lakescan.spark import register

        session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        register(session)
    found = doctor(session, path)
    _show_diagnosis(found)
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def explain(
    path: TablePath,
    where: Where = None,
    select: Columns = None,
    html: Annotated[Path | None, typer.Option(help="Write the plan as a page to this file.")] = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show what a scan would read, and what it skips and why."""
    plan = _scan(_open(path, option, relocate), where, select).plan()
    console.print(plan_for_terminal(plan))
    if html is not None:
        console.print(f"written to {write_html([plan], html)}")


@app.command()
def history(path: TablePath, relocate: Relocate = None) -> None:
    """List the table's commits, oldest first."""
    found = _open(path, None, relocate).history()
    _print_rows(found.select([n for n in found.column_names if n not in _TOO_WIDE]).to_pylist())


@app.command()
def head(
    path: TablePath,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Rows to show.")] = 10,
    where: Where = None,
    select: Columns = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show the first rows of a scan."""
    _print_rows(_scan(_open(path, option, relocate), where, select).limit(rows).to_arrow().to_pylist())


@app.command()
def inspect(
    path: TablePath,
    name: Annotated[str, typer.Argument(help="A metadata table, such as snapshots, files or partitions.")],
    select: Columns = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show a metadata table."""
    found = _open(path, option, relocate).inspect(name)
    wanted = [n.strip() for n in select.split(",")] if select else found.column_names
    if wrong := [n for n in wanted if n not in found.column_names]:
        suggestion = nearest(wrong[0], found.column_names)
        raise NoSuchColumn(f"{name} has no column {wrong[0]!r}.{suggestion} It has: {', '.join(found.column_names)}")
    _print_rows(found.select(wanted).to_pylist())


def run() -> None:
    """Run a command; errors of lakescan, of storage and of catalogs are one line, not a traceback."""
    try:
        app(standalone_mode=True)
    except Exception as error:
        if not isinstance(error, (LakescanError, OSError)) and not _is_of_library(error):
            raise
        text = " ".join(str(error).split())
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(Text.assemble((type(error).__name__, "red"), f": {text}"))
        raise SystemExit(1) from None


def _is_of_library(error: Exception) -> bool:
    """Whether an error is one of the libraries that reach tables: their message says more than where it came from."""
    libraries = ("pyiceberg", "deltalake", "_internal", "sqlalchemy", "botocore", "thrift", "pyarrow")
    return any(kind.__module__.partition(".")[0] in libraries for kind in type(error).__mro__)


def _open(path: str, options: list[str] | None, relocate: str | None) -> Table:
    said: dict[str, Any] = dict(_pairs(options, "options are written name=value, e.g. -o versionAsOf=3"))
    return table(path, relocate=_prefixes(relocate) if relocate else None, **said)


def _prefixes(text: str) -> dict[str, str]:
    try:
        return {str(old): str(new) for old, new in mapping(text).items()}
    except ValueError as error:
        raise InvalidOption(
            f'--relocate {text!r} is no JSON object such as {{"s3://old/": "/new/"}}: {error}'
        ) from error


def _pairs(texts: list[str] | None, otherwise: str) -> list[tuple[str, str]]:
    parted = [text.partition("=") for text in texts or []]
    if any(not equals for _, equals, _ in parted):
        raise InvalidOption(otherwise)
    return [(name, value) for name, _, value in parted]


def _scan(opened: Table, where: str | None, select: str | None) -> Scan:
    scan = opened.scan()
    if where:
        scan = scan.where(where)
    return scan.select(*(name.strip() for name in select.split(","))) if select else scan


def _print_rows(rows: list[dict[str, Any]]) -> None:
    grid = Grid(header_style="bold")
    for name in rows[0] if rows else ["no rows"]:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(v) for v in row.values()))
    console.print(grid)


def _cell(value: Any) -> RenderableType:
    if value is None:
        return Text("null", style="dim")
    return str(dict(value)) if isinstance(value, list) and value and isinstance(value[0], tuple) else str(value)


def _show_diagnosis(found: Diagnosis) -> None:
    grid = Grid(box=None, header_style="bold")
    for name in ("", "what", "found", "what to do"):
        grid.add_column(name, overflow="fold")
    for check in found.checks:
        mark = Text("ok", style="green") if check.ok else Text("wrong", style="red")
        grid.add_row(mark, check.subject, check.found, "" if check.ok else check.advice)
    console.print(grid)
