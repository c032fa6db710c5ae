"""Commands for snapshots, branches and tags, and for going back to an earlier state of a table."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

import pyarrow as pa
import typer

import lakescan
from lakescan.cli.output import print_result, print_rows
from lakescan.cli.progress import working
from lakescan.cli.settings import DryRun, Section, TableName, TablePath, Timestamp, Version, command, storage_options
from lakescan.errors import InvalidOption, UnsupportedFeature

app: Section = Section("States of tables")

Name = Annotated[str, typer.Argument(help="Its name.")]
AtBranch = Annotated[str | None, typer.Option("--branch", help="The newest snapshot of this branch.")]
AtTag = Annotated[str | None, typer.Option("--tag", help="The snapshot of this tag.")]
Replace = Annotated[bool, typer.Option("--replace", help="If it exists, set it to that snapshot.")]
IfNotExists = Annotated[bool, typer.Option("--if-not-exists", help="If it exists, leave it as it is.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="Do nothing if it does not exist.")]
RefAge = Annotated[str | None, typer.Option(help="The age at which the branch or tag expires, such as 30d.")]
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
SnapshotId = Annotated[int, typer.Argument(help="A snapshot id.")]


def _open(path: str) -> lakescan.Table:
    return lakescan.table(path, storage_options=storage_options())


def _age(option: str, text: str | None) -> timedelta | None:
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in _UNITS or int(number) == 0:
        raise InvalidOption(f"{option} {text!r}: expected a duration in {', '.join(_UNITS)}, such as 30d or 12h")
    return timedelta(**{_UNITS[unit]: int(number)})


@command(app, "snapshots")
def snapshots(path: TablePath) -> None:
    """List the snapshots (Iceberg) or versions (Delta) of a table, oldest first."""
    opened = _open(path)
    if "snapshots" in opened.metadata_tables:
        found = opened.inspect("snapshots").select(["snapshot_id", "parent_id", "committed_at", "operation", "summary"])
    else:
        found = opened.history().select(["version", "timestamp", "operation", "operationMetrics"])
    print_rows(found)


@command(app, "refs")
def refs(path: TablePath) -> None:
    """List the branches and tags of an Iceberg table."""
    opened = _open(path)
    if "refs" not in opened.metadata_tables:
        raise UnsupportedFeature(
            f"branches and tags of the {opened.format} table {path}", "`lakescan history` lists its versions."
        )
    print_rows(opened.inspect("refs"))


@command(app, "ancestors")
def ancestors(path: TablePath, version: Version = None) -> None:
    """List a snapshot of an Iceberg table and its ancestors, newest first."""
    found: pa.Table = _open(path).ancestors(version)
    print_rows(found)


@command(app, "create-branch")
def create_branch(
    name: TableName,
    branch_name: Name,
    version: Version = None,
    timestamp: Timestamp = None,
    branch: AtBranch = None,
    tag: AtTag = None,
    replace: Replace = False,
    if_not_exists: IfNotExists = False,
    max_ref_age: RefAge = None,
    max_snapshot_age: Annotated[
        str | None, typer.Option(help="The age at which snapshots of the branch expire, such as 7d.")
    ] = None,
    min_snapshots_to_keep: Annotated[
        int | None, typer.Option(help="Snapshots of the branch to keep, whatever their age.", min=1)
    ] = None,
) -> None:
    """Create a branch of an Iceberg table at the current snapshot or another one."""
    at: dict[str, Any] = {"version": version, "timestamp": timestamp, "branch": branch, "tag": tag}
    result = _open(name).create_branch(
        branch_name,
        **at,
        replace=replace,
        if_not_exists=if_not_exists,
        max_ref_age=_age("--max-ref-age", max_ref_age),
        max_snapshot_age=_age("--max-snapshot-age", max_snapshot_age),
        min_snapshots_to_keep=min_snapshots_to_keep,
    )
    print_result(result)


@command(app, "create-tag")
def create_tag(
    name: TableName,
    tag_name: Name,
    version: Version = None,
    timestamp: Timestamp = None,
    branch: AtBranch = None,
    tag: AtTag = None,
    replace: Replace = False,
    if_not_exists: IfNotExists = False,
    max_ref_age: RefAge = None,
) -> None:
    """Create a tag of an Iceberg table at the current snapshot or another one."""
    at: dict[str, Any] = {"version": version, "timestamp": timestamp, "branch": branch, "tag": tag}
    age = _age("--max-ref-age", max_ref_age)
    result = _open(name).create_tag(tag_name, **at, replace=replace, if_not_exists=if_not_exists, max_ref_age=age)
    print_result(result)


@command(app, "drop-branch")
def drop_branch(name: TableName, branch: Name, if_exists: IfExists = False, dry_run: DryRun = False) -> None:
    """Drop a branch of an Iceberg table; its snapshots stay until they expire."""
    opened = _open(name)
    if dry_run:
        _print_drop("branch", branch, opened.branches, if_exists=if_exists)
    else:
        print_result(opened.drop_branch(branch, if_exists=if_exists))


@command(app, "drop-tag")
def drop_tag(name: TableName, tag: Name, if_exists: IfExists = False, dry_run: DryRun = False) -> None:
    """Drop a tag of an Iceberg table; its snapshot stays until it expires."""
    opened = _open(name)
    if dry_run:
        _print_drop("tag", tag, opened.tags, if_exists=if_exists)
    else:
        print_result(opened.drop_tag(tag, if_exists=if_exists))


def _print_drop(kind: str, name: str, found: Any, *, if_exists: bool) -> None:
    if name in found:
        print_result(f"{name}: would be dropped, is at snapshot {found[name].snapshot_id}")
    elif if_exists:
        print_result(f"{name}: nothing to do")
    else:
        raise InvalidOption(f"there is no {kind} {name!r}. It has: {', '.join(found) or 'none'}")


@command(app, "fast-forward")
def fast_forward(
    name: TableName,
    branch: Annotated[str, typer.Argument(help="The branch that moves, such as main.")],
    to: Annotated[str, typer.Argument(help="The branch or tag to move to.")],
) -> None:
    """Move a branch of an Iceberg table forward to the newest snapshot of another branch or tag."""
    print_result(_open(name).fast_forward(branch, to))


@command(app, "cherry-pick")
def cherry_pick(name: TableName, snapshot: SnapshotId) -> None:
    """Apply the changes of one snapshot of an Iceberg table to its current state."""
    print_result(_open(name).cherry_pick(snapshot))


@command(app, "publish")
def publish(
    name: TableName, wap_id: Annotated[str, typer.Argument(help="The wap-id that the rows were staged with.")]
) -> None:
    """Apply the changes that were staged in an Iceberg table under a WAP id."""
    print_result(_open(name).publish(wap_id))


@command(app, "rollback")
def rollback(name: TableName, version: Version = None, timestamp: Timestamp = None) -> None:
    """Make an ancestor of an Iceberg table's current snapshot the current one."""
    print_result(_open(name).rollback(version=version, timestamp=timestamp))


@command(app, "set-current")
def set_current(
    name: TableName,
    version: Version = None,
    ref: Annotated[str | None, typer.Option(help="A branch or tag.")] = None,
) -> None:
    """Make any snapshot of an Iceberg table the current one."""
    print_result(_open(name).set_current_snapshot(version=version, ref=ref))


@command(app, "restore")
def restore(name: TableName, version: Version = None, timestamp: Timestamp = None) -> None:
    """Make an earlier state the current one again, as a new commit (Delta) or by its snapshot (Iceberg)."""
    with working("restoring"):
        result = _open(name).restore(version, timestamp=timestamp)
    print_result(result)
