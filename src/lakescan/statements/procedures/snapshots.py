"""Procedures that set the current snapshot, branches and tags of a table, or list its snapshots."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidOption
from lakescan.statements.procedures.declaration import (
    LONG,
    STRING,
    TIMESTAMP,
    Parameter,
    Procedure,
    ProcedureCall,
    Row,
    columns,
)
from lakescan.tables.results import RefResult

_TABLE = Parameter("table", STRING, required=True)
_SNAPSHOT = Parameter("snapshot_id", LONG, required=True)
_MOVED = pa.schema(
    [pa.field("previous_snapshot_id", pa.int64()), pa.field("current_snapshot_id", pa.int64(), nullable=False)]
)
_PICKED = columns(source_snapshot_id=pa.int64(), current_snapshot_id=pa.int64())
_FORWARDED = pa.schema(
    [
        pa.field("branch_updated", pa.string(), nullable=False),
        pa.field("previous_ref", pa.int64()),
        pa.field("updated_ref", pa.int64(), nullable=False),
    ]
)
_ANCESTORS = pa.schema([pa.field("snapshot_id", pa.int64()), pa.field("timestamp", pa.int64())])


def _ref_rows(result: RefResult) -> list[Row]:
    return [(result.previous, result.current)]


def _rollback_to_snapshot(call: ProcedureCall) -> list[Row]:
    return _ref_rows(call.table.rollback(version=call["snapshot_id"]))


def _rollback_to_timestamp(call: ProcedureCall) -> list[Row]:
    return _ref_rows(call.table.rollback(timestamp=call["timestamp"]))


def _set_current_snapshot(call: ProcedureCall) -> list[Row]:
    version, ref = call["snapshot_id"], call["ref"]
    if (version is None) == (ref is None):
        raise InvalidOption("set_current_snapshot needs either snapshot_id or ref, not both")
    return _ref_rows(call.table.set_current_snapshot(version=version, ref=ref))


def _cherrypick_snapshot(call: ProcedureCall) -> list[Row]:
    return [(call["snapshot_id"], call.table.cherry_pick(call["snapshot_id"]).current)]


def _publish_changes(call: ProcedureCall) -> list[Row]:
    table, wap_id = call.table, call["wap_id"]
    current = table.publish(wap_id).current
    summaries = table.inspect("snapshots").select(["snapshot_id", "summary"])
    staged = pc.equal(pc.map_lookup(summaries["summary"], "wap.id", "first"), wap_id)
    return [(summaries.filter(staged)["snapshot_id"][0].as_py(), current)]


def _fast_forward(call: ProcedureCall) -> list[Row]:
    result = call.table.fast_forward(call["branch"], call["to"])
    return [(result.name, result.previous, result.current)]


def _ancestors_of(call: ProcedureCall) -> pa.Table:
    found = call.table.ancestors(call["snapshot_id"])
    times = found["committed_at"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    return pa.table([found["snapshot_id"], times], schema=_ANCESTORS)


PROCEDURES = (
    Procedure("rollback_to_snapshot", (_TABLE, _SNAPSHOT), _MOVED, _rollback_to_snapshot),
    Procedure(
        "rollback_to_timestamp",
        (_TABLE, Parameter("timestamp", TIMESTAMP, required=True)),
        _MOVED,
        _rollback_to_timestamp,
    ),
    Procedure(
        "set_current_snapshot",
        (_TABLE, Parameter("snapshot_id", LONG), Parameter("ref", STRING)),
        _MOVED,
        _set_current_snapshot,
    ),
    Procedure("cherrypick_snapshot", (_TABLE, _SNAPSHOT), _PICKED, _cherrypick_snapshot),
    Procedure("publish_changes", (_TABLE, Parameter("wap_id", STRING, required=True)), _PICKED, _publish_changes),
    Procedure(
        "fast_forward",
        (_TABLE, Parameter("branch", STRING, required=True), Parameter("to", STRING, required=True)),
        _FORWARDED,
        _fast_forward,
    ),
    Procedure("ancestors_of", (_TABLE, Parameter("snapshot_id", LONG)), _ANCESTORS, _ancestors_of),
)
