"""Rows with keys and a sequence: which columns of a stream to write, and the newest row of each key.

Everything is Spark SQL over the stream's rows, so that a batch is one query. Invalid rows fail that query with a
message in a fixed format, which `translate_row_errors` turns into an error of lakescan.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakescan.common.metadata_columns import (
    CHANGE,
    CHANGE_ORDINAL,
    COMMIT_SNAPSHOT,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
)
from lakescan.common.references import backquote
from lakescan.errors import AmbiguousMerge, InvalidOption, NoSuchColumn, SchemaMismatch, nearest
from lakescan.spark.statements.names import columns_of, find_column, strip_backquotes
from lakescan.statements.rows.upserts import StoredKeys
from lakescan.statements.syntax.text import text_literal
from lakescan.tables.base import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as s

SEQUENCE, DELETES = "__lakescan_sequence", "__lakescan_deletes"
CHANGE_SEQUENCE = "_change_sequence"
# The columns that streams of changes have in addition to those of their tables.
OF_CHANGES = frozenset(
    each.name.lower() for each in (CHANGE, CHANGE_ORDINAL, COMMIT_SNAPSHOT, COMMIT_TIMESTAMP, COMMIT_VERSION)
) | {CHANGE_SEQUENCE}
_NAMED = re.compile(r"(?s)(.+?)\s+as\s+(`(?:[^`]|``)+`|\w+)\s*", re.IGNORECASE)
_TOLD = re.compile(r"(?s)\[lakescan (\w+)\] (.*?) \[end\]")
_ERRORS = {"ambiguous": AmbiguousMerge, "null": SchemaMismatch, "changed": SchemaMismatch}


@dataclass(frozen=True)
class SequenceBy:
    """The order of the rows of a key.

    `text` is SQL over the source, `column` the table's column that stores its value. With `column` None, rows are
    compared only within their batch.
    """

    text: str
    column: str | None

    @staticmethod
    def parse(text: str, source: Sequence[str], table: Sequence[str], *, in_order: bool) -> SequenceBy:
        """Parse the argument `sequence_by`: a column, `expression AS column`, or with `in_order` any expression.

        `source` and `table` are the names of their columns. Raises `InvalidOption` if the table has no column that
        stores the sequence.
        """
        plain = find_column(text, source)
        alias = _NAMED.fullmatch(text.strip()) if plain is None else None
        sql = backquote(plain) if plain is not None else text if alias is None else alias[1]
        if in_order:
            return SequenceBy(sql, None)
        name = plain if plain is not None else None if alias is None else strip_backquotes(alias[2])
        column = None if name is None else find_column(name, table)
        if column is None:
            wanted = f"column {name!r}" if name is not None else "name (write 'expression AS column')"
            raise InvalidOption(
                f"sequence_by={text!r}: the table has no {wanted} that stores the sequence, so late rows of later "
                "batches cannot be detected. Add such a column to the table; or, for batches that come in order, such "
                "as changes of a table, set in_order=True"
            )
        return SequenceBy(sql, column)


def drop_before_images(frame: DataFrame) -> DataFrame:
    """Convert changes to rows without images before updates, with `_change_sequence`; see `lakescan.spark.change_rows`.

    Raises `InvalidOption` if the frame has no columns of changes.
    """
    commit = find_column(COMMIT_VERSION.name, frame.columns) or find_column(CHANGE_ORDINAL.name, frame.columns)
    if find_column(CHANGE.name, frame.columns) is None or commit is None:
        raise InvalidOption(
            f"the frame has no {CHANGE.name} with {COMMIT_VERSION.name} (Delta) or {CHANGE_ORDINAL.name} (Iceberg): "
            "read the changes of a table, by readChangeFeed or on-change=changelog"
        )
    kind = f"lower({CHANGE.name})"
    updated = "('update_postimage', 'update_after')"
    others = [backquote(name) for name in frame.columns if name.lower() not in (CHANGE.name, CHANGE_SEQUENCE)]
    return frame.where(f"{kind} NOT IN ('update_preimage', 'update_before')").selectExpr(
        *others,
        f"CASE WHEN {kind} IN {updated} THEN 'update' ELSE {kind} END AS {CHANGE.name}",
        f"2 * bigint({commit}) + int({kind} <> 'delete') AS {CHANGE_SEQUENCE}",
    )


def find_used_columns(texts: Sequence[str | None], columns: Sequence[str]) -> set[str]:
    """Return those of the `columns`, in lower case, that SQL expressions refer to; texts that are None are skipped.

    In a text that cannot be parsed, each word counts as a reference.
    """
    words = {each.lower() for text in texts if text is not None for each in _names_in(text)}
    return {each.lower() for each in columns if each.lower() in words}


def _names_in(text: str) -> Iterator[str]:
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        yield from re.findall(r"\w+", text)
        return
    for each in tree.find_all(exp.Column):
        yield from (part.name for part in each.parts)


def columns_to_write(
    frame: DataFrame, table: Sequence[str], texts: Sequence[str | None], *, adds_others: bool, left_out: Collection[str]
) -> list[str]:
    """Return the columns of a source that are written to the table, whose columns are `table`.

    The columns `left_out` are not written. Columns that the table lacks are not written if SQL `texts` use them or if
    they describe changes. With `adds_others` (merge schema), further ones are written, else `SchemaMismatch` is raised.
    """
    out = {each.lower() for each in left_out}
    helpers = find_used_columns(texts, frame.columns) | OF_CHANGES
    kept = []
    for name in frame.columns:
        if name.lower() in out:
            continue
        if find_column(name, table) is not None or (adds_others and name.lower() not in helpers):
            kept.append(name)
        elif name.lower() not in helpers:
            raise SchemaMismatch(
                f"the stream has a column {name!r} that the table lacks.{nearest(name, table)} Select the columns to "
                "write, or set mergeSchema to add it"
            )
    return kept


def find_keys(frame: DataFrame, keys: Sequence[str]) -> list[str]:
    """Return the names of the key columns in a source, which may differ in case.

    Raises `NoSuchColumn` if one is missing.
    """
    found = []
    for key in keys:
        name = find_column(key, frame.columns)
        if name is None:
            raise NoSuchColumn(
                f"the rows of the stream have no column {key!r}, which is a key.{nearest(key, frame.columns)}"
            )
        found.append(name)
    return found


def add_marks(
    frame: DataFrame, columns: Sequence[str], sequence: SequenceBy | None, deletes_when: str | None
) -> DataFrame:
    """Select the columns, and add the sequence's value (`SEQUENCE`) and whether a row deletes its key (`DELETES`).

    The table's column that stores the sequence gets its value. `deletes_when` is an SQL condition.
    """
    expressions, kept = [], None if sequence is None else sequence.column
    for name in columns:
        if kept is None or name.lower() != kept.lower():
            expressions.append(backquote(name))
    if sequence is not None and kept is not None:
        expressions.append(f"{_parenthesize(sequence.text)} AS {backquote(kept)}")
    order = "NULL" if sequence is None else _parenthesize(sequence.text)
    deletes = "FALSE" if deletes_when is None else f"coalesce({_parenthesize(deletes_when)}, FALSE)"
    return frame.selectExpr(*expressions, f"{order} AS {SEQUENCE}", f"{deletes} AS {DELETES}")


def cast_keys(frame: DataFrame, target: Target, keys: Sequence[str], what: str) -> DataFrame:
    """Cast the keys to the table's types. The query fails for a key that the cast would change.

    `what` describes the operation in the error message.
    """
    columns, ansi = columns_of(frame)
    stored = StoredKeys.build(target, columns, keys, ansi=ansi)
    if not stored.keys:
        return frame
    texts = {}
    for each in stored.keys:
        texts[each.name] = each.text
        if each.changed is not None:
            key = f"to_json(struct({backquote(each.name)}))"
            fails = _raise_expression("changed", what, "a row has ", key, f", {each.problem}")
            texts[each.name] = f"CASE WHEN {each.changed} THEN {fails} ELSE {each.text} END"
    items = [f"{texts[name]} AS {backquote(name)}" if name in texts else backquote(name) for name in columns]
    return frame.selectExpr(*items)


def newest_rows(
    frame: DataFrame, keys: Sequence[str], by: Sequence[str], what: str, *, has_sequence: bool
) -> DataFrame:
    """Return one row of each group of equal values in `by`, the one with the greatest sequence.

    The rows come from `add_marks`; `by` are the `keys`, perhaps with the sequence. The query fails for null keys and
    sequences, and for several newest rows of a group, unless they have the same values or all delete the key. `what`
    describes the operation in the error message.
    """
    others = [field for field in frame.schema.fields if field.name not in (*by, SEQUENCE, DELETES)]
    values = ", ".join(_comparable(field) for field in others)
    content = f"struct({DELETES}" + (f", if({DELETES}, NULL, struct({values})))" if others else ")")
    group = f"PARTITION BY {', '.join(backquote(name) for name in by)} ORDER BY {SEQUENCE} DESC NULLS FIRST"
    ranked = frame.selectExpr("*", f"{content} AS __lakescan_content").selectExpr(
        "*",
        f"rank() OVER ({group}) AS __lakescan_rank",
        f"row_number() OVER ({group}) AS __lakescan_row",
        f"first(__lakescan_content) OVER ({group}) AS __lakescan_first",
    )
    key = f"to_json(struct({', '.join(backquote(name) for name in keys)}))"
    same = "have the same sequence" if has_sequence else "have the same key, and there is no sequence_by"
    no_key = _fail_condition(
        "null", what, "a row has no key: ", key, ". Null matches no row: filter such rows, or fill them"
    )
    no_order = _fail_condition(
        "null", what, "the row with ", key, " has no sequence (null): it has no place among the others"
    )
    doubt = _fail_condition(
        "ambiguous", what, "rows with ", key, f" {same}, and differ: which of them counts is not defined"
    )
    is_null = " OR ".join(f"{backquote(name)} IS NULL" for name in keys)
    kept = (
        f"CASE WHEN {is_null} THEN {no_key} "
        + (f"WHEN {SEQUENCE} IS NULL THEN {no_order} " if has_sequence else "")
        + f"WHEN __lakescan_rank > 1 THEN FALSE WHEN NOT (__lakescan_content <=> __lakescan_first) THEN {doubt} "
        "ELSE __lakescan_row = 1 END"
    )
    return ranked.where(kept).selectExpr(*(backquote(name) for name in frame.columns))


def _fail_condition(kind: str, what: str, before: str, key: str, after: str) -> str:
    """Return an SQL condition that fails its query with an error that `translate_row_errors` recognizes.

    `kind` selects the class of the error. Its message has `what`, the operation, and the SQL value `key` between the
    texts `before` and `after`.
    """
    return f"CAST({_raise_expression(kind, what, before, key, f'{after}. Nothing was changed')} AS BOOLEAN)"


def _raise_expression(kind: str, what: str, before: str, key: str, after: str) -> str:
    first, last = f"[lakescan {kind}] {what}: {before}", f"{after} [end]"
    return f"raise_error(concat({text_literal(first)}, {key}, {text_literal(last)}))"


def _comparable(field: s.StructField) -> str:
    """Return an SQL expression of a column whose values Spark can compare: maps and variants become JSON."""
    text = field.dataType.simpleString()
    name = backquote(field.name)
    if "map<" in text or "variant" in text:
        return f"to_json(struct({name}), map('ignoreNullFields', 'false')) AS {name}"
    return name


def _parenthesize(text: str) -> str:
    """Put SQL text of the user in parentheses; a line break before the last one ends a comment in the text."""
    return f"({text}\n)"


@contextmanager
def translate_row_errors() -> Iterator[None]:
    """Context manager: re-raise errors of queries that failed with a message of this module as errors of lakescan."""
    try:
        yield
    except Exception as error:
        found = _TOLD.search(str(error))
        if found is None:
            raise
        raise _ERRORS[found[1]](found[2]) from None
