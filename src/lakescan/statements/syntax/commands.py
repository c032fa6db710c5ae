"""Parse commands: CALL of Iceberg's procedures, and Delta's OPTIMIZE, VACUUM, RESTORE, CONVERT, GENERATE and REORG."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.errors import InvalidFilter, InvalidStatement, UnsupportedFeature
from lakescan.expressions.scalar.parse import escape_doubled_quotes
from lakescan.expressions.sql import literal_of
from lakescan.statements.syntax.layout import State, read_state
from lakescan.statements.syntax.namespaces import read_table_or_path
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.statements.syntax.token_reader import TokenReader
from lakescan.statements.syntax.types import read_type


@dataclass(frozen=True)
class ConstantExpression:
    """An expression without columns, such as `now() - INTERVAL 3 DAYS`, whose value the engine computes."""

    text: str


@dataclass(frozen=True)
class Call:
    """CALL catalog.system.procedure(...).

    - `name`: the parts of the procedure's name.
    - `positional`: the values of the positional arguments, which come before named ones.
    - `named`: the values of the named arguments, by name in lower case.

    A value may be a `ConstantExpression`.
    """

    name: tuple[str, ...]
    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Optimize:
    """OPTIMIZE table [FULL] [WHERE condition] [ZORDER BY (...)]. `zorder_by` has the names of the columns."""

    table: TableName
    where: Sql | None = None
    zorder_by: tuple[str, ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Vacuum:
    """VACUUM table [FULL | LITE] [USING INVENTORY ...] [RETAIN n HOURS] [DRY RUN].

    - `hours`: the hours of RETAIN; None for the table's retention.
    - `inventory`: the name of a table or a query, without parentheses, that lists the files.
    """

    table: TableName
    hours: float | None = None
    dry_run: bool = False
    lite: bool = False
    inventory: Sql | None = None


@dataclass(frozen=True)
class Restore:
    """RESTORE TABLE ... TO a version or a timestamp."""

    table: TableName
    state: State


@dataclass(frozen=True)
class Convert:
    """CONVERT TO DELTA parquet.`path` [NO STATISTICS] [PARTITIONED BY (...)].

    `partition_columns` have names and types. `statistics` is False with NO STATISTICS.
    """

    table: TableName
    partition_columns: tuple[t.Field, ...] = ()
    statistics: bool = True


@dataclass(frozen=True)
class Generate:
    """GENERATE mode FOR TABLE table. The only mode of Delta is `symlink_format_manifest`."""

    mode: str
    table: TableName


@dataclass(frozen=True)
class Refresh:
    """REFRESH TABLE."""

    table: TableName


@dataclass(frozen=True)
class Reorg:
    """REORG TABLE table [WHERE condition] APPLY (PURGE)."""

    table: TableName
    where: Sql | None = None


def read_call(words: TokenReader) -> Call:
    """Read the part of a statement after CALL: the procedure's name, and its positional and named arguments.

    Raises `InvalidStatement` for an argument that is not constant, a parameter that is set twice, or a positional
    argument after a named one.
    """
    name = words.names("the name of a procedure")
    opening = words.at
    words.needs_symbol("(")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    end = words.closing(opening)
    if end > words.at:
        for start, stop in words.split_items(words.at, end):
            words.at = start
            is_named = words.is_name(start) and start + 1 < stop and words.words[start + 1].text in ("=>", "=")
            if not is_named and named:
                raise words.error("positional arguments come before named arguments", start, stop - 1)
            if is_named:
                argument = words.name("the name of a parameter").lower()
                if argument in named:
                    raise words.error(f"the parameter {argument!r} is given twice", start)
                named[argument] = _argument(words, start + 2, stop)
            else:
                positional.append(_argument(words, start, stop))
    words.at = end + 1
    return Call(name, tuple(positional), named)


def _argument(words: TokenReader, start: int, end: int) -> Any:
    """Return the value of a constant, or a `ConstantExpression`; raises the errors of `constant`."""
    import sqlglot
    from sqlglot import exp

    try:
        return constant(words, start, end)
    except InvalidStatement as error:
        if isinstance(error.__cause__, InvalidFilter):
            text = words.with_literals(words.between(start, end, "a value")).text
            tree = sqlglot.parse_one(escape_doubled_quotes(text), dialect="spark")
            if not tree.find(exp.Column, exp.Query, exp.Placeholder, exp.AggFunc):
                return ConstantExpression(text)
        raise


def constant(words: TokenReader, start: int, end: int) -> Any:
    """Return the value of a constant: a literal, a parameter, `map(...)` or `array(...)`.

    The constant is the text from token `start` up to, not including, token `end`. Raises `InvalidStatement` for another
    expression, and for a parameter without a value.
    """
    import sqlglot
    from sqlglot import exp

    text = words.between(start, end, "a value").text
    try:
        tree = sqlglot.parse_one(escape_doubled_quotes(text), dialect="spark")
        return _value(tree, words.values)
    except (InvalidFilter, sqlglot.errors.SqlglotError) as error:
        raise words.error(f"{text} is not a constant", start, end - 1) from error
    except KeyError as error:
        parameter = next(iter(sqlglot.parse_one(text, dialect="spark").find_all(exp.Placeholder)), None)
        shown = text if parameter is None else parameter.sql("spark")
        raise words.error(f"the parameter {shown} has no value in args", start, end - 1) from error


def _value(node: Any, values: Mapping[str, Any]) -> Any:
    from sqlglot import exp

    match node:
        case exp.Placeholder():
            return values[node.name]
        case exp.Array():
            return [_value(each, values) for each in node.expressions]
        case exp.VarMap() | exp.Map():
            keys, of = node.args["keys"].expressions, node.args["values"].expressions
            return {_value(key, values): _value(value, values) for key, value in zip(keys, of, strict=True)}
        case exp.Anonymous() if node.name.upper() in ("MAP", "ARRAY"):
            found = [_value(each, values) for each in node.expressions]
            return found if node.name.upper() == "ARRAY" else dict(zip(found[::2], found[1::2], strict=True))
    return literal_of(node)


def read_optimize(words: TokenReader) -> Optimize:
    """Read the part of a statement after OPTIMIZE: `table [FULL] [WHERE condition] [ZORDER BY (...)]`."""
    table = read_table_or_path(words)
    full = words.takes("FULL")
    where = None
    if words.takes("WHERE"):
        where = words.with_literals(words.until(lambda n: words.spells(n, "ZORDER"), "the condition"))
    zorder: tuple[str, ...] = ()
    if words.takes("ZORDER", "BY"):
        zorder = words.listed_items(lambda: dotted_path(words.names("a column")))
    return Optimize(table, where, zorder, full)


def read_vacuum(words: TokenReader) -> Vacuum:
    """Read the part of a statement after VACUUM: `table [FULL | LITE]`, then USING INVENTORY, RETAIN and DRY RUN.

    The last three may come in any order.
    """
    table = read_table_or_path(words)
    lite = words.takes("LITE")
    if not lite:
        words.takes("FULL")
    hours, dry_run, inventory = None, False, None
    while not words.is_at_end:
        if inventory is None and words.takes("USING", "INVENTORY"):
            start = words.at
            if words.sees_symbol("("):
                words.at = words.behind(start)
                inventory = words.between(start + 1, words.at - 1, "a query")
            else:
                words.names("the name of a table")
                inventory = words.between(start, words.at, "the name of a table")
        elif hours is None and words.takes("RETAIN"):
            number = words.at
            if words.sees_parameter:
                hours = float(words.parameter("a number of hours", int, float))
                words.needs("HOURS")
                continue
            words.at += 1
            try:
                hours = float(words.words[number].text)
            except (ValueError, IndexError):
                raise words.error("expected a number of hours", number) from None
            words.needs("HOURS")
        elif not dry_run and words.takes("DRY", "RUN"):
            dry_run = True
        else:
            raise words.unexpected_word("USING INVENTORY", "RETAIN", "DRY RUN")
    return Vacuum(table, hours, dry_run, lite, inventory)


def read_restore(words: TokenReader) -> Restore:
    """Read the part of a statement after RESTORE: `[TABLE] table [TO] VERSION | TIMESTAMP AS OF ...`."""
    words.takes("TABLE")
    table = read_table_or_path(words)
    words.takes("TO")
    state = read_state(words)
    if state is None:
        raise words.unexpected_word("VERSION AS OF", "TIMESTAMP AS OF")
    return Restore(table, state)


def read_convert(words: TokenReader) -> Convert:
    """Read the part of a statement after CONVERT TO DELTA: a folder, NO STATISTICS and PARTITIONED BY.

    The folder is named ``parquet.`path` ``.
    """
    table = words.table_name("parquet.`path`")
    statistics = not words.takes("NO", "STATISTICS")

    def read() -> t.Field:
        return t.Field(0, words.name("the name of a column"), read_type(words))

    columns = tuple(words.items(read)) if words.takes("PARTITIONED", "BY") else ()
    return Convert(table, columns, statistics and not words.takes("NO", "STATISTICS"))


def read_generate(words: TokenReader) -> Generate:
    """Read the part of a statement after GENERATE: `mode FOR TABLE table`."""
    mode = words.name("symlink_format_manifest")
    words.needs("FOR", "TABLE")
    return Generate(mode, read_table_or_path(words))


def read_refresh(words: TokenReader) -> Refresh:
    """Read the part of a statement after REFRESH TABLE: a table's name or path."""
    return Refresh(read_table_or_path(words))


def read_reorg(words: TokenReader) -> Reorg:
    """Read the part of a statement after REORG TABLE: `table [WHERE condition] APPLY (PURGE)`.

    Raises `UnsupportedFeature` for APPLY (UPGRADE UNIFORM).
    """
    table = words.table_name("the name of a table")
    where = None
    if words.takes("WHERE"):
        where = words.with_literals(words.until(lambda n: words.spells(n, "APPLY"), "the condition"))
    words.needs("APPLY")
    words.needs_symbol("(")
    if words.sees("UPGRADE"):
        raise UnsupportedFeature("REORG TABLE ... APPLY (UPGRADE UNIFORM)", "UniForm metadata is not written.")
    words.needs("PURGE")
    words.needs_symbol(")")
    return Reorg(table, where)
