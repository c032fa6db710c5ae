"""Spark SQL statements that create, rename and drop tables and namespaces, parsed by sqlglot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.definition.table_definition import TableDefinition, Term, numbered, with_default
from lakescan.errors import InvalidFilter, InvalidOption, UnsupportedFeature, missing_dependency
from lakescan.expressions.quotes import with_escaped_quotes
from lakescan.expressions.sql import literal_of

if TYPE_CHECKING:
    from sqlglot import exp

_TYPES = {
    "BOOLEAN": t.BOOLEAN,
    "TINYINT": t.BYTE,
    "SMALLINT": t.SHORT,
    "INT": t.INT,
    "BIGINT": t.LONG,
    "FLOAT": t.FLOAT,
    "DOUBLE": t.DOUBLE,
    "DATE": t.DATE,
    "TEXT": t.STRING,
    "VARCHAR": t.STRING,
    "BINARY": t.BINARY,
    "UUID": t.UUID,
    "TIME": t.TIME,
    "VARIANT": t.VARIANT,
    "TIMESTAMP": t.Timestamp(),
    "TIMESTAMPTZ": t.Timestamp(),
    "TIMESTAMPLTZ": t.Timestamp(),
    "TIMESTAMPNTZ": t.Timestamp(zoned=False),
}


@dataclass(frozen=True)
class CreateTable:
    """`CREATE TABLE`; `query` is the SQL text of `AS SELECT`, which determines the columns if none are given."""

    name: tuple[str, ...]
    format: str
    definition: TableDefinition
    if_not_exists: bool = False
    replace: bool = False
    query: str | None = None


@dataclass(frozen=True)
class DropTable:
    """`DROP TABLE`."""

    name: tuple[str, ...]
    if_exists: bool = False
    purge: bool = False


@dataclass(frozen=True)
class RenameTable:
    """`ALTER TABLE ... RENAME TO`."""

    name: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class CreateNamespace:
    """`CREATE NAMESPACE`, or its synonyms `CREATE DATABASE` and `CREATE SCHEMA`."""

    name: tuple[str, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropNamespace:
    """`DROP NAMESPACE`."""

    name: tuple[str, ...]
    if_exists: bool = False


Statement = CreateTable | DropTable | RenameTable | CreateNamespace | DropNamespace


def parse_statement(text: str) -> Statement:
    """Parse a statement; raises `InvalidOption` for bad SQL, `UnsupportedFeature` for other statements."""
    try:
        import sqlglot
        from sqlglot import exp
    except ImportError as error:
        raise missing_dependency("sqlglot", "sql", "SQL statements") from error
    try:
        tree = sqlglot.parse_one(with_escaped_quotes(text), dialect="spark")
    except sqlglot.ParseError as error:
        raise InvalidOption(f"not a valid SQL statement: {error}") from error
    match tree:
        case exp.Create() if tree.kind == "TABLE":
            return _create_table(tree)
        case exp.Create() if tree.kind in ("SCHEMA", "DATABASE", "NAMESPACE"):
            return CreateNamespace(_name(tree.this), bool(tree.args.get("exists")))
        case exp.Drop() if tree.kind == "TABLE":
            return DropTable(_dropped(tree), bool(tree.args.get("exists")), bool(tree.args.get("purge")))
        case exp.Drop() if tree.kind in ("SCHEMA", "DATABASE", "NAMESPACE"):
            return DropNamespace(_dropped(tree), bool(tree.args.get("exists")))
        case exp.Alter() if isinstance(tree.args["actions"][0], exp.AlterRename):
            return RenameTable(_name(tree.this), _name(tree.args["actions"][0].this))
    raise UnsupportedFeature(
        f"the statement {' '.join(text.split())[:60]!r}",
        "CREATE, DROP and RENAME of tables and CREATE and DROP of namespaces are supported; queries are run by "
        "lakescan.sql.",
    )


def parse_columns(text: str) -> tuple[tuple[t.Field, ...], tuple[str, ...]]:
    """Parse columns and primary key from the text inside the parentheses of `CREATE TABLE`."""
    statement = parse_statement(f"CREATE TABLE t ({text})")
    assert isinstance(statement, CreateTable)
    return statement.definition.columns, statement.definition.primary_key


def _create_table(tree: exp.Create) -> CreateTable:
    from sqlglot import exp

    elements = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    columns = [each for each in elements if isinstance(each, exp.ColumnDef)]
    keys = [tuple(map(_reference, each.expressions)) for each in elements if isinstance(each, exp.PrimaryKey)]
    keys += [(dotted_path([each.name]),) for each in columns if _constraint(each, exp.PrimaryKeyColumnConstraint)]
    if others := [each for each in elements if not isinstance(each, (exp.ColumnDef, exp.PrimaryKey))]:
        raise UnsupportedFeature(f"{others[0].sql('spark')!r} in CREATE TABLE")
    if len(keys) > 1:
        raise InvalidOption("CREATE TABLE has two primary keys")
    clauses = _TableClauses.of(tree.args.get("properties"))
    query = tree.expression
    definition = TableDefinition(
        columns=numbered(map(_column, columns)),
        primary_key=keys[0] if keys else (),
        partition_by=clauses.partition_by,
        sort_by=(),
        properties=clauses.properties,
        location=clauses.location,
        comment=clauses.comment,
    )
    return CreateTable(
        _name(tree.this),
        clauses.format,
        definition,
        if_not_exists=bool(tree.args.get("exists")),
        replace=bool(tree.args.get("replace")),
        query=None if query is None else query.sql("spark"),
    )


@dataclass
class _TableClauses:
    """The clauses after the columns: USING, PARTITIONED BY, LOCATION, COMMENT and TBLPROPERTIES."""

    format: str = "iceberg"
    partition_by: tuple[Term, ...] = ()
    location: str | None = None
    comment: str | None = None

    def __post_init__(self) -> None:
        self.properties: dict[str, str] = {}

    @staticmethod
    def of(node: exp.Properties | None) -> _TableClauses:
        from sqlglot import exp

        clauses = _TableClauses()
        for each in node.expressions if node is not None else ():
            match each:
                case exp.FileFormatProperty():
                    clauses.format = each.this.name.lower()
                case exp.PartitionedByProperty():
                    clauses.partition_by = tuple(map(_term, each.this.expressions))
                case exp.LocationProperty():
                    clauses.location = each.name
                case exp.SchemaCommentProperty():
                    clauses.comment = each.name
                case exp.Property() if type(each) is exp.Property:
                    clauses.properties[each.name] = each.args["value"].name
                case _:
                    raise UnsupportedFeature(f"{each.sql('spark')!r} in CREATE TABLE")
        return clauses


def _column(node: exp.ColumnDef) -> t.Field:
    from sqlglot import exp

    for each in node.args.get("constraints") or ():
        if not isinstance(each.kind, _known_constraints()):
            raise UnsupportedFeature(f"{each.sql('spark')!r} of the column {node.name!r} in CREATE TABLE")
    comment = _constraint(node, exp.CommentColumnConstraint)
    not_null = _constraint(node, exp.NotNullColumnConstraint)
    required = not_null is not None and not not_null.args.get("allow_null")
    required |= _constraint(node, exp.PrimaryKeyColumnConstraint) is not None
    doc = None if comment is None else comment.name
    column = t.Field(0, node.name, _type(node.args["kind"]), required, doc)
    default = _constraint(node, exp.DefaultColumnConstraint)
    return column if default is None else with_default(column, _default(node.name, default.this))


def _default(column: str, node: exp.Expression) -> Any:
    try:
        return literal_of(node)
    except InvalidFilter as error:
        raise InvalidOption(
            f"the default of column {column!r}, {node.sql('spark')}, is not a literal: expressions are not supported"
        ) from error


def _type(node: exp.DataType) -> t.Type:
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    if name == "STRUCT":
        return t.Struct(tuple(map(_column, node.expressions)))
    if name in ("ARRAY", "LIST"):
        return t.ListOf(t.Field(0, "element", _type(node.expressions[0])))
    if name == "MAP":
        key, value = map(_type, node.expressions)
        return t.MapOf(t.Field(0, "key", key, required=True), t.Field(0, "value", value))
    if name == "DECIMAL":
        precision, scale = [*(int(each.name) for each in node.expressions), 0][:2] if node.expressions else (10, 0)
        return t.Decimal(precision, scale)
    if name in _TYPES:
        return _TYPES[name]
    raise UnsupportedFeature(f"column type {node.sql('spark')}")


def _known_constraints() -> tuple[type, ...]:
    from sqlglot import exp

    return (
        exp.CommentColumnConstraint,
        exp.NotNullColumnConstraint,
        exp.PrimaryKeyColumnConstraint,
        exp.DefaultColumnConstraint,
    )


def _constraint(node: exp.ColumnDef, kind: Any) -> Any:
    return next((each.kind for each in node.args.get("constraints") or () if isinstance(each.kind, kind)), None)


def _term(node: exp.Expression) -> Term:
    from sqlglot import exp

    if isinstance(node, (exp.Identifier, exp.Column, exp.Dot)):
        return Term(_reference(node))
    if isinstance(node, exp.ColumnDef):
        raise UnsupportedFeature("column definitions in PARTITIONED BY", "Define the columns in the column list.")
    return Term.parse(node.sql("spark"))


def _reference(node: exp.Expression) -> str:
    """The reference to a column, or to a member of a struct."""
    return dotted_path(part.name for part in getattr(node, "parts", (node,)))


def _name(node: exp.Expression) -> tuple[str, ...]:
    from sqlglot import exp

    table = node.this if isinstance(node, exp.Schema) else node
    return tuple(part.name for part in table.parts)


def _dropped(node: exp.Drop) -> tuple[str, ...]:
    tables = node.args.get("tables")
    return _name(tables[0] if tables else node.this)
