"""Add and drop CHECK constraints (protocol, "CHECK Constraints")."""

from __future__ import annotations

from lakescan.common.schema import Schema
from lakescan.definition.table_changes import AddConstraint, DropConstraint
from lakescan.delta.alter.state import RowCheck, TableState
from lakescan.delta.metadata.table_properties import CONSTRAINT
from lakescan.errors import InvalidFilter, InvalidOption, NoSuchColumn, UnsupportedFeature, nearest
from lakescan.expressions.scalar.condition import RowCondition

_RESERVED = ("__char_varchar_length_check_expression", "__CHAR_VARCHAR_STRING_LENGTH_CHECK__")


def add_constraint(state: TableState, change: AddConstraint, base: Schema) -> TableState:
    """Add a constraint; rows of the base, which has the columns `base`, must meet it.

    Raises `NoSuchColumn`, and `UnsupportedFeature` for a condition that writers here do not understand.
    """
    name, now = change.name, state.metadata.properties.constraints
    if not name or name in _RESERVED:
        raise InvalidOption(f"{name!r} is not the name of a constraint")
    if (known := {each.lower(): each for each in now}.get(name.lower())) is not None:
        raise InvalidOption(f"{state.location} has a constraint {known!r} already: {now[known]}")
    schema = state.metadata.schema()
    condition = _condition(state, change, schema)
    _check_columns(state, condition, schema, base)
    configuration = {**state.metadata.configuration, f"{CONSTRAINT}{name.lower()}": change.condition}
    after = state.with_configuration(configuration).with_features("checkConstraints")
    why = f"violate the new constraint {name!r} of {state.location}"
    return after.with_check(RowCheck(why, condition=change.condition)).with_step(
        "ADD CONSTRAINT", name=name, expr=change.condition
    )


def drop_constraint(state: TableState, change: DropConstraint) -> TableState:
    """Drop a constraint."""
    constraints = state.metadata.properties.constraints
    known = {each.lower(): each for each in constraints}.get(change.name.lower())
    if known is None:
        if change.if_exists:
            return state
        raise InvalidOption(f"{state.location} has no constraint {change.name!r}.{nearest(change.name, constraints)}")
    configuration = {
        name: value
        for name, value in state.metadata.configuration.items()
        if name.lower() != f"{CONSTRAINT}{known.lower()}"
    }
    parameters = {"name": change.name, "expr": constraints[known], "existed": "true"}
    return state.with_configuration(configuration).with_step("DROP CONSTRAINT", **parameters)


def _condition(state: TableState, change: AddConstraint, schema: Schema) -> RowCondition:
    what = f"the constraint {change.name!r} of {state.location}, {change.condition}"
    try:
        return RowCondition.parse(change.condition, schema)
    except NoSuchColumn as error:
        raise NoSuchColumn(f"{what}: {error}") from error
    except InvalidFilter as error:
        raise InvalidOption(f"{what}: {error}") from error
    except UnsupportedFeature as error:
        raise UnsupportedFeature(f"{what}: {error.feature}", error.detail) from error


def _check_columns(state: TableState, condition: RowCondition, schema: Schema, base: Schema) -> None:
    """Refuse columns that changes of the same commit added or renamed: rows of the base do not have them."""
    for each in condition.columns:
        path, field = schema.path_of[each], schema.by_id[each]
        same = [i for i, other in base.path_of.items() if other == path]
        before = [base.physical_path(base.by_id[i]) for i in same if base.by_id[i].type == field.type]
        if schema.physical_path(field) not in before:
            raise UnsupportedFeature(
                f"adding a constraint in one commit with a change of its column {path!r}",
                "Commit the change of the column first.",
            )
