"""Parse the column rules that a Delta table's metadata declares, for writers.

Protocol: "Column Invariants", "CHECK Constraints", "Generated Columns", "Default Columns", "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.log.log_text import as_long, parse_json, short_json
from lakescan.delta.metadata.char_types import text_lengths
from lakescan.delta.metadata.new_schema import IDENTITY_MARK, IDENTITY_STEP
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import CorruptMetadata, InvalidFilter, NoSuchColumn, SchemaMismatch, UnsupportedFeature
from lakescan.expressions.row_condition import RowCondition
from lakescan.expressions.scalar.expression import ScalarExpression
from lakescan.expressions.scalar.time_functions import clock_values
from lakescan.writing.column_rules import ColumnRules, Lengths
from lakescan.writing.conform import fit_array
from lakescan.writing.identity_values import Identity

_INVARIANT, _GENERATED = "delta.invariants", "delta.generationExpression"
_START, _STEP, _MARK = "delta.identity.start", IDENTITY_STEP, IDENTITY_MARK
_EXPLICIT, _DEFAULT = "delta.identity.allowExplicitInsert", "CURRENT_DEFAULT"
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
_OF_COLUMNS = (_GENERATED, _START, _STEP, _DEFAULT)  # no writer declares them for fields within columns
Rule = TypeVar("Rule")


@dataclass(frozen=True)
class DeclaredRules:
    """Parses the column rules of one table.

    - `schema`: the table's columns; hidden columns may follow them.
    - `now`: the time of the write, for `current_timestamp()` in defaults.

    Rules that lakescan cannot enforce raise `UnsupportedFeature`.
    """

    protocol: Protocol
    metadata: Metadata
    schema: Schema
    location: str
    now: datetime

    def rules(self) -> ColumnRules:
        """Return all rules; raises `CorruptMetadata` for invalid declarations, and `UnsupportedFeature`."""
        self._check_nested()
        return ColumnRules(
            {**self._checks(), **self._invariants()},
            self._column_rules(self._generation_expression),
            self._column_rules(self._default),
            self._column_rules(self._identity),
            self._column_rules(self._lengths),
        )

    @cached_property
    def _fields(self) -> list[dict[str, Any]]:
        """The JSON objects of the columns in the table's schema."""
        fields: list[dict[str, Any]] = parse_json(self.metadata.schema_string, self.location)["fields"]
        return fields

    def _column_rules(self, parse: Callable[[t.Field, Mapping[str, Any]], Rule | None]) -> dict[str, Rule]:
        found = {}
        for column, node in zip(self.schema.fields, self._fields, strict=False):  # hidden columns come last
            if (rule := parse(column, node.get("metadata") or {})) is not None:
                found[column.name] = rule
        return found

    def _check_nested(self) -> None:
        """Raise `UnsupportedFeature` for rules of nested fields that Delta on Spark would not enforce."""
        for each in _schema_fields(self._fields):
            names = () if each.is_column else (*_OF_COLUMNS, *((_INVARIANT,) if each.is_repeated else ()))
            for name in names:
                if name in each.metadata:
                    raise UnsupportedFeature(
                        f"writing to Delta tables with {name} of a field within a column",
                        f"{self.location}: {each.path} has it.",
                    )

    def _checks(self) -> dict[str, RowCondition]:
        texts = self.metadata.properties.constraints
        return {name: self._condition(f"the constraint {name!r}", text) for name, text in texts.items()}

    def _invariants(self) -> dict[str, RowCondition]:
        found = {}
        for each in _schema_fields(self._fields):
            if (raw := each.metadata.get(_INVARIANT)) is None:
                continue
            node = parse_json(raw, f"{self.location}: {_INVARIANT} of {each.path}") if isinstance(raw, str) else None
            rule = node.get("expression") if isinstance(node, dict) else None
            text = rule.get("expression") if isinstance(rule, dict) else None
            if not isinstance(text, str):
                raise CorruptMetadata(
                    f"{self.location}: {_INVARIANT} of {each.path} is {short_json(raw)}, not an expression"
                )
            found[f"{_INVARIANT} of {each.path}"] = self._condition(f"the invariant of column {each.path!r}", text)
        return found

    def _condition(self, what: str, text: str) -> RowCondition:
        return self._parse_rule(what, text, lambda: RowCondition.parse(text, self.schema))

    def _parse_rule(self, what: str, text: str, parse: Callable[[], Rule]) -> Rule:
        """Return the result of `parse`; re-raise its errors as `UnsupportedFeature` that names the rule.

        `what` and `text` are the rule's name and its SQL text, for the message.
        """
        whole = f"{what} of {self.location}, {text}"
        try:
            return parse()
        except NoSuchColumn as error:
            raise UnsupportedFeature(
                f"{whole}, without one of its columns", f"Drop or change the rule: {error}"
            ) from error
        except UnsupportedFeature as error:
            raise UnsupportedFeature(f"{whole}: {error.feature}", error.detail) from error
        except InvalidFilter as error:
            raise UnsupportedFeature(whole, str(error)) from error

    def _generation_expression(self, column: t.Field, metadata: Mapping[str, Any]) -> ScalarExpression | None:
        text = metadata.get(_GENERATED)
        if text is None or "generatedColumns" not in self.protocol.features:
            return None  # older writers copied the metadata to tables whose columns are not generated
        what = f"the generated column {column.name!r}"
        expression = self._parse_rule(what, str(text), lambda: ScalarExpression.parse(str(text), self.schema))
        if expression.type != column.type:
            raise UnsupportedFeature(
                f"{what} of {self.location}, {text}", f"The column is {column.type}, its expression {expression.type}."
            )
        for source in {self.schema.top_level_of[each].name for each in expression.columns}:
            node = next(each for each in self._fields if each["name"] == source)
            if _GENERATED in (node.get("metadata") or {}):
                raise UnsupportedFeature(
                    f"{what} of {self.location}, {text}", f"Its source {source!r} is generated, too."
                )
        return expression

    def _default(self, column: t.Field, metadata: Mapping[str, Any]) -> pa.Scalar | None:
        text = metadata.get(_DEFAULT)
        if text is None:
            return None
        what = f"the default of column {column.name!r}"

        def parse() -> pa.Scalar:
            expression = ScalarExpression.parse(str(text), Schema(()), clock_values(self.now))
            one = pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"])
            return fit_array(expression.evaluate(one), t.Field(0, column.name, column.type))[0]

        try:
            return self._parse_rule(what, str(text), parse)
        except SchemaMismatch as error:
            raise UnsupportedFeature(f"{what} of {self.location}, {text}", str(error)) from error

    def _identity(self, column: t.Field, metadata: Mapping[str, Any]) -> Identity | None:
        declared = [name for name in (_START, _STEP, _EXPLICIT) if name in metadata]
        if not declared:
            return None
        start, step, mark = (as_long(metadata.get(name)) for name in (_START, _STEP, _MARK))
        explicit = metadata.get(_EXPLICIT)
        complete = start is not None and step and isinstance(explicit, bool) and column.type == t.LONG
        if not complete or (_MARK in metadata and mark is None):
            raise CorruptMetadata(f"{self.location}: column {column.name!r} has an invalid delta.identity")
        assert start is not None
        assert step
        if column.name in self.metadata.partition_columns:
            raise UnsupportedFeature("writing to Delta tables partitioned by an identity column", self.location)
        first = start - step
        # A high-water mark before the start is another writer's mistake: values never come before the start.
        last = first if mark is None else max(mark, first) if step > 0 else min(mark, first)
        return Identity(step, _align_mark(last, start, step), bool(explicit))

    def _lengths(self, column: t.Field, metadata: Mapping[str, Any]) -> Lengths | None:
        raw = metadata.get(_CHAR)
        return text_lengths(raw, column.type, f"{self.location}: column {column.name!r}") if raw else None


