"""Column rules of a table: constraints on new rows, and the values that fill columns missing from the rows.

New rows are completed in this order: strings are shortened, defaults, ids and generated columns are added, strings are
padded. Then all rules are checked. SQL expressions see CHAR values before padding, as in Delta on Spark, and filters
ignore the padding. Rows that are only rewritten (compaction, rows kept by an overwrite) are neither completed nor
checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import SchemaMismatch
from lakescan.expressions.evaluate import column_getter
from lakescan.expressions.literals import plain_value
from lakescan.expressions.row_condition import RowCondition
from lakescan.expressions.scalar.expression import ScalarExpression
from lakescan.writing.arrow_layout import with_children
from lakescan.writing.conform import Fit, fit_array, places_of
from lakescan.writing.identity_values import Identity, IdentityValues

MARKS = "identity marks"  # key in the details of a written file: by identity column, the last id that its task assigned


@dataclass(frozen=True)
class ColumnRules:
    """The rules of a table's columns. Pickled for workers.

    - `constraints`: conditions by name. A row violates a condition that is false or null.
    - `generated`: by column, the expression that computes its values.
    - `defaults`: by column, the value for rows without the column. Nulls in the rows are not replaced.
    - `identities`: by column, how its ids are assigned.
    - `lengths`: by column, the CHAR and VARCHAR lengths of its strings.
    """

    constraints: Mapping[str, RowCondition] = field(default_factory=dict)
    generated: Mapping[str, ScalarExpression] = field(default_factory=dict)
    defaults: Mapping[str, pa.Scalar] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    lengths: Mapping[str, Lengths] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any((self.constraints, self.generated, self.defaults, self.identities, self.lengths))

    def input_columns(self, schema: Schema, rows: pa.Schema) -> Schema:
        """Return the columns that rows must have: all of `schema` except missing ones that the rules fill.

        Raises `SchemaMismatch` if rows have values for a column that is GENERATED ALWAYS AS IDENTITY.
        """
        present = places_of(schema.fields, tuple(t.Field(0, name, t.UNKNOWN) for name in rows.names))
        filled = {*self.generated, *self.defaults, *self.identities}
        fields = []
        for each, place in zip(schema.fields, present, strict=True):
            if place is None and each.name in filled:
                continue
            if place is not None and each.name in self.identities and not self.identities[each.name].takes_values:
                raise SchemaMismatch(
                    f"column {each.name!r} is GENERATED ALWAYS AS IDENTITY: leave it out of the rows to write"
                )
            fields.append(each)
        return Schema(tuple(fields), schema.id)

    def missing_identities(self, schema: Schema, rows: pa.Schema) -> list[str]:
        """Return the names of the identity columns that rows with the Arrow schema `rows` lack, and writers fill."""
        given = self.input_columns(schema, rows).names
        return [name for name in self.identities if name not in given]


class RowCompleter:
    """Completes and checks the rows that one task of a write appends.

    `rules` are those of the table. `more` are further conditions, keyed by the end of the message about rows that
    violate them ("N rows ..."). `task` is the task's number within the write; None for a write of one task.
    """

    def __init__(self, rules: ColumnRules, schema: Schema, more: Mapping[str, RowCondition], task: int | None) -> None:
        named = {f"violate the constraint {name!r} of the table": each for name, each in rules.constraints.items()}
        self._rules, self._schema, self._conditions = rules, schema, {**named, **more}
        self._ids = {name: IdentityValues(each, task) for name, each in rules.identities.items()}

    @property
    def marks(self) -> dict[str, int]:
        """The last id that this task assigned, by identity column: the greatest, or the least for a negative step.

        Columns without new ids are left out.
        """
        return {name: each.mark for name, each in self._ids.items() if each.mark is not None}

    def complete(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches with all columns of the table, after checking them.

        Raises `SchemaMismatch`, with an example, for rows that do not fit the table or violate a rule.
        """
        given: Schema | None = None
        for batch in batches:
            if given is None:
                given = self._rules.input_columns(self._schema, batch.schema)
                fit = Fit.match_columns(given, batch.schema)
            for rows in fit.pieces(batch):
                whole = self._complete_columns(rows, given)
                padded = self._fit_texts(whole)
                self._check(whole, padded)
                yield padded

    def _complete_columns(self, rows: pa.RecordBatch, given: Schema) -> pa.RecordBatch:
        columns = dict(zip(given.names, rows.columns, strict=True))
        for name, lengths in self._rules.lengths.items():
            if name in columns:
                columns[name] = lengths.apply(columns[name], name, pads=False)
        for each in self._schema.fields:
            if each.name in columns:
                continue
            if each.name in self._rules.defaults:
                value = pa.repeat(self._rules.defaults[each.name], rows.num_rows)
                columns[each.name] = fit_array(value, each)
            elif each.name in self._ids:
                columns[each.name] = self._ids[each.name].take(rows.num_rows)
        self._generate(columns, rows.num_rows)
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names],
            schema=pa.schema([pa.field(f.name, f.type.arrow(), not f.required) for f in self._schema.fields]),
        )

    def _fit_texts(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the strings in all columns of `lengths` padded to CHAR(n) or shortened.

        Raises `SchemaMismatch` for strings that are too long.
        """
        for name, lengths in self._rules.lengths.items():
            place = rows.schema.get_field_index(name)
            values = lengths.apply(rows.column(place), name, pads=True)
            rows = rows.set_column(place, rows.schema.field(place), values)
        return rows

    def _generate(self, columns: dict[str, pa.Array], count: int) -> None:
        """Add the generated columns to `columns`, arrays of `count` rows by column name.

        If the rows have such a column, check it instead: raises `SchemaMismatch` for values that differ from its
        expression.
        """
        fields = {each.name: each for each in self._schema.fields}
        arrays = [columns.get(name, pa.nulls(count, each.type.arrow())) for name, each in fields.items()]
        base = pa.RecordBatch.from_arrays(arrays, names=list(fields))
        for name, expression in self._rules.generated.items():
            values = fit_array(expression.evaluate(base), fields[name])
            if name in columns:
                self._check_generated(columns[name], values, name, expression, base)
            else:
                columns[name] = values

    def _check_generated(
        self, given: pa.Array, values: pa.Array, name: str, expression: ScalarExpression, rows: pa.RecordBatch
    ) -> None:
        differs = pc.invert(_null_safe_equal(given, values))
        if count := pc.sum(differs).as_py():
            example = example_of(rows, differs, self._schema, (self._schema.column(name).id, *expression.columns))
            raise SchemaMismatch(
                f"{count:,} rows have values of the generated column {name!r} that differ from its expression: "
                f"{expression.text}. For example: {example}. Leave the column out, so that it is computed"
            )

    def _check(self, given: pa.RecordBatch, padded: pa.RecordBatch) -> None:
        for violation, condition in self._conditions.items():
            rows = padded if condition.ignores_padding else given
            fails = pc.invert(condition.holds(rows))
            if count := pc.sum(fails).as_py():
                example = example_of(rows, fails, self._schema, condition.columns)
                raise SchemaMismatch(
                    f"{count:,} rows {violation}: {condition.text}" + (f". For example: {example}" if example else "")
                )


def _null_safe_equal(left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare as `left <=> right` does: nulls are equal, and so are NaNs."""
    both_null = pc.and_(left.is_null(), right.is_null())
    equal = pc.fill_null(pc.equal(left, right), False)
    if pa.types.is_floating(left.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return pc.or_(both_null, equal)


def example_of(rows: pa.RecordBatch, mask: pa.Array, schema: Schema, fields: tuple[int, ...]) -> str:
    """Describe the first true row of `mask` by its values of some fields: `id = 1, name = 'x'`.

    `fields` are the ids of these fields in `schema`. Returns empty text without fields.
    """
    first = rows.filter(mask).slice(0, 1)
    column = column_getter(first, schema)
    return ", ".join(f"{schema.path_of[each]} = {plain_value(column(each)[0])!r}" for each in dict.fromkeys(fields))


# As in Spark, a string that is too long loses trailing spaces, and is rejected if it is still too long. CHAR values are
# padded with spaces to their length.


@dataclass(frozen=True)
class TextLength:
    """The length of a string column in characters: a maximum (VARCHAR), or exact if `is_padded` (CHAR)."""

    length: int
    is_padded: bool

    def apply(self, texts: pa.Array, path: str, *, pads: bool) -> pa.Array:
        """Shorten strings to the length by removing trailing spaces, and pad CHAR values with spaces if `pads`.

        Raises `SchemaMismatch`, with an example, for strings that are too long without trailing spaces. `path` names
        the column in the message.
        """
        sizes = pc.utf8_length(texts)
        if pc.any(pc.greater(sizes, self.length)).as_py():
            is_long = pc.fill_null(pc.greater(pc.utf8_length(pc.utf8_rtrim(texts, " ")), self.length), False)
            if count := pc.sum(is_long).as_py():
                example = texts.filter(is_long)[0].as_py()
                raise SchemaMismatch(
                    f"column {path!r} is {self}, and {count:,} texts of a batch are longer, for example {example!r}"
                )
            texts = pc.utf8_slice_codeunits(texts, 0, self.length)
        return pc.utf8_rpad(texts, self.length, " ") if self.is_padded and pads else texts

    def __str__(self) -> str:
        return f"{'CHAR' if self.is_padded else 'VARCHAR'}({self.length})"


@dataclass(frozen=True)
class NestedLengths:
    """The CHAR and VARCHAR lengths of strings inside a struct, list or map.

    `children` has one entry per struct member, one for a list's element, or two for a map's key and value. None stands
    for a child without such strings.
    """

    children: tuple[TextLength | NestedLengths | None, ...]

    def apply(self, values: pa.Array, path: str, *, pads: bool) -> pa.Array:
        """Shorten and pad the strings inside nested values; see `TextLength.apply`, also for the errors."""
        if pa.types.is_struct(values.type):
            members = [values.field(place) for place in range(values.type.num_fields)]
            fitted = [
                array if each is None else each.apply(array, f"{path}.{member.name}", pads=pads)
                for array, each, member in zip(members, self.children, values.type, strict=True)
            ]
            mask = values.is_null() if values.null_count else None
            return pa.StructArray.from_arrays(fitted, fields=list(values.type), mask=mask)
        is_map = pa.types.is_map(values.type)
        arrays = [values.keys, values.items] if is_map else [values.values]
        names = ["key", "value"] if is_map else ["element"]
        fitted = [
            array if each is None else each.apply(array, f"{path}.{name}", pads=pads)
            for array, each, name in zip(arrays, self.children, names, strict=True)
        ]
        return with_children(values, values.type, fitted)


Lengths = TextLength | NestedLengths
