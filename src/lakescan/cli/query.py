"""The command `sql`: a statement in this process, or a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table as Grid
from rich.text import Text

import lakescan
from lakescan.catalogs.registry import known
from lakescan.cli.output import as_json, console, print_result
from lakescan.cli.settings import Section, command, wants_json
from lakescan.common.control_characters import harmless
from lakescan.errors import InvalidOption, LakescanError, nearest
from lakescan.explain.summary import counted

app: Section = Section("SQL")
_FORMATS = ("table", "csv", "json", "parquet")
_SHOWN = 1000
_WORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT RIGHT FULL SEMI ANTI ON USING WITH AS UNION ALL EXPLAIN USE
VERSION TIMESTAMP OF BETWEEN LIKE IN IS NOT NULL AND OR CASE WHEN THEN ELSE END DISTINCT
"""


@command(app, "sql", opens=False)
def sql_command(
    statement: Annotated[str | None, typer.Argument(help="One statement; without it, a prompt.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help=f"One of {', '.join(_FORMATS)}.")] = "table",
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Write the rows to this file.")] = None,
    limit: Annotated[int, typer.Option(help="Rows of a printed table.", min=1)] = _SHOWN,
) -> None:
    """Run a SELECT over tables in this process, or a statement that changes rows, tables or namespaces."""
    output = "json" if wants_json() and output == "table" else output
    if output not in _FORMATS:
        raise InvalidOption(f"--output {output!r}.{nearest(output, _FORMATS)} Known: {', '.join(_FORMATS)}")
    if output == "parquet" and file is None:
        raise InvalidOption("--output parquet takes a file: --file rows.parquet")
    if statement is None:
        _prompt(limit)
        return
    _write(lakescan.sql(statement), output, file, limit)


def _write(result: Any, output: str, file: Path | None, limit: int) -> None:
    if isinstance(result, lakescan.Table):
        console.print(f"{result.name or result.location}: {', '.join(result.schema.names)}")
    elif isinstance(result, lakescan.Query):
        if output == "table" and file is None:
            _print(result, limit)
        else:
            _save(result.to_arrow(), output, file)
    elif result is not None:
        print_result(result)


def _print(query: lakescan.Query, limit: int) -> None:
    """Print the first rows, and say if there are more."""
    rows: list[list[Any]] = []
    columns = query.schema.names
    for batch in query.to_batches():
        rows += (
            [list(row.values()) for row in batch.to_pylist()] if len(set(columns)) == len(columns) else _cells(batch)
        )
        if len(rows) > limit:
            break
    if columns == ["plan"] and len(rows) == 1:
        console.print(str(rows[0][0]), soft_wrap=True)
        return
    grid = Grid()
    for name in columns:
        grid.add_column(Text(name))
    for row in rows[:limit]:
        grid.add_row(*(Text("null" if value is None else str(value)) for value in row))
    console.print(grid)
    more = f"the first {limit:,} rows; --limit shows more" if len(rows) > limit else counted(len(rows), "row")
    console.print(more)


def _cells(batch: pa.RecordBatch) -> list[list[Any]]:
    """The rows as lists: several columns may have one name."""
    return [list(row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def _save(rows: pa.Table, output: str, file: Path | None) -> None:
    if output == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(rows, file)
        return
    if output == "csv":
        text = _csv(rows)
        if file is None and sys.stdout.isatty():
            text = harmless(text)
    elif output == "json":
        if twice := [name for name in dict.fromkeys(rows.column_names) if rows.column_names.count(name) > 1]:
            raise InvalidOption(f"--output json: several columns are called {', '.join(twice)}: name them apart by AS")
        text = "".join(f"{as_json(row)}\n" for row in rows.to_pylist())
    else:
        raise InvalidOption("--file takes --output csv, json or parquet")
    if file is None:
        sys.stdout.write(text)
    else:
        file.write_text(text, encoding="utf-8")


def _csv(rows: pa.Table) -> str:
    from pyarrow import csv

    for field in rows.schema:
        if pa.types.is_nested(field.type) or "binary" in str(field.type):
            raise InvalidOption(
                f"--output csv: the column {field.name} is {field.type}, which CSV lacks: choose json or parquet"
            )
    target = pa.BufferOutputStream()
    csv.write_csv(rows, target)
    return target.getvalue().to_pybytes().decode()


def _prompt(limit: int) -> None:
    """Read statements, which end with a semicolon, until the input ends; errors do not end it."""
    interactive = sys.stdin.isatty()
    if interactive:
        _with_history()
        console.print("SQL over tables; statements end with ';'. Ctrl-D ends.")
    pending = ""
    while True:
        try:
            pending += input(("   -> " if pending else "sql> ") if interactive else "") + "\n"
        except EOFError:
            break
        except KeyboardInterrupt:
            pending = ""
            continue
        if pending.rstrip().endswith(";"):
            _run(pending, limit)
            pending = ""
    if pending.strip():
        _run(pending, limit)


def _run(text: str, limit: int) -> None:
    try:
        _write(lakescan.sql(text), "table", None, limit)
    except LakescanError as error:
        console.print(f"error: {error}")


def _with_history() -> None:
    """Arrow keys, a history that is kept, and completion of words and catalogs, where readline is there."""
    try:
        import atexit
        import readline
    except ImportError:
        return
    history = Path.home() / ".lakescan_history"
    if history.exists():
        readline.read_history_file(history)
    atexit.register(readline.write_history_file, history)
    readline.set_completer_delims(" \t\n,()=<>")
    readline.set_completer(_completion)
    readline.parse_and_bind("tab: complete")


def _completion(start: str, number: int) -> str | None:
    return dict(enumerate(completions(start))).get(number)


def completions(start: str) -> list[str]:
    """Words, and names of catalogs, namespaces and tables, that begin with a text."""
    *within, last = start.split(".")
    if not within:
        words = [word for word in _WORDS.split() if word.lower().startswith(start.lower())] if start else []
        return words + [f"{name}." for name in known() if name.startswith(start)]
    try:
        catalog = lakescan.Catalog(within[0])
        names = catalog.list_namespaces() if len(within) == 1 else catalog.list_tables(".".join(within[1:]))
    except LakescanError:
        return []
    names = [str(name).split(".")[-1] for name in names]
    end = "." if len(within) == 1 else ""
    return [f"{'.'.join(within)}.{name}{end}" for name in names if name.startswith(last)]
