"""Commands that maintain tables: health, compaction, expiry, clean-up, checkpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyarrow import csv

import lakescan
from lakescan.api.maintenance import run_maintenance
from lakescan.cli.arguments import pairs
from lakescan.cli.output import console, print_json, print_names, print_result
from lakescan.cli.progress import working
from lakescan.cli.settings import DryRun, Section, TableName, TablePath, command, storage_options, wants_json
from lakescan.common.timestamps import as_moment
from lakescan.errors import InvalidOption
from lakescan.planning.explain.summary import pluralize

app: Section = Section("Maintenance")

Where = Annotated[str | None, typer.Option("--where", "-w", help="Only files that may have matching rows.")]
OlderThan = Annotated[str | None, typer.Option(help="A timestamp, such as 2026-01-31 or 2026-01-31T12:00:00.")]


def _open(name: str) -> lakescan.Table:
    return lakescan.table(name, storage_options=storage_options())


@command(app, "health")
def health(
    path: TablePath,
    orphans: Annotated[bool, typer.Option("--orphans", help="Also list files that nothing references.")] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Also look up all data and delete files in storage.")
    ] = False,
    fail: Annotated[
        bool, typer.Option("--fail", help="End with the exit code 5 if there are findings, as a check of a pipeline.")
    ] = False,
    html: Annotated[Path | None, typer.Option(help="Also write it to this file, as an HTML page.")] = None,
) -> None:
    """Show from metadata what makes a table slow to read, and how to fix it."""
    with working("looking at the table"):
        found = _open(path).health(orphans=orphans, missing=missing or None)
    if wants_json():
        print_json(found.to_dict())
    else:
        console.print(str(found), soft_wrap=True)
    if html is not None:
        found.to_html(html)
        print_written(html)
    if fail and found.findings:
        raise typer.Exit(5)


def print_written(file: Path) -> None:
    """Print that a page was written to `file`; nothing with `--json`, as stdout then has only data."""
    if not wants_json():
        console.print(f"written to {file}", soft_wrap=True)


@command(app, "maintain")
def maintain(
    name: TableName,
    dry_run: DryRun = False,
    skip: Annotated[
        list[str] | None, typer.Option(help="A step to leave out, such as remove-orphans; may be repeated.")
    ] = None,
) -> None:
    """Run the maintenance that a table's health and properties call for: compact, rewrite, expire, clean up.

    If a step fails, the other steps still run and the exit code is 1.
    """
    without = [each.replace("-", "_") for each in skip or ()]
    with working("looking at the table") as work:

        def show_step(step: str) -> None:
            work.says(step.replace("_", " "))

        result = run_maintenance(_open(name), dry_run=dry_run, skip=without, executor=work.executor, report=show_step)
    print_result(result)
    if result.failed:
        raise typer.Exit(1)


@command(app, "compact", aliases=("optimize",))
def compact(
    name: TableName,
    where: Where = None,
    strategy: Annotated[str | None, typer.Option(help="binpack, sort or zorder.")] = None,
    sort_order: Annotated[
        str | None, typer.Option(help="Sort order, such as 'country, ts DESC'; by default the table's.")
    ] = None,
    zorder_by: Annotated[str | None, typer.Option(help="The columns of a Z-order, separated by commas.")] = None,
    purge: Annotated[bool, typer.Option("--purge", help="Rewrite all files with deletes, and no others.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option, such as delete-ratio-threshold=0.1 or rewrite-all=true."),
    ] = None,
) -> None:
    """Compact small files, apply their deletes and, if requested, sort their rows."""
    given: dict[str, Any] = {"strategy": strategy, "sort-order": sort_order, "zorder-by": zorder_by}
    if strategy is None and (sort_order or zorder_by):
        given["strategy"] = "zorder" if zorder_by else "sort"
    given = {key: value for key, value in given.items() if value is not None} | ({"purge": True} if purge else {})
    more: dict[str, Any] = dict(pairs(option, "options are written name=value, e.g. -o min-input-files=5"))
    with working("compacting") as work:
        executor = None if "strategy" in given | more else work.executor  # a sort runs in one process
        result = _open(name).compact(where=where, executor=executor, **given, **more)
    print_result(result)


@command(app, "rewrite-position-deletes")
def rewrite_position_deletes(
    name: TableName,
    where: Where = None,
    rewrite_all: Annotated[bool, typer.Option("--rewrite-all", help="Rewrite files of any size.")] = False,
    min_input_files: Annotated[int, typer.Option(help="Small files a partition needs to be rewritten.", min=1)] = 5,
) -> None:
    """Rewrite small position delete files of an Iceberg table; in format version 3, as deletion vectors."""
    with working("rewriting position deletes"):
        opened = _open(name)
        result = opened.rewrite_position_deletes(where=where, rewrite_all=rewrite_all, min_input_files=min_input_files)
    print_result(result)


@command(app, "convert-equality-deletes")
def convert_equality_deletes(name: TableName) -> None:
    """Replace the equality deletes of an Iceberg table by position deletes, which are cheaper to read."""
    with working("converting equality deletes") as work:
        result = _open(name).convert_equality_deletes(executor=work.executor)
    print_result(result)


@command(app, "expire-snapshots")
def expire_snapshots(
    name: TableName,
    older_than: OlderThan = None,
    retain_last: Annotated[
        int | None, typer.Option(help="Newest snapshots of each branch to keep, whatever their age.", min=1)
    ] = None,
    clean_expired_files: Annotated[
        bool,
        typer.Option(
            "--clean-expired-files/--no-clean-expired-files", help="Remove the files that only expired snapshots have."
        ),
    ] = True,
    dry_run: DryRun = False,
) -> None:
    """Expire old snapshots of an Iceberg table, by default by its properties, and remove the files that only they have.

    With --no-clean-expired-files, the files stay until remove-orphans.
    """
    with working("expiring snapshots") as work:
        result = _open(name).expire_snapshots(
            _past(older_than),
            retain_last=retain_last,
            dry_run=dry_run,
            clean_expired_files=clean_expired_files,
            executor=work.executor,
        )
    print_result(result)


@command(app, "remove-orphans", aliases=("vacuum",))
def remove_orphans(
    name: TableName,
    older_than: OlderThan = None,
    dry_run: DryRun = False,
    location: Annotated[str | None, typer.Option(help="Scan this folder instead of the table's own.")] = None,
    lite: Annotated[
        bool, typer.Option("--lite", help="Use the removed files in the log (Delta) instead of listing.")
    ] = False,
    inventory: Annotated[
        str | None,
        typer.Option(
            help="Use this storage inventory instead of listing: a Parquet or CSV file, or a table, "
            "with path, length, isDir and modificationTime (milliseconds since 1970)."
        ),
    ] = None,
    ignore_retention: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="Also remove younger files, for this reason. Nobody else may use the table."
        ),
    ] = None,
) -> None:
    """Remove unreferenced files, by default older than 3 days (Iceberg), or a week or the table's retention (Delta)."""
    with working("looking for orphan files") as work:
        orphans = _open(name).remove_orphans(
            older_than,
            dry_run=dry_run,
            location=location,
            lite=lite,
            inventory=None if inventory is None else _inventory(inventory),
            ignore_retention=ignore_retention,
            executor=work.executor,
        )
    print_names("file", orphans)
    if not wants_json():
        print_result(orphans)


