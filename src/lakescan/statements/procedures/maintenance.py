"""Procedures that rewrite the files and metadata of a table, and delete files that it no longer needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.table import Table
from lakescan.common.option_values import parse_size
from lakescan.common.references import split_list
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest
from lakescan.maintenance import expire_with_files
from lakescan.statements.procedures.declaration import (
    BOOLEAN,
    INT,
    LONGS,
    OPTIONS,
    STRING,
    STRINGS,
    TIMESTAMP,
    Parameter,
    Procedure,
    ProcedureCall,
    Row,
    columns,
)

_TABLE = Parameter("table", STRING, required=True)
_OPTIONS, _WHERE = Parameter("options", OPTIONS), Parameter("where", STRING)
_ZORDER = re.compile(r"\s*zorder\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_EXPIRED = {
    "deleted_data_files_count": "data",
    "deleted_position_delete_files_count": "position deletes",
    "deleted_equality_delete_files_count": "equality deletes",
    "deleted_manifest_files_count": "manifest",
    "deleted_manifest_lists_count": "manifest list",
    "deleted_statistics_files_count": "statistics",
}
# Iceberg's defaults where they differ from those of `Table.compact`.
_REWRITE_DEFAULTS = {"min-input-files": 5, "delete-file-threshold": 2147483647, "delete-ratio-threshold": 0.3}
_MOST_OF_TARGET = 1.8
_REWRITE_DELETES = {
    "rewrite-all": "rewrite_all",
    "min-input-files": "min_input_files",
    "min-file-size-bytes": "min_file_size_bytes",
    "max-file-size-bytes": "max_file_size_bytes",
}


def _expire_snapshots(call: ProcedureCall) -> list[Row]:
    _check_threads(call)
    if call["clean_expired_metadata"]:
        raise UnsupportedFeature(
            "expire_snapshots with clean_expired_metadata", "Leave it out: old schemas and partition specs are kept."
        )
    older_than, retain_last, ids = call["older_than"], call["retain_last"], call["snapshot_ids"] or ()
    _, removed = call.table.written_by(
        {}, lambda target, _: expire_with_files(target, older_than, retain_last, ids, executor=call.executor)
    )
    return [tuple(removed.get(kind, 0) for kind in _EXPIRED.values())]


def _check_threads(call: ProcedureCall) -> None:
    """Raise `InvalidOption` if `max_concurrent_deletes` is not above 0.

    It is otherwise ignored, because files are deleted in bulk.
    """
    threads = call["max_concurrent_deletes"]
    if threads is not None and threads <= 0:
        raise InvalidOption(f"{call.procedure}: max_concurrent_deletes={threads}: expected a number above 0")


def _remove_orphan_files(call: ProcedureCall) -> list[Row]:
    _check_threads(call)
    for name in ("file_list_view", "equal_schemes", "equal_authorities", "prefix_listing"):
        if call[name]:
            raise UnsupportedFeature(
                f"remove_orphan_files with {name}",
                "Leave it out: the table's folders are listed, and different spellings of a location are recognized. "
                "For other schemes or hosts, open the table with the option relocate.",
            )
    mode = call["prefix_mismatch_mode"]
    if mode is not None and mode.upper() != "ERROR":
        raise UnsupportedFeature(
            f"remove_orphan_files with prefix_mismatch_mode={mode}",
            "Leave it out: if it is unclear whether a file belongs to the table, no file is deleted (ERROR).",
        )
    found = call.table.remove_orphans(
        call["older_than"], dry_run=bool(call["dry_run"]), location=call["location"], executor=call.executor
    )
    return [(each,) for each in found]


def _rewrite_data_files(call: ProcedureCall) -> list[Row]:
    table, options = call.table, dict(call["options"] or {})
    if "snapshots" not in table.metadata_tables:
        raise UnsupportedFeature(
            f"rewrite_data_files of the {table.format} table {table.name}", "Use OPTIMIZE, or Table.compact()."
        )
    arranged = _strategy_options(call["strategy"], call["sort_order"])
    if call["branch"] is not None:
        arranged["branch"] = call["branch"]
    given = {name.lower() for name in options}
    for name in sorted(given & {"strategy", "sort-order", "zorder-by", "branch", "purge"}):
        raise InvalidOption(f"rewrite_data_files: {name!r} is not an option: pass it as a parameter of the procedure")
    defaults: dict[str, Any] = {} if options.get("rewrite-all") == "true" else dict(_REWRITE_DEFAULTS)
    if defaults and "max-file-size-bytes" not in given:
        defaults["max-file-size-bytes"] = int(_MOST_OF_TARGET * _target_size(table, options))
    whole = {**{name: value for name, value in defaults.items() if name not in given}, **options, **arranged}
    before = set(table.inspect("snapshots")["snapshot_id"].to_pylist())
    result = table.compact(where=call["where"], executor=call.executor, **whole)
    deletes = _removed_deletes(table, before)
    return [(result.removed_files, result.files, result.removed_bytes, result.failed_files, deletes)]


def _strategy_options(strategy: str | None, order: str | None) -> dict[str, Any]:
    """Return the strategy and sort order of `rewrite_data_files` as options of `Table.compact`.

    Without a strategy, it is sort if there is a sort order, otherwise binpack. Raises `InvalidOption` for another
    strategy, and for a sort order with binpack.
    """
    known = ("binpack", "sort")
    chosen = (strategy or ("sort" if order else "binpack")).lower()
    if chosen not in known:
        raise InvalidOption(
            f"rewrite_data_files: strategy={strategy!r}: expected binpack or sort.{nearest(chosen, known)} "
            "For a curve through several columns: strategy => 'sort', sort_order => 'zorder(a, b)'"
        )
    if chosen == "binpack":
        if order:
            raise InvalidOption("rewrite_data_files: sort_order is for strategy => 'sort'")
        return {}
    curve = _ZORDER.fullmatch(order or "")
    if curve is not None:
        return {"strategy": "zorder", "zorder-by": list(split_list(curve[1]))}
    return {"strategy": "sort", **({"sort-order": order} if order else {})}


def _target_size(table: Table, options: Mapping[str, str]) -> int:
    if "target-file-size-bytes" in options:
        return parse_size(options["target-file-size-bytes"])
    return int(table.properties.get("write.target-file-size-bytes", 512 * 2**20))


def _removed_deletes(table: Table, before: set[int]) -> int:
    """Return the number of delete files that commits with the operation `replace` removed.

    Only snapshots that are not in `before` count.
    """
    snapshots = table.inspect("snapshots")
    new = pc.invert(pc.is_in(snapshots["snapshot_id"], value_set=pa.array(sorted(before), pa.int64())))
    mine = snapshots.filter(pc.and_(new, pc.equal(snapshots["operation"], "replace")))
    counts = pc.map_lookup(mine["summary"], "removed-delete-files", "first")
    return sum(map(int, counts.drop_null().to_pylist()))


def _rewrite_manifests(call: ProcedureCall) -> list[Row]:
    if call["sort_by"] is not None:
        raise UnsupportedFeature(
            "rewrite_manifests with sort_by", "Leave it out: manifests are sorted by all partition fields, in order."
        )
    if call["spec_id"] is not None:
        raise UnsupportedFeature(
            "rewrite_manifests with spec_id", "Leave it out: the manifests of all partition specs are rewritten."
        )
    result = call.table.rewrite_manifests()
    return [(result.rewritten, result.written)]


def _rewrite_position_delete_files(call: ProcedureCall) -> list[Row]:
    found: dict[str, Any] = {}
    for name, text in (call["options"] or {}).items():
        own = _REWRITE_DELETES.get(name.lower())
        if own is None:
            raise UnsupportedFeature(
                f"the option {name!r} of rewrite_position_delete_files",
                f"It has {', '.join(_REWRITE_DELETES)}.{nearest(name, _REWRITE_DELETES)} The size of new files is the "
                "table property write.delete.target-file-size-bytes.",
            )
        found[own] = _parse_option(name, text)
    result = call.table.rewrite_position_deletes(where=call["where"], **found)
    return [(result.rewritten_delete_files, result.added_delete_files, result.rewritten_bytes, result.added_bytes)]


def _parse_option(name: str, text: str) -> Any:
    if name.lower() == "rewrite-all":
        if text.lower() not in ("true", "false"):
            raise InvalidOption(f"rewrite_position_delete_files: {name}={text!r}: expected true or false")
        return text.lower() == "true"
    try:
        return parse_size(text)
    except ValueError as error:
        raise InvalidOption(f"rewrite_position_delete_files: {name}={text!r}: expected a number") from error


PROCEDURES = (
    Procedure(
        "expire_snapshots",
        (
            _TABLE,
            Parameter("older_than", TIMESTAMP),
            Parameter("retain_last", INT),
            Parameter("max_concurrent_deletes", INT),
            Parameter("stream_results", BOOLEAN),
            Parameter("snapshot_ids", LONGS),
            Parameter("clean_expired_metadata", BOOLEAN),
        ),
        pa.schema([pa.field(name, pa.int64()) for name in _EXPIRED]),
        _expire_snapshots,
    ),
    Procedure(
        "remove_orphan_files",
        (
            _TABLE,
            Parameter("older_than", TIMESTAMP),
            Parameter("location", STRING),
            Parameter("dry_run", BOOLEAN),
            Parameter("max_concurrent_deletes", INT),
            Parameter("file_list_view", STRING),
            Parameter("equal_schemes", OPTIONS),
            Parameter("equal_authorities", OPTIONS),
            Parameter("prefix_mismatch_mode", STRING),
            Parameter("prefix_listing", BOOLEAN),
            Parameter("stream_results", BOOLEAN),
        ),
        columns(orphan_file_location=pa.string()),
        _remove_orphan_files,
    ),
    Procedure(
        "rewrite_data_files",
        (
            _TABLE,
            Parameter("strategy", STRING),
            Parameter("sort_order", STRING),
            _OPTIONS,
            _WHERE,
            Parameter("branch", STRING),
        ),
        columns(
            rewritten_data_files_count=pa.int32(),
            added_data_files_count=pa.int32(),
            rewritten_bytes_count=pa.int64(),
            failed_data_files_count=pa.int32(),
            removed_delete_files_count=pa.int32(),
        ),
        _rewrite_data_files,
    ),
    Procedure(
        "rewrite_manifests",
        (_TABLE, Parameter("use_caching", BOOLEAN), Parameter("spec_id", INT), Parameter("sort_by", STRINGS)),
        columns(rewritten_manifests_count=pa.int32(), added_manifests_count=pa.int32()),
        _rewrite_manifests,
    ),
    Procedure(
        "rewrite_position_delete_files",
        (_TABLE, _OPTIONS, _WHERE),
        columns(
            rewritten_delete_files_count=pa.int32(),
            added_delete_files_count=pa.int32(),
            rewritten_bytes_count=pa.int64(),
            added_bytes_count=pa.int64(),
        ),
        _rewrite_position_delete_files,
    ),
)
