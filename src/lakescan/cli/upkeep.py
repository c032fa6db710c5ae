"""The commands that write: tables made, and kept in order."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from lakescan.catalog import Catalog
from lakescan.moments import as_moment
from lakescan.sql import sql
from lakescan.table import table

app = typer.Typer(no_args_is_help=True)
console = Console(highlight=False)

TableName = Annotated[str, typer.Argument(help="catalog.namespace.table, or the folder of a Delta table.")]
OlderThan = Annotated[str | None, typer.Option(help="A time, such as 2026-01-31 or 2026-01-31T12:00:00.")]


@app.command()
def tables(
    catalog: Annotated[str, typer.Argument(help="A catalog's name.")],
    namespace: Annotated[str | None, typer.Argument(help="One of its namespaces; otherwise all.")] = None,
) -> None:
    """List the tables of a catalog."""
    opened = Catalog(catalog)
    for each in [namespace] if namespace else opened.namespaces():
        for name in opened.tables(each):
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
    where: Annotated[str | None, typer.Option("--where", "-w", help="Files that may have such rows (Iceberg).")] = None,
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
    older_than: Annotated[str, typer.Option(help="A time, such as 2026-01-31 or 2026-01-31T12:00:00.")],
    retain_last: Annotated[int, typer.Option(help="Newest snapshots that stay, whatever their age.")] = 1,
) -> None:
    """Forget old snapshots of an Iceberg table; remove-orphans then removes their files."""
    gone = table(name).expire_snapshots(as_moment(older_than), retain_last=retain_last)
    console.print(f"{gone:,} snapshots forgotten")


@app.command()
def remove_orphans(
    name: TableName,
    older_than: OlderThan = None,
    dry_run: Annotated[bool, typer.Option(help="Only list them.")] = False,
) -> None:
    """Remove files that nothing names: by default from before three days ago, a week ago for Delta."""
    moment = None if older_than is None else as_moment(older_than)
    found = table(name).remove_orphans(moment, dry_run=dry_run)
    for location in found:
        console.print(location, soft_wrap=True)
    console.print(f"{len(found):,} files {'would be ' if dry_run else ''}removed")


@app.command()
def checkpoint(name: TableName) -> None:
    """Write a checkpoint of a Delta table's newest version."""
    table(name).checkpoint()
    console.print("a checkpoint was written")