def _inventory(name: str) -> pa.Table:
    """Read a storage inventory from a local Parquet or CSV file, or from the table with this name or path.

    Raises `InvalidOption` if the file is missing or invalid.
    """
    kind = Path(name).suffix.lower()
    if kind not in (".parquet", ".csv"):
        return _open(name).scan().to_arrow()
    if not Path(name).is_file():
        raise InvalidOption(f"--inventory {name}: there is no such file")
    try:
        return pq.read_table(name) if kind == ".parquet" else csv.read_csv(name)
    except pa.ArrowInvalid as error:
        raise InvalidOption(f"--inventory {name} cannot be read: {error}") from error


def _past(text: str | None) -> datetime | None:
    """Parse the value of `--older-than`, None without one; raises `InvalidOption` if it is in the future."""
    timestamp = None if text is None else as_moment(text)
    if timestamp is not None and timestamp > datetime.now(UTC):
        raise InvalidOption(f"--older-than {text} is in the future")
    return timestamp


@command(app, "convert")
def convert(
    folder: Annotated[str, typer.Argument(help="A folder of Parquet files.")],
    partition_by: Annotated[
        str, typer.Option(help="Partition columns in folder names such as day=2026-01-31, with types: 'day DATE'.")
    ] = "",
    statistics: Annotated[bool, typer.Option(help="Record row counts and bounds from the Parquet footers.")] = True,
) -> None:
    """Convert a folder of Parquet files to a Delta table in place."""
    with working("reading footers"):
        made = lakescan.convert_to_delta(
            folder, partition_by=partition_by, statistics=statistics, storage_options=storage_options()
        )
        files = made.scan().plan().report.metrics.result_data_files
    if wants_json():
        print_json({"table": folder, "version": made.version, "files": files})
    else:
        console.print(f"{folder}: a Delta table of {pluralize(files, 'file')}", soft_wrap=True)


@command(app, "rewrite-manifests")
def rewrite_manifests(name: TableName) -> None:
    """Rewrite the manifests of an Iceberg table, sorted by partition."""
    with working("rewriting manifests"):
        result = _open(name).rewrite_manifests()
    print_result(result)


@command(app, "checkpoint")
def checkpoint(name: TableName) -> None:
    """Write a checkpoint for a Delta table's newest version."""
    with working("writing a checkpoint"):
        result = _open(name).checkpoint()
    print_result(result)
