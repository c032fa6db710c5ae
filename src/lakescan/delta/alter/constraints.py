"""Add and drop CHECK constraints (protocol, "CHECK Constraints")."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.definition.table_changes import AddConstraint, DropConstraint
from lakescan.delta.alter.table_state import Path, RowCheck, TableState, all_fields, overlap
from lakescan.delta.metadata.table_properties import CONSTRAINT
from lakescan.errors import InvalidFilter, InvalidOption, LakescanError, NoSuchColumn, UnsupportedFeature, nearest
from lakescan.expressions.row_condition import RowCondition
from lakescan.expressions.scalar.expression import ScalarExpression

_RESERVED = ("__char_varchar_length_check_expression", "__CHAR_VARCHAR_STRING_LENGTH_CHECK__")


def add_constraint(state: TableState, change: AddConstraint, base: Schema) -> TableState:
    """Add a CHECK constraint, and a check that the existing rows, with the schema `base`, satisfy it.

    Raises `NoSuchColumn`, `InvalidOption`, and `UnsupportedFeature` for a condition that lakescan cannot evaluate.
    """
    name, now = change.name, state.metadata.properties.constraints
    if not name or name in _RESERVED:
        raise InvalidOption(f"{name!r} is not the name of a constraint")
    if (known := {each.lower(): each for each in now}.get(name.lower())) is not None:
        raise InvalidOption(f"{state.location} already has a constraint {known!r}: {now[known]}")
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
    """Drop a CHECK constraint; raise `InvalidOption` if it does not exist, unless the change has `if_exists`."""
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
    """Raise `UnsupportedFeature` if the same commit adds, renames or retypes a column that the condition reads.

    Rows of the base version do not have such a column, so the condition cannot be checked.
    """
    for each in condition.columns:
        path, field = schema.path_of[each], schema.by_id[each]
        same = [i for i, other in base.path_of.items() if other == path]
        before = [base.physical_path(base.by_id[i]) for i in same if base.by_id[i].type == field.type]
        if schema.physical_path(field) not in before:
            raise UnsupportedFeature(
                f"adding a constraint in one commit with a change of its column {path!r}",
                "Commit the change of the column first.",
            )


_GENERATED, _INVARIANT = "delta.generationExpression", "delta.invariants"
CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


def check_independent(state: TableState, path: Path, doing: str) -> None:
    """Raise `UnsupportedFeature` if a constraint, invariant or generated column reads a column or one of its fields.

    `doing` is the verb for the message, such as "dropping".
    """
    for what, instead, reads in _expressions(state):
        if reads(path):
            raise UnsupportedFeature(f"{doing} column {dotted_path(path)} of {state.location}", f"{what}. {instead}")


def check_no_lengths(state: TableState, path: Path, doing: str) -> None:
    """Raise `UnsupportedFeature` for a field within a CHAR or VARCHAR column, whose metadata records the whole type.

    `doing` is the verb for the message, such as "dropping".
    """
    for name, field in all_fields(state.schema):
        if len(name) == 1 and len(path) > 1 and overlap(name, path) and CHAR_TYPE in (field.get("metadata") or {}):
            raise UnsupportedFeature(
                f"{doing} {dotted_path(path)} of {state.location}",
                f"Column {name[0]!r} has CHAR or VARCHAR members. Change the table with Delta on Spark.",
            )


def _expressions(state: TableState) -> Iterator[tuple[str, str, Callable[[Path], bool]]]:
    """Yield for each expression of the table its description, advice for the user, and a predicate.

    The predicate takes a column path and returns whether the expression reads it.
    """
    for name, text in state.metadata.properties.constraints.items():
        drop = f"Drop the constraint first: ALTER TABLE ... DROP CONSTRAINT {name}."
        yield f"The constraint {name!r} reads it: {text}", drop, _path_predicate(state, text)
    for path, field in all_fields(state.schema):
        metadata = field.get("metadata") or {}
        if _GENERATED in metadata and "generatedColumns" in state.protocol.features:
            text = str(metadata[_GENERATED])
            what = f"Column {dotted_path(path)} is generated from it: {text}"
            yield what, "A generated column cannot be changed.", _path_predicate(state, text)
        if _INVARIANT in metadata:
            text = str(metadata[_INVARIANT])
            yield f"The invariant of column {dotted_path(path)} may read it: {text}", "", _names(text)


def _path_predicate(state: TableState, text: str) -> Callable[[Path], bool]:
    """Return a function that takes a column path and returns whether the expression `text` reads that column.

    An expression that cannot be parsed counts as reading a column if it contains the column's name.
    """
    schema = state.metadata.schema()
    try:
        try:
            ids = RowCondition.parse(text, schema).columns
        except (InvalidFilter, UnsupportedFeature):
            ids = ScalarExpression.parse(text, schema).columns
    except LakescanError:
        return _names(text)
    read = [tuple(schema.path_of[each].split(".")) for each in ids]
    tops = [(schema.top_level_of[each].name,) for each in ids]

    def reads_path(path: Path) -> bool:
        whole = tuple(".".join(path).split("."))  # split as in `path_of`, where names may contain dots
        return any(overlap(each, whole) for each in read) or (len(path) == 1 and any(overlap(t, path) for t in tops))

    return reads_path


def _names(text: str) -> Callable[[Path], bool]:
    return lambda path: path[-1].lower() in text.lower() or path[0].lower() in text.lower()
