"""Parse column definitions, as in CREATE TABLE and ADD COLUMNS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.definition.table_changes import Default
from lakescan.definition.table_definition import IdentityColumn, NewColumnRule, assign_ids, set_default
from lakescan.errors import InvalidFilter, InvalidOption, UnsupportedFeature
from lakescan.expressions.scalar.parse import escape_doubled_quotes
from lakescan.expressions.sql import literal_of
from lakescan.statements.syntax.token_reader import TokenReader
from lakescan.statements.syntax.types import read_type, spark_text

# Keywords that may follow the type of a column. The expression of a default ends before them.
_REFUSED = ("CHECK", "UNIQUE", "REFERENCES", "CONSTRAINT", "COLLATE", "MASK", "METADATA", "AUTO_INCREMENT")
_UNIQUE = "Only PRIMARY KEY (...) NOT ENFORCED is recorded, in Iceberg tables."
_COMPUTED = "In Delta tables, use GENERATED ALWAYS AS (...). Otherwise compute the column in queries or in a view."
NO_RULE = NewColumnRule()
_CLAUSES = ("NOT", "NULL", "DEFAULT", "COMMENT", "PRIMARY", "GENERATED", "FIRST", "AFTER", *_REFUSED)


@dataclass(frozen=True)
class ColumnText:
    """The definition of one column in a statement.

    - `column`: its name, type, nullability, comment and, in `ColumnsText`, literal default.
    - `default`: the DEFAULT, if any. `is_key`: whether PRIMARY KEY is set.
    - `rule`: the other parts of the definition, such as GENERATED and the lengths of VARCHAR(n).
    """

    column: t.Field
    default: Default | None = None
    is_key: bool = False
    rule: NewColumnRule = NO_RULE

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.column.name


@dataclass(frozen=True)
class ColumnsText:
    """The column list of a statement.

    - `key`: the names of the primary key's columns; empty without one.
    - `defaults`, `rules`: defaults and other parts of the definitions (GENERATED, VARCHAR(n)), by column name.
    - `constraints`: SQL conditions of CHECK, by constraint name.
    """

    columns: tuple[t.Field, ...]
    key: tuple[str, ...] = ()
    defaults: Mapping[str, Default] = field(default_factory=dict)
    rules: Mapping[str, NewColumnRule] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)


NO_COLUMNS = ColumnsText(())  # for a statement without a column list


def parse_columns(text: str, *, of_new_table: bool = False) -> ColumnsText:
    """Parse the text inside the parentheses of CREATE TABLE: columns, primary key and constraints.

    Generated columns, and defaults that are expressions, are accepted only with `of_new_table`.

    Raises `InvalidStatement` for text that cannot be parsed, `UnsupportedFeature` for clauses that tables cannot
    record.

    Example:
        >>> parse_columns("id BIGINT NOT NULL, at TIMESTAMP COMMENT 'when', PRIMARY KEY (id)").key
        ('id',)
    """
    words = TokenReader(text)
    found = read_columns(words, None, of_new_table=of_new_table)
    words.ends("','")
    return found


def read_columns(words: TokenReader, closing: str | None = ")", *, of_new_table: bool = False) -> ColumnsText:
    """Read columns, keys and constraints, in parentheses unless `closing` is None. See `parse_columns`.

    Raises `InvalidStatement` for two primary keys, and for a CHECK constraint unless `of_new_table`.
    """
    if closing is not None:
        words.needs_symbol("(")
    columns: list[ColumnText] = []
    keys: list[tuple[str, ...]] = []
    constraints: dict[str, str] = {}
    while True:
        if _sees_check(words):
            at, (name, condition) = words.at, _table_check(words)
            if not of_new_table or name.lower() in map(str.lower, constraints):
                raise words.error(f"the constraint {name!r} occurs twice, or the table is not new", at)
            constraints[name] = condition
        elif words.sees("PRIMARY", "KEY") or _sees_constraint(words):
            keys.append(_table_key(words))
        else:
            _refuse_flink(words)
            columns.append(read_column(words, of_new_table=of_new_table))
            if columns[-1].is_key:
                keys.append((dotted_path([columns[-1].name]),))
        if not words.takes_symbol(","):
            break
    if closing is not None:
        words.needs_symbol(closing)
    if len(keys) > 1:
        raise words.error("the table has two primary keys", words.at - 1)
    key = keys[0] if keys else ()
    fields = [_apply_default(each, of_new_table=of_new_table) for each in columns]
    defaults = {each.name: each.default for each in columns if each.default is not None}
    rules = {
        each.name: replace(each.rule, default=None if each.default is None else each.default.text) for each in columns
    }
    found = {name: rule for name, rule in rules.items() if rule != NO_RULE}
    return ColumnsText(assign_ids(_require_key(each, key) for each in fields), key, defaults, found, constraints)


def read_column(words: TokenReader, *, of_new_table: bool = False) -> ColumnText:
    """Read a column: name, type, and NOT NULL, DEFAULT, COMMENT, PRIMARY KEY and GENERATED in any order.

    Raises `UnsupportedFeature` for other clauses, and for GENERATED unless `of_new_table`.
    """
    name, texts = words.name("the name of a column"), list[str]()
    kind = read_type(words, texts)
    found = read_clauses(words, name, kind, of_new_table=of_new_table)
    if all(each == "string" for each in texts):
        return found
    return replace(found, rule=replace(found.rule, lengths=spark_text(kind, iter(texts))))


def read_clauses(words: TokenReader, name: str, kind: t.Type, *, of_new_table: bool = False) -> ColumnText:
    """Read the clauses after the type `kind` of the column `name`, in any order, up to the first other word.

    Raises `UnsupportedFeature` for clauses that tables cannot record, and for GENERATED unless `of_new_table`.
    """
    found = ColumnText(t.Field(0, name, kind))
    while not words.is_at_end:
        if words.takes("NOT", "NULL"):
            found = replace(found, column=replace(found.column, required=True))
        elif words.takes("NULL"):
            pass
        elif words.takes("COMMENT"):
            found = replace(found, column=replace(found.column, doc=words.text_literal("the comment")))
        elif words.takes("DEFAULT"):
            found = replace(found, default=read_default(words))
        elif words.takes("PRIMARY", "KEY"):
            _take_enforced(words)
            found = replace(found, is_key=True, column=replace(found.column, required=True))
        elif words.takes("GENERATED"):
            if not of_new_table:
                raise UnsupportedFeature(f"GENERATED of the column {name!r} of an existing table")
            found = replace(found, rule=_read_generation(words))
        elif words.sees("UNIQUE"):
            raise UnsupportedFeature(f"UNIQUE of the column {name!r} in CREATE TABLE", _UNIQUE)
        elif any(words.sees(each) for each in _REFUSED):
            raise UnsupportedFeature(f"{words.words[words.at].text.upper()} of the column {name!r} in CREATE TABLE")
        else:
            break
    return found


def _read_generation(words: TokenReader) -> NewColumnRule:
    """Read the part after GENERATED: `ALWAYS AS (expression)`, or `{ALWAYS | BY DEFAULT} AS IDENTITY [(...)]`.

    The options of IDENTITY are `START WITH n` and `INCREMENT BY n`, both 1 by default.
    """
    is_always = words.takes("ALWAYS")
    if not is_always:
        words.needs("BY", "DEFAULT")
    words.needs("AS")
    if is_always and words.sees_symbol("("):
        closing = words.closing(words.at)
        text = words.with_literals(words.between(words.at + 1, closing, "the expression")).text
        words.at = closing + 1
        return NewColumnRule(generated=text)
    words.needs("IDENTITY")
    start, step = 1, 1
    if words.takes_symbol("("):
        while not words.takes_symbol(")"):
            if words.takes("START"):
                words.takes("WITH")
                start = _read_integer(words, "the first value")
            else:
                words.needs("INCREMENT")
                words.takes("BY")
                step = _read_integer(words, "the step")
            words.takes_symbol(",")
    return NewColumnRule(identity=IdentityColumn(start, step, allows_values=not is_always))


def _read_integer(words: TokenReader, what: str) -> int:
    is_negative = words.takes_symbol("-")
    number = words.integer(what)
    return -number if is_negative else number


def _refuse_flink(words: TokenReader) -> None:
    """Raise `UnsupportedFeature` if a clause of Flink, or a constraint that tables do not record, comes next."""
    if words.sees("WATERMARK", "FOR"):
        raise UnsupportedFeature(
            "WATERMARK FOR in CREATE TABLE",
            "Iceberg's and Delta's tables record no watermarks: declare it in the streaming query.",
        )
    opens = words.at + 1 < len(words.words) and words.words[words.at + 1].text == "("
    if words.sees("UNIQUE") and opens:
        raise UnsupportedFeature("a UNIQUE constraint in CREATE TABLE", _UNIQUE)
    if words.sees("FOREIGN", "KEY"):
        raise UnsupportedFeature("a FOREIGN KEY in CREATE TABLE")
    if words.sees("CHECK") and opens:
        raise UnsupportedFeature("a CHECK without a name in CREATE TABLE", "Write CONSTRAINT name CHECK (condition).")
    for kind in ("PERIOD", "INDEX"):
        if words.sees(kind) and opens:
            raise UnsupportedFeature(f"{kind} in CREATE TABLE")
    if words.is_name(words.at) and words.spells(words.at + 1, "AS"):
        raise UnsupportedFeature(f"the computed column {words.name('a column')!r} in CREATE TABLE", _COMPUTED)


def _sees_constraint(words: TokenReader) -> bool:
    """Return whether a CONSTRAINT clause comes next, rather than a column named `constraint`."""
    kinds = ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "NOT")
    return words.sees("CONSTRAINT") and any(words.spells(words.at + 2, kind) for kind in kinds)


def _sees_check(words: TokenReader) -> bool:
    """Return whether `CONSTRAINT name CHECK` comes next."""
    return words.sees("CONSTRAINT") and words.spells(words.at + 2, "CHECK")


def _table_check(words: TokenReader) -> tuple[str, str]:
    words.needs("CONSTRAINT")
    name = words.name("the name of the constraint")
    words.needs("CHECK")
    opening = words.at
    words.needs_symbol("(")
    closing = words.closing(opening)
    text = words.with_literals(words.between(opening + 1, closing, "the condition")).text
    words.at = closing + 1
    words.takes("ENFORCED")
    return name, text


def read_default(words: TokenReader) -> Default:
    """Read the expression of a default, up to a comma, a closing parenthesis or the next clause of the column.

    `Default.value` is set only if the expression is a literal.
    """
    first = words.at

    def ends(n: int) -> bool:
        is_sign = words.words[n].token_type.name in ("COMMA", "R_PAREN")
        return is_sign or (n > first and any(words.spells(n, each) for each in _CLAUSES))

    text = words.with_literals(words.until(ends, "the default")).text
    import sqlglot

    try:
        return Default(text, literal_of(sqlglot.parse_one(escape_doubled_quotes(text), dialect="spark")))
    except (InvalidFilter, sqlglot.errors.SqlglotError):
        return Default(text, None, is_literal=False)


def literal_default(name: str, default: Default) -> Any:
    """Return the value of a column's default; raises `InvalidOption` if the default is not a literal."""
    if not default.is_literal:
        raise InvalidOption(
            f"the default of column {name!r}, {default.text}, is not a literal: expressions are not supported"
        )
    return default.value


