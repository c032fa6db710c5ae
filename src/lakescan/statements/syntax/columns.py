"""Definitions of columns in SQL, as CREATE TABLE and ADD COLUMNS have them."""

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

# What may follow the type of a column: an expression ends before it.
_REFUSED = ("CHECK", "UNIQUE", "REFERENCES", "CONSTRAINT", "COLLATE", "MASK", "METADATA", "AUTO_INCREMENT")
_UNIQUE = "Only PRIMARY KEY (...) NOT ENFORCED is recorded, in Iceberg tables."
_COMPUTED = "Delta tables have GENERATED ALWAYS AS (...). Else compute the column in queries, or in a view."
NO_RULE = NewColumnRule()
_CLAUSES = ("NOT", "NULL", "DEFAULT", "COMMENT", "PRIMARY", "GENERATED", "FIRST", "AFTER", *_REFUSED)


@dataclass(frozen=True)
class ColumnText:
    """A column as a statement defines it. `rule` is what it says beside the type, the default apart."""

    column: t.Field
    default: Default | None = None
    is_key: bool = False
    rule: NewColumnRule = NO_RULE

    @property
    def name(self) -> str:
        """Its name."""
        return self.column.name


@dataclass(frozen=True)
class ColumnsText:
    """Columns, the names of those that identify a row, and by their names the defaults and rules of columns.

    `constraints` are SQL conditions by their names.
    """

    columns: tuple[t.Field, ...]
    key: tuple[str, ...] = ()
    defaults: Mapping[str, Default] = field(default_factory=dict)
    rules: Mapping[str, NewColumnRule] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)


NO_COLUMNS = ColumnsText(())  # of a statement that has none


def parse_columns(text: str, *, of_new_table: bool = False) -> ColumnsText:
    """Columns and the primary key from the text inside the parentheses of CREATE TABLE.

    Only those `of_new_table` may be generated or have expressions as defaults.

    Raises `InvalidStatement` for text that cannot be read, `UnsupportedFeature` for what tables do not have.

    Example:
        >>> parse_columns("id BIGINT NOT NULL, at TIMESTAMP COMMENT 'when', PRIMARY KEY (id)").key
        ('id',)
    """
    words = TokenReader(text)
    found = read_columns(words, None, of_new_table=of_new_table)
    words.ends("','")
    return found


def read_columns(words: TokenReader, closing: str | None = ")", *, of_new_table: bool = False) -> ColumnsText:
    """Read columns, keys and constraints, in parentheses unless `closing` is None; see `parse_columns`."""
    if closing is not None:
        words.needs_symbol("(")
    columns: list[ColumnText] = []
    keys: list[tuple[str, ...]] = []
    constraints: dict[str, str] = {}
    while True:
        if _sees_check(words):
            at, (name, condition) = words.at, _table_check(words)
            if not of_new_table or name.lower() in map(str.lower, constraints):
                raise words.error(f"the constraint {name!r} is there twice, or not of a new table", at)
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
    """Read a column: its name, its type, and NOT NULL, DEFAULT, COMMENT, PRIMARY KEY, GENERATED in any order."""
    name, texts = words.name("the name of a column"), list[str]()
    kind = read_type(words, texts)
    found = read_clauses(words, name, kind, of_new_table=of_new_table)
    if all(each == "string" for each in texts):
        return found
    return replace(found, rule=replace(found.rule, lengths=spark_text(kind, iter(texts))))


def read_clauses(words: TokenReader, name: str, kind: t.Type, *, of_new_table: bool = False) -> ColumnText:
    """Read what follows the type of a column, in any order."""
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
                raise UnsupportedFeature(f"GENERATED of the column {name!r} of a table that is there")
            found = replace(found, rule=_read_generation(words))
        elif words.sees("UNIQUE"):
            raise UnsupportedFeature(f"UNIQUE of the column {name!r} in CREATE TABLE", _UNIQUE)
        elif any(words.sees(each) for each in _REFUSED):
            raise UnsupportedFeature(f"{words.words[words.at].text.upper()} of the column {name!r} in CREATE TABLE")
        else:
            break
    return found


def _read_generation(words: TokenReader) -> NewColumnRule:
    """ALWAYS AS (expression), or {ALWAYS | BY DEFAULT} AS IDENTITY with START WITH and INCREMENT BY."""
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
    """Raise `UnsupportedFeature` for clauses of Flink and others between columns, which tables do not record."""
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
    """Whether CONSTRAINT, a name and the constraint are next, rather than a column that is named `constraint`."""
    kinds = ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "NOT")
    return words.sees("CONSTRAINT") and any(words.spells(words.at + 2, kind) for kind in kinds)


def _sees_check(words: TokenReader) -> bool:
    """Whether CONSTRAINT name CHECK (...) is next."""
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
    """Read the expression of a default; its value is known if it is a literal."""
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
    """The value of a default; raises `InvalidOption` for an expression."""
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
    """PRIMARY KEY (a, b) [NOT ENFORCED], with or without CONSTRAINT and a name."""
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
    """NOT ENFORCED, which is what all keys are; raises `UnsupportedFeature` for ENFORCED."""
    if words.takes("NOT", "ENFORCED"):
        words.takes("RELY")
        words.takes("NORELY")
    elif words.sees("ENFORCED"):
        raise UnsupportedFeature("an enforced primary key", "Writers do not check keys: say NOT ENFORCED.")


def _require_key(column: t.Field, key: tuple[str, ...]) -> t.Field:
    """A column of the key is required, as in the standard."""
    return replace(column, required=True) if dotted_path([column.name]) in key else column
