"""What depends on a column: such a column is not dropped, renamed, or given another type."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lakescan.common.references import dotted_path
from lakescan.delta.alter.schema_tree import Path, all_fields, overlap
from lakescan.delta.alter.state import TableState
from lakescan.errors import InvalidFilter, LakescanError, UnsupportedFeature
from lakescan.expressions.scalar.condition import RowCondition
from lakescan.expressions.scalar.expression import ScalarExpression

_GENERATED, _INVARIANT = "delta.generationExpression", "delta.invariants"
CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


def check_independent(state: TableState, path: Path, doing: str) -> None:
    """Raise `UnsupportedFeature` if an expression of the table reads a column, or a member of it."""
    for what, instead, reads in _expressions(state):
        if reads(path):
            raise UnsupportedFeature(f"{doing} column {dotted_path(path)} of {state.location}", f"{what}. {instead}")


def check_no_lengths(state: TableState, path: Path, doing: str) -> None:
    """Raise `UnsupportedFeature` for a part of a CHAR or VARCHAR column: the column says the type of the whole."""
    for name, field in all_fields(state.schema):
        if len(name) == 1 and len(path) > 1 and overlap(name, path) and CHAR_TYPE in (field.get("metadata") or {}):
            raise UnsupportedFeature(
                f"{doing} {dotted_path(path)} of {state.location}",
                f"Column {name[0]!r} has CHAR or VARCHAR members. Change the table with Delta on Spark.",
            )


def _expressions(state: TableState) -> Iterator[tuple[str, str, Callable[[Path], bool]]]:
    """What uses columns, what to do about it, and whether it reads the column of a path."""
    for name, text in state.metadata.properties.constraints.items():
        drop = f"Drop the constraint first: ALTER TABLE ... DROP CONSTRAINT {name}."
        yield f"The constraint {name!r} reads it: {text}", drop, _path_predicate(state, text)
    for path, field in all_fields(state.schema):
        metadata = field.get("metadata") or {}
        if _GENERATED in metadata and "generatedColumns" in state.protocol.features:
            text = str(metadata[_GENERATED])
            what = f"Column {dotted_path(path)} is generated of it: {text}"
            yield what, "Generated columns stay as they are.", _path_predicate(state, text)
        if _INVARIANT in metadata:
            text = str(metadata[_INVARIANT])
            yield f"The invariant of column {dotted_path(path)} may read it: {text}", "", _names(text)


def _path_predicate(state: TableState, text: str) -> Callable[[Path], bool]:
    """Whether an expression reads a column; one that is not understood does if it has the column's name."""
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
        whole = tuple(".".join(path).split("."))  # as `path_of` has it: names with dots in them, too
        return any(overlap(each, whole) for each in read) or (len(path) == 1 and any(overlap(t, path) for t in tops))

    return reads_path


def _names(text: str) -> Callable[[Path], bool]:
    return lambda path: path[-1].lower() in text.lower() or path[0].lower() in text.lower()
