"""Rows with keys and a sequence: what columns of a stream are for, and the newest row of each key.

All of it is Spark's SQL over the stream's rows, so that a batch is one query. What is wrong with rows fails that query,
with a message of this module's, which `told` makes an error of lakescan's again.
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
# Columns that streams of changes have beside those of their tables.
OF_CHANGES = frozenset(
    each.name.lower() for each in (CHANGE, CHANGE_ORDINAL, COMMIT_SNAPSHOT, COMMIT_TIMESTAMP, COMMIT_VERSION)
) | {CHANGE_SEQUENCE}
_NAMED = re.compile(r"(?s)(.+?)\s+as\s+(`(?:[^`]|``)+`|\w+)\s*", re.IGNORECASE)
_TOLD = re.compile(r"(?s)\[lakescan (\w+)\] (.*?) \[end\]")
_ERRORS = {"ambiguous": AmbiguousMerge, "null": SchemaMismatch, "changed": SchemaMismatch}


@dataclass(frozen=True)
class SequenceBy:
    """What orders the rows of a key: `text` is SQL over the source; `column` the table's column that keeps its value.

    Without a column, rows of one batch are compared alone.
    """

    text: str
    column: str | None

    @staticmethod
    def parse(text: str, source: Sequence[str], table: Sequence[str], *, in_order: bool) -> SequenceBy:
        """Parse `sequence_by`: a column, `expression AS column`, or with `in_order` any expression.

        Raises `InvalidOption` if the table has no column that keeps the sequence.
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
                f"sequence_by={text!r}: the table has no {wanted} that keeps the sequence, and later batches could not "
                "tell which rows are late. Add such a column to the table; or, for batches that come in order, such as "
                "changes of a table, set in_order=True"
            )
        return SequenceBy(sql, column)


def drop_before_images(frame: DataFrame) -> DataFrame:
    """The rows of a stream of changes without images before updates; see `lakescan.spark.change_rows`."""
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
    """The columns, in lower case, that SQL expressions may name."""
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
    """The columns of a source that the table takes.

    Columns that only expressions use are left out, as are those that describe changes. Raises `SchemaMismatch` for
    others that the table lacks, unless these are added.
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
    """The columns of a source that are keys of the table; raises `NoSuchColumn`."""
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
    """The columns, with the value of the sequence (`SEQUENCE`), and whether a row deletes its key (`DELETES`)."""
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
    """The rows with keys as the table stores them; the query fails for keys that would be stored as other values."""
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
    """One row for each group of `by`: the one with the greatest sequence, among those of `with_marks`.

    The query fails for null keys and sequences, and for several rows that may be the one, unless they say the same: the
    same values, or that the key is deleted.
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
    """A condition that fails its query with an error of a kind."""
    return f"CAST({_raise_expression(kind, what, before, key, f'{after}. Nothing was changed')} AS BOOLEAN)"


def _raise_expression(kind: str, what: str, before: str, key: str, after: str) -> str:
    first, last = f"[lakescan {kind}] {what}: {before}", f"{after} [end]"
    return f"raise_error(concat({text_literal(first)}, {key}, {text_literal(last)}))"


def _comparable(field: s.StructField) -> str:
    """A column as Spark can compare it: maps and variants as JSON."""
    text = field.dataType.simpleString()
    name = backquote(field.name)
    if "map<" in text or "variant" in text:
        return f"to_json(struct({name}), map('ignoreNullFields', 'false')) AS {name}"
    return name


def _parenthesize(text: str) -> str:
    """A part of the user's text, which may end in a comment."""
    return f"({text}\n)"


@contextmanager
def translate_row_errors() -> Iterator[None]:
    """Raise lakescan's errors for queries that failed with a message of `newest`."""
    try:
        yield
    except Exception as error:
        found = _TOLD.search(str(error))
        if found is None:
            raise
        raise _ERRORS[found[1]](found[2]) from None