def _apply_default(column: ColumnText, *, of_new_table: bool) -> t.Field:
    if column.default is None or (of_new_table and not column.default.is_literal):
        return column.column
    return set_default(column.column, literal_default(column.name, column.default))


def _table_key(words: TokenReader) -> tuple[str, ...]:
    """Read `[CONSTRAINT name] PRIMARY KEY (a, b) [NOT ENFORCED]`, and return the names of the columns.

    Raises `UnsupportedFeature` for UNIQUE, other constraints, and ENFORCED.
    """
    if words.takes("CONSTRAINT"):
        words.name("the name of the constraint")
        if words.sees("UNIQUE"):
            raise UnsupportedFeature("a UNIQUE constraint in CREATE TABLE", _UNIQUE)
        if not words.sees("PRIMARY", "KEY"):
            raise UnsupportedFeature("a constraint other than PRIMARY KEY and CHECK")
    words.needs("PRIMARY", "KEY")
    found = tuple(words.items(lambda: dotted_path(words.names("a column"))))
    _take_enforced(words)
    return found


def _take_enforced(words: TokenReader) -> None:
    """Read NOT ENFORCED if it comes next; raises `UnsupportedFeature` for ENFORCED, because keys are not checked."""
    if words.takes("NOT", "ENFORCED"):
        words.takes("RELY")
        words.takes("NORELY")
    elif words.sees("ENFORCED"):
        raise UnsupportedFeature("an enforced primary key", "Writers do not check keys. Write NOT ENFORCED.")


def _require_key(column: t.Field, key: tuple[str, ...]) -> t.Field:
    """Return the column, required (NOT NULL) if it is part of the key, as in the SQL standard."""
    return replace(column, required=True) if dotted_path([column.name]) in key else column
