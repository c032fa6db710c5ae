"""Describe the tables that a failing test made: format, columns, history, files and first rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import lakescan

TABLES, FILES, ROWS = 5, 15, 10  # the maximum number of tables to print


def describe_tables(folder: Path) -> str:
    """Return a description of the tables below a folder, for the report of a failed test; never raises."""
    tables = sorted(_tables(folder))
    left = [f"... and {len(tables) - TABLES} more tables"] if len(tables) > TABLES else []
    return "\n\n".join([*(_describe(table, folder) for table in tables[:TABLES]), *left])


def _tables(folder: Path) -> Iterator[Path]:
    """Yield the folders that hold a Delta log or Iceberg metadata."""
    for log in folder.rglob("_delta_log"):
        yield log.parent
    for metadata in folder.rglob("metadata"):
        if any(metadata.glob("*.metadata.json*")):
            yield metadata.parent


def _describe(path: Path, folder: Path) -> str:
    try:
        table = lakescan.table(str(path))
    except Exception as error:  # a damaged table is often the point of the test
        return f"{path.relative_to(folder)}: cannot be opened: {error}\n{_listing(path)}"
    parts = [
        f"{path.relative_to(folder)}: {table.format}",
        _part("partitioned by", lambda: table.partitioning),
        _part("columns", lambda: str(table.schema)),
        _part("history", lambda: _lines(table.history().to_pylist())),
        _part("files", lambda: _listing(path)),
        _part("rows", lambda: _lines(table.scan().limit(ROWS).to_arrow().to_pylist())),
    ]
    return "\n".join(parts)


def _part(title: str, text: Callable[[], str]) -> str:
    try:
        body = text()
    except Exception as error:
        body = f"cannot be read: {error}"
    return f"  {title}:\n" + "\n".join(f"    {line}" for line in body.splitlines())


def _lines(rows: list[dict[str, object]]) -> str:
    known = [{name: value for name, value in row.items() if value is not None} for row in rows[-FILES:]]
    return "\n".join(map(str, known)) or "none"


def _listing(path: Path) -> str:
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.endswith(".crc"))
    lines = [f"{file.relative_to(path)} ({file.stat().st_size} bytes)" for file in files[:FILES]]
    return "\n".join(lines + ([f"... and {len(files) - FILES} more files"] if len(files) > FILES else []))
