"""CREATE, REPLACE and DROP of branches and tags (Iceberg)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lakescan.statements.syntax.refs import CreateRef, DropRef
from lakescan.statements.tables.context import Context
from lakescan.statements.tables.names import opened
from lakescan.tables.results import RefResult


def create_ref(wanted: CreateRef, context: Context) -> RefResult:
    """Run CREATE or REPLACE BRANCH or TAG."""
    table = opened(wanted.table, context)
    at: dict[str, Any] = {"version": wanted.version}
    if isinstance(wanted.version, str):
        at = {"version": int(wanted.version)} if wanted.version.isdecimal() else _ref(table.branches, wanted.version)
    keeps: dict[str, Any] = {"max_ref_age": _age(wanted.max_ref_age_ms)}
    if wanted.kind == "branch":
        keeps["max_snapshot_age"] = _age(wanted.max_snapshot_age_ms)
        keeps["min_snapshots_to_keep"] = wanted.min_snapshots_to_keep
    if not wanted.creates:
        replace = table.replace_branch if wanted.kind == "branch" else table.replace_tag
        return replace(wanted.name, **at, **keeps)
    create = table.create_branch if wanted.kind == "branch" else table.create_tag
    return create(wanted.name, replace=wanted.replaces, if_not_exists=wanted.if_not_exists, **at, **keeps)


def _ref(branches: Any, name: str) -> dict[str, Any]:
    return {"branch": name} if name in branches else {"tag": name}


def _age(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def drop_ref(wanted: DropRef, context: Context) -> RefResult:
    """Run DROP BRANCH or TAG."""
    table = opened(wanted.table, context)
    drop = table.drop_branch if wanted.kind == "branch" else table.drop_tag
    return drop(wanted.name, if_exists=wanted.if_exists)