@dataclass(frozen=True)
class _FieldMetadata:
    """The metadata of a field in the schema's JSON.

    - `path`: the dotted name.
    - `is_column`: whether the field is a top-level column.
    - `is_repeated`: whether it is within a list or map.
    """

    path: str
    metadata: Mapping[str, Any]
    is_column: bool
    is_repeated: bool


def _schema_fields(nodes: list[dict[str, Any]]) -> Iterator[_FieldMetadata]:
    """Yield all fields of the schema, at any depth."""
    pending: list[tuple[Any, str, bool, bool]] = [(node, "", True, False) for node in reversed(nodes)]
    while pending:
        node, path, is_column, is_repeated = pending.pop()
        if not isinstance(node, dict):
            continue
        if "name" in node:
            path = f"{path}.{node['name']}" if path else node["name"]
            yield _FieldMetadata(path, node.get("metadata") or {}, is_column, is_repeated)
            pending.append((node["type"], path, False, is_repeated))
        else:
            pending += [(each, path, False, is_repeated) for each in reversed(node.get("fields") or ())]
            inner = [node[name] for name in ("elementType", "keyType", "valueType") if name in node]
            pending += [(each, path, False, True) for each in inner]


def _align_mark(mark: int, start: int, step: int) -> int:
    """Return a high-water mark, advanced to a value of the identity column: `start`, `start` + `step`, and so on.

    Users may have inserted other values, so `mark` need not be one.
    """
    return start - (start - mark) // step * step
