"""The read-only commands: doctor, explain, history, head, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from lakescan.catalog import catalog
from lakescan.cli.arguments import pairs
from lakescan.cli.maintenance import app as maintenance
from lakescan.cli.query import app as query
from lakescan.common.option_values import mapping
from lakescan.common.references import parse_reference, split_list
from lakescan.doctor import Diagnosis, doctor
from lakescan.errors import InvalidOption, LakescanError, NoSuchColumn, missing_dependency, nearest
from lakescan.explain import plan_for_terminal, write_html
from lakescan.opening import table
from lakescan.scan import Scan
from lakescan.table import Table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Iceberg and Delta tables, from the command line.")
app.add_typer(maintenance)
app.add_typer(query)
console = Console(markup=False, emoji=False)
_TOO_WIDE = ("summary", "operationMetrics", "engineInfo", "userMetadata", "clusterId", "userId", "userName")

TablePath = Annotated[
    str, typer.Argument(help="Table folder or URI, Iceberg metadata JSON file, or catalog.namespace.table.")
]
OptionList = Annotated[list[str] | None, typer.Option("--option", "-o", help="A read option, name=value.")]
Relocate = Annotated[str | None, typer.Option(help="JSON object that maps old location prefixes to new ones.")]
Where = Annotated[str | None, typer.Option("--where", "-w", help="Row filter, as SQL.")]
Columns = Annotated[str | None, typer.Option("--select", "-s", help="Columns to read, separated by commas.")]


@app.callback()
def catalogs(
    embedded: Annotated[
        list[str] | None,
        typer.Option("--catalog", help="An embedded catalog, name=folder. Others come from pyiceberg's configuration."),
    ] = None,
) -> None:
    """Iceberg and Delta tables, from the command line."""
    for name, folder in pairs(embedded, "catalogs are written name=folder, e.g. --catalog local=./lake"):
        catalog(name, warehouse=folder)


@app.command("doctor")
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
    diagnosis = doctor(session, path)
    _show_diagnosis(diagnosis)
    if not diagnosis.ok:
        raise typer.Exit(1)


@app.command()
def explain(
    path: TablePath,
    where: Where = None,
    select: Columns = None,
    html: Annotated[Path | None, typer.Option(help="Also write the plan to this file, as an HTML page.")] = None,
    option: OptionList = None,
    relocate: Relocate = None,
) -> None:
    """Show which files a scan would read, and which it skips and why."""
    plan = _scan(_open(path, option, relocate), where, select).plan()
    console.print(plan_for_terminal(plan))
    if html is not None:
        console.print(f"written to {write_html([plan], html)}")


@app.command()
def history(path: TablePath, relocate: Relocate = None) -> None:
    """List the table's commits, oldest first."""
    commits = _open(path, None, relocate).history()
    _print_rows(commits.select([n for n in commits.column_names if n not in _TOO_WIDE]).to_pylist())


@app.command()
def head(
    path: TablePath,
    rows: Annotated[int, typer.Option("--rows", "-n", help="Number of rows to show.")] = 10,
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
    rows = _open(path, option, relocate).inspect(name)
    columns = [".".join(parse_reference(n)) for n in split_list(select)] if select else rows.column_names
    if unknown := [n for n in columns if n not in rows.column_names]:
        suggestion = nearest(unknown[0], rows.column_names)
        raise NoSuchColumn(f"{name} has no column {unknown[0]!r}.{suggestion} Columns: {', '.join(rows.column_names)}")
    _print_rows(rows.select(columns).to_pylist())


def run() -> None:
    """Run a command; print errors of lakescan, storage and catalogs without a traceback."""
    try:
        app(standalone_mode=True)
    except Exception as error:
        if not isinstance(error, (LakescanError, OSError)) and not _is_library_error(error):
            raise
        places = isinstance(error, LakescanError) and "\n" in str(error)  # lines that underline a place in SQL
        text = str(error) if places else " ".join(str(error).split())
        console = Console(stderr=True, soft_wrap=True, highlight=False)
        console.print(Text.assemble((type(error).__name__, "red"), f": {text}"))
        raise SystemExit(1) from None


def _is_library_error(error: Exception) -> bool:
    """Whether a library that accesses tables raised the error: its message is enough, without a traceback."""
    libraries = ("pyiceberg", "obstore", "sqlalchemy", "botocore", "thrift", "pyarrow")
    return any(kind.__module__.partition(".")[0] in libraries for kind in type(error).__mro__)


def _open(path: str, options: list[str] | None, relocate: str | None) -> Table:
    read_options: dict[str, Any] = dict(pairs(options, "options are written name=value, e.g. -o versionAsOf=3"))
    return table(path, relocate=_prefixes(relocate) if relocate else None, **read_options)


def _prefixes(text: str) -> dict[str, str]:
    try:
        return {str(old): str(new) for old, new in mapping(text).items()}
    except ValueError as error:
        raise InvalidOption(
            f'--relocate {text!r} is not a JSON object such as {{"s3://old/": "/new/"}}: {error}'
        ) from error


def _scan(opened: Table, where: str | None, select: str | None) -> Scan:
    scan = opened.scan()
    if where:
        scan = scan.where(where)
    return scan.select(*split_list(select)) if select else scan


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


def _show_diagnosis(diagnosis: Diagnosis) -> None:
    grid = Grid(box=None, header_style="bold")
    for name in ("", "check", "found", "what to do"):
        grid.add_column(name, overflow="fold")
    for check in diagnosis.checks:
        mark = Text("ok", style="green") if check.ok else Text("wrong", style="red")
        grid.add_row(mark, check.subject, check.found, "" if check.ok else check.advice)
    console.print(grid)
