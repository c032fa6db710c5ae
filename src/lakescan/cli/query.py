"""The command `sql`: run one statement, a script, or a prompt in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table as Grid
from rich.text import Text

import lakescan
from lakescan.catalogs.registry import catalog_names
from lakescan.cli.failures import ScriptFailed, print_error
from lakescan.cli.output import as_json, console, print_result
from lakescan.cli.settings import Section, command, wants_json
from lakescan.common.control_characters import harmless
from lakescan.errors import InvalidOption, LakescanError, nearest
from lakescan.planning.explain.summary import pluralize
from lakescan.statements.syntax.script import split_statements

app: Section = Section("SQL")
_FORMATS = ("table", "csv", "json", "parquet")
_SHOWN = 1000
_WORDS = """
SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT RIGHT FULL SEMI ANTI ON USING WITH AS UNION ALL EXPLAIN USE
VERSION TIMESTAMP OF BETWEEN LIKE IN IS NOT NULL AND OR CASE WHEN THEN ELSE END DISTINCT
"""


@command(app, "sql", opens=False)
def sql_command(
    statement: Annotated[
        str | None, typer.Argument(help="One statement. Without it: --file, standard input, or a prompt on a terminal.")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file",
            "-f",
            help="Run the statements of this file in order; - is standard input. Stops at the first error.",
        ),
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help=f"One of {', '.join(_FORMATS)}.")] = None,
    output_file: Annotated[
        Path | None,
        typer.Option(
            help="Write the rows of one query to this file, by default in its suffix's format (.csv, .json, .parquet)."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="The largest number of rows that a printed table shows.", min=1)] = _SHOWN,
) -> None:
    """Run SQL in this process: a SELECT over tables, or statements that change rows, tables or namespaces."""
    if statement is not None and file is not None:
        raise InvalidOption("give a statement or --file, not both; --output-file names the file for the rows")
    output = _output_format(output, output_file)
    if statement is not None:
        _write(lakescan.sql(statement), output, output_file, limit)
    elif file is None and sys.stdin.isatty():
        _prompt(output, output_file, limit)
    elif file is None or file == "-":
        _run_script(sys.stdin.read(), "standard input", output, output_file, limit)
    else:
        if output_file is not None and Path(file).resolve() == output_file.resolve():
            raise InvalidOption(f"--output-file {output_file} is the script itself: name another file")
        _run_script(_script_text(Path(file)), file, output, output_file, limit)


def _output_format(output: str | None, output_file: Path | None) -> str:
    """Return the output format: `output`, else that of the suffix of `output_file`, else json or table.

    It is json with `--json`. Raises `InvalidOption` if the format is unknown or does not fit `output_file`.
    """
    if output is None:
        suffix = "" if output_file is None else output_file.suffix.lower().removeprefix(".")
        output = suffix if suffix in _FORMATS else "json" if wants_json() else "table"
    if output not in _FORMATS:
        raise InvalidOption(f"--output {output!r}.{nearest(output, _FORMATS)} Known: {', '.join(_FORMATS)}")
    if output == "parquet" and output_file is None:
        raise InvalidOption("--output parquet takes a file: --output-file rows.parquet")
    if output == "table" and output_file is not None:
        raise InvalidOption("--output-file takes --output csv, json or parquet")
    return output


def _script_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InvalidOption(f"--file {file}: there is no such file; --output-file names the file for rows") from error
    except UnicodeDecodeError as error:
        raise InvalidOption(f"--file {file} is not text in UTF-8: {error}") from error


def _run_script(script: str, source: str, output: str, output_file: Path | None, limit: int) -> None:
    """Run the statements of a script in order; raises `ScriptFailed` for the first failure and stops there."""
    statements = split_statements(script)
    if output_file is not None and len(statements) != 1:
        raise InvalidOption(
            f"--output-file takes one query, and {source} has {pluralize(len(statements), 'statement')}: "
            "redirect the standard output instead"
        )
    for statement in statements:
        try:
            _write(lakescan.sql(statement.text), output, output_file, limit)
        except Exception as error:
            raise ScriptFailed(source, statement.line) from error


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
    """Print the first `limit` rows of a query as a grid, and whether there are more; the text of EXPLAIN as it is."""
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
    more = f"the first {limit:,} rows; --limit shows more" if len(rows) > limit else pluralize(len(rows), "row")
    console.print(more)


def _cells(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return the rows of a batch as lists of values, also if several columns have the same name."""
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
    else:
        if twice := [name for name in dict.fromkeys(rows.column_names) if rows.column_names.count(name) > 1]:
            raise InvalidOption(f"--output json: several columns are called {', '.join(twice)}: name them apart by AS")
        text = "".join(f"{as_json(row)}\n" for row in rows.to_pylist())
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


def _prompt(output: str, output_file: Path | None, limit: int) -> None:
    """Read statements that end with a semicolon, and run each, until the input ends.

    Errors of lakescan are printed and do not end the prompt; others do. Raises `InvalidOption` for an `output_file`.
    """
    if output_file is not None:
        raise InvalidOption("--output-file takes a statement, or --file with one")
    _enable_history()
    console.print("SQL over tables; statements end with ';'. Ctrl-D ends.")
    pending = ""
    while True:
        try:
            pending += input("   -> " if pending.strip() else "sql> ") + "\n"
        except EOFError:
            break
        except KeyboardInterrupt:
            pending = ""
            continue
        statements = split_statements(pending)
        if all(each.is_ended for each in statements):
            _run_at_prompt([each.text for each in statements], output, limit)
            pending = ""
    _run_at_prompt([each.text for each in split_statements(pending)], output, limit)


def _run_at_prompt(statements: list[str], output: str, limit: int) -> None:
    """Run the statements of one input in order.

    An error of lakescan is printed, and the statements after it do not run.
    """
    try:
        for statement in statements:
            _write(lakescan.sql(statement), output, None, limit)
    except LakescanError as error:
        print_error(error)


def _enable_history() -> None:
    """Enable line editing, a persistent history and completion at the prompt, if `readline` is available."""
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
    """Return the completions of `start` at the prompt: SQL keywords and names of catalogs, namespaces and tables."""
    *within, last = start.split(".")
    if not within:
        words = [word for word in _WORDS.split() if word.lower().startswith(start.lower())] if start else []
        return words + [f"{name}." for name in catalog_names() if name.startswith(start)]
    try:
        catalog = lakescan.Catalog(within[0])
        names = catalog.list_namespaces() if len(within) == 1 else catalog.list_tables(".".join(within[1:]))
    except LakescanError:
        return []
    names = [str(name).split(".")[-1] for name in names]
    end = "." if len(within) == 1 else ""
    return [f"{'.'.join(within)}.{name}{end}" for name in names if name.startswith(last)]
