"""The procedure `create_changelog_view`: the changes between two snapshots, with or without images of updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.changes import Changes
from lakescan.common.timestamps import from_millis
from lakescan.errors import InvalidOption
from lakescan.statements.procedures.declaration import (
    BOOLEAN,
    OPTIONS,
    STRING,
    STRINGS,
    Parameter,
    Procedure,
    ProcedureCall,
    columns,
)

_STARTS = ("start-snapshot-id", "start-timestamp")
_ENDS = ("end-snapshot-id", "end-timestamp")


def changes_of(catalog: Catalog, arguments: Mapping[str, Any]) -> tuple[str, Changes]:
    """Return the name and the changes of the view that a call of `create_changelog_view` creates.

    Args:
        catalog: The catalog with the table.
        arguments: A value for each parameter, None for missing ones. See `bind_arguments`.

    Raises:
        InvalidOption: The arguments contradict each other.

    Example:
        >>> name, changes = changes_of(lake, bind_arguments(find_procedure("create_changelog_view"), ["db.sample"], {}))
        >>> changes.to_spark(spark).createOrReplaceTempView(name)
    """
    table = catalog.load_table(arguments["table"])
    given = arguments["identifier_columns"]
    images = arguments["compute_updates"]
    identity: Sequence[str] = ()
    if images if images is not None else given is not None:
        schema = table.scan().spec.snapshot.schema
        identity = given or tuple(schema.path_of[each] for each in schema.identifier_ids)
        if not identity:
            raise InvalidOption(
                "create_changelog_view: compute_updates needs identifier_columns: the table has no identifier fields"
            )
    net = bool(arguments["net_changes"])
    if net and identity:
        raise InvalidOption("create_changelog_view: net_changes excludes compute_updates and identifier_columns")
    options = dict(arguments["options"] or {})
    start, end = _range_end(options, _STARTS), _range_end(options, _ENDS)
    name = arguments["changelog_view"] or f"{table.name.name if table.name else 'table'}_changes"
    return name, table.changes(start, end, identity=identity, net=net, **options)


def _range_end(options: dict[str, str], names: tuple[str, str]) -> int | datetime | None:
    """Remove one end of the range from the options, and return it: a snapshot id, or a timestamp from milliseconds.

    `names` are the options with the snapshot id and the timestamp. Returns None without one, and raises `InvalidOption`
    for both or for a value that is not a whole number.
    """
    found = {each: options.pop(each) for each in names if each in options}
    if len(found) > 1:
        raise InvalidOption(f"create_changelog_view: pass only one of {' and '.join(found)}")
    for name, text in found.items():
        try:
            number = int(text)
        except ValueError as error:
            raise InvalidOption(f"create_changelog_view: {name}={text!r}: expected a whole number") from error
        return from_millis(number) if name.endswith("timestamp") else number
    return None


def _create_changelog_view(call: ProcedureCall) -> pa.Table:
    return changes_of(call.catalog, call.arguments)[1].to_arrow()


PROCEDURES = (
    Procedure(
        "create_changelog_view",
        (
            Parameter("table", STRING, required=True),
            Parameter("changelog_view", STRING),
            Parameter("options", OPTIONS),
            Parameter("compute_updates", BOOLEAN),
            Parameter("identifier_columns", STRINGS),
            Parameter("net_changes", BOOLEAN),
        ),
        columns(changelog_view=pa.string()),
        _create_changelog_view,
    ),
)
