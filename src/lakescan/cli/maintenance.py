"""The commands that write: tables made, and kept in order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console

from lakescan.catalog import Catalog
from lakescan.common.timestamps import as_moment
from lakescan.errors import InvalidOption
from lakescan.opening import table
from lakescan.sql import sql

app = typer.Typer(no_args_is_help=True)
console = Console(highlight=False, markup=False, emoji=False)

TableName = Annotated[str, typer.Argument(help="catalog.namespace.table, or the folder of a Delta table.")]
OlderThan = Annotated[str | None, typer.Option(help="A time, such as 2026-01-31 or 2026-01-31T12:00:00.")]


@app.command()
def tables(
    catalog: Annotated[str, typer.Argument(help="A catalog's name.")],
    namespace: Annotated[str | None, typer.Argument(help="One of its namespaces; otherwise all.")] = None,
) -> None:
    """List the tables of a catalog."""
    opened = Catalog(catalog)
    for each in [namespace] if namespace else opened.list_namespaces():
        for name in opened.list_tables(each):
            console.print(f"{catalog}.{name}")


@app.command("sql")
def sql_command(
    statement: Annotated[str, typer.Argument(help="CREATE, DROP or RENAME of tables and namespaces.")],
) -> None:
    """Run a statement that makes, renames or drops a table or a namespace."""
    found = sql(None, statement)
    if found is not None:
        console.print(f"{found.name or found.location}: {', '.join(found.schema.names)}")


@app.command()
def compact(
    name: TableName,
    where: Annotated[str | None, typer.Option("--where", "-w", help="Files that may have such rows.")] = None,
) -> None:
    """Put small files together, and fold deletes away."""
    saved = table(name).compact(where=where)
    if saved.removed_files:
        console.print(f"{saved.removed_files:,} files became {saved.files:,}, of {saved.bytes:,} bytes")
    else:
        console.print("there is nothing to put together")


@app.command()
def expire_snapshots(
    name: TableName,
    older_than: OlderThan = None,
    retain_last: Annotated[
        int | None, typer.Option(help="Newest snapshots of a branch that stay, whatever their age.", min=1)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Forget old snapshots of an Iceberg table, by default as it says itself; remove-orphans removes their files."""
    moment = _past(older_than)
    gone = table(name).expire_snapshots(moment, retain_last=retain_last, dry_run=dry_run)
    console.print(f"{gone:,} snapshots {'would be ' if dry_run else ''}forgotten")


@app.command()
def remove_orphans(
    name: TableName,
    older_than: OlderThan = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    location: Annotated[str | None, typer.Option(help="A folder to look through instead of the table's own.")] = None,
) -> None:
    """Remove files that nothing names: by default from before three days ago, a week for Delta or as it says."""
    found = table(name).remove_orphans(older_than, dry_run=dry_run, location=location)
    for each in found:
        console.print(each, soft_wrap=True)
    console.print(f"{len(found):,} files {'would be ' if dry_run else ''}removed")


def _past(text: str | None) -> datetime | None:
    """A time that has been; raises `InvalidOption` for one that is still to come."""
    moment = None if text is None else as_moment(text)
    if moment is not None and moment > datetime.now(UTC):
        raise InvalidOption(f"--older-than {text} is in the future")
    return moment


@app.command()
def checkpoint(name: TableName) -> None:
    """Write a checkpoint of a Delta table's newest version."""
    table(name).checkpoint()
    console.print("a checkpoint was written")
