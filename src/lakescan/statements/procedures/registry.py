"""Find Iceberg's procedures by name, check their arguments, and call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.common.executors import PlanningExecutor
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest
from lakescan.statements.procedures import changelog, files, imports, maintenance, metadata_files, snapshots
from lakescan.statements.procedures.declaration import Parameter, Procedure, ProcedureCall, SourceTable

PROCEDURES: Mapping[str, Procedure] = {
    each.name: each
    for group in (snapshots, maintenance, files, changelog, metadata_files, imports)
    for each in group.PROCEDURES
}


def call(
    catalog: Catalog,
    name: str,
    positional: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    executor: PlanningExecutor | None = None,
    source_table: Callable[[str], SourceTable] | None = None,
) -> pa.Table:
    """Call one of Iceberg's procedures, as `CALL catalog.system.name(...)` does.

    Args:
        catalog: The catalog with the tables.
        name: The procedure's name, such as 'rollback_to_snapshot'.
        positional: Arguments in the order of the parameters.
        named: Further arguments by name. None means that no value is given.
        executor: Runs the rewriting of files, such as `lakescan.spark.SparkExecutor(spark)`. Threads by default.
        source_table: Describes tables of an engine's own catalog, for `snapshot` and `add_files`. Raises `NoSuchTable`.

    Returns:
        The result, with the columns of Iceberg's documentation. `create_changelog_view` returns the changes. See
        `changelog.changes_of`.

    Raises:
        InvalidOption: The procedure or a parameter does not exist, a required argument is missing, or a value is
            invalid.
        UnsupportedFeature: The procedure or an argument is not supported. The message gives an alternative.
        LakescanError: The procedure itself failed.

    Example:
        >>> call(lakescan.catalog("local"), "rollback_to_snapshot", ["db.sample", 1])
    """
    procedure = find_procedure(name)
    if procedure.run is None:
        raise UnsupportedFeature(f"the procedure {procedure.name}", procedure.instead)
    arguments = bind_arguments(procedure, positional, named or {})
    found = procedure.run(ProcedureCall(procedure.name, catalog, arguments, executor, source_table))
    if isinstance(found, pa.Table):
        return found
    rows = [dict(zip(procedure.output.names, row, strict=True)) for row in found]
    return pa.Table.from_pylist(rows, procedure.output)


def find_procedure(name: str) -> Procedure:
    """Return the procedure of a name, ignoring case. Raises `InvalidOption`, which suggests the nearest name.

    Args:
        name: The procedure's name.

    Example:
        >>> find_procedure("fast_forward").parameters[0].name
        'table'
    """
    found = PROCEDURES.get(str(name).lower())
    if found is None:
        raise InvalidOption(f"there is no procedure {name!r}.{nearest(name, PROCEDURES)}")
    return found


def bind_arguments(procedure: Procedure, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Check the arguments of a call. Returns a value for each parameter, None for missing ones.

    Args:
        procedure: The procedure that is called.
        positional: Arguments in order.
        named: Arguments by name.

    Raises:
        InvalidOption: The arguments do not fit the parameters.

    Example:
        >>> bind_arguments(find_procedure("rollback_to_snapshot"), ["db.sample", 1], {})
        {'table': 'db.sample', 'snapshot_id': 1}
    """
    parameters, name = procedure.parameters, procedure.name
    if len(positional) > len(parameters):
        raise InvalidOption(
            f"{name} takes {len(parameters)} arguments ({', '.join(each.name for each in parameters)}), not "
            f"{len(positional)}"
        )
    given = dict(zip((each.name for each in parameters), positional, strict=False))
    known = {each.name: each for each in parameters}
    for key, value in named.items():
        own = str(key).lower()
        if own not in known:
            raise InvalidOption(f"{name} has no parameter {key!r}.{nearest(key, known)}")
        if own in given:
            raise InvalidOption(f"{name}: {own} is given twice, by position and by name")
        given[own] = value
    missing = [each.name for each in parameters if each.required and given.get(each.name) is None]
    if missing:
        raise InvalidOption(f"{name} needs {' and '.join(missing)}")
    return {each.name: _parse_argument(name, each, given.get(each.name)) for each in parameters}


def _parse_argument(name: str, parameter: Parameter, value: Any) -> Any:
    if value is None:
        return None
    try:
        return parameter.kind.read(value)
    except (ValueError, TypeError) as error:
        raise InvalidOption(f"{name}: {parameter.name}={value!r}: expected {parameter.kind.expects}") from error
