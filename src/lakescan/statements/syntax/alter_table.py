"""Parse ALTER TABLE: the forms of Spark, of Iceberg's SQL extensions and of Delta."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakescan.common.references import dotted_path
from lakescan.definition.table_changes import (
    FIRST,
    KEPT,
    AddColumn,
    AddConstraint,
    AddPartition,
    ChangeColumn,
    ColumnPosition,
    DropColumn,
    DropConstraint,
    DropFeature,
    DropKey,
    DropPartition,
    KeepCurrent,
    Path,
    RenameColumn,
    ReplaceColumns,
    ReplacePartition,
    SetClustering,
    SetKey,
    SetLocation,
    SetOrder,
    SetProperties,
    TableChange,
    UnsetProperties,
)
from lakescan.definition.table_definition import Term
from lakescan.errors import UnsupportedFeature
from lakescan.statements.syntax.columns import read_clauses, read_columns, read_default
from lakescan.statements.syntax.layout import (
    property_name,
    read_milliseconds,
    read_order,
    read_properties,
    read_term,
    read_version,
)
from lakescan.statements.syntax.text import TableName
from lakescan.statements.syntax.token_reader import Form, TokenReader, match_form
from lakescan.statements.syntax.types import read_type

NO_TABLE = TableName(())  # a placeholder, replaced in `read_alter_table`


@dataclass(frozen=True)
class CreateRef:
    """CREATE or REPLACE of a branch or a tag.

    - `kind`: 'branch' or 'tag'.
    - `version`: the snapshot id, or the name of a branch or tag, that it refers to; None for the current snapshot.
    - `creates`: whether it may be new. `replaces`: whether it may replace an existing one.
    - `max_ref_age_ms` (RETAIN), `min_snapshots_to_keep` and `max_snapshot_age_ms`: the retention, in milliseconds.
    """

    table: TableName
    kind: str
    name: str
    version: int | str | None = None
    creates: bool = True
    replaces: bool = False
    if_not_exists: bool = False
    max_ref_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None


@dataclass(frozen=True)
class DropRef:
    """DROP BRANCH or DROP TAG. `kind` is 'branch' or 'tag'."""

    table: TableName
    kind: str
    name: str
    if_exists: bool = False


def _create_ref(words: TokenReader, kind: str, *, creates: bool, replaces: bool) -> CreateRef:
    if_not_exists = words.takes("IF", "NOT", "EXISTS")
    if if_not_exists and replaces:
        raise words.error("REPLACE and IF NOT EXISTS exclude each other", words.at - 1)
    name = words.name(f"the name of the {kind}")
    version = read_version(words) if words.takes("AS", "OF", "VERSION") else None
    age = read_milliseconds(words) if words.takes("RETAIN") else None
    least, snapshot_age = None, None
    if kind == "branch" and words.takes("WITH", "SNAPSHOT", "RETENTION"):
        behind = words.at + (2 if words.sees_parameter else 1)
        if words.spells(behind, "SNAPSHOTS"):
            least = words.integer("a number of snapshots")
            words.needs("SNAPSHOTS")
        if least is None or not words.is_at_end:
            snapshot_age = read_milliseconds(words)
    return CreateRef(NO_TABLE, kind, name, version, creates, replaces, if_not_exists, age, least, snapshot_age)


def _drop_ref(words: TokenReader, kind: str) -> DropRef:
    if_exists = words.takes("IF", "EXISTS")
    return DropRef(NO_TABLE, kind, words.name(f"the name of the {kind}"), if_exists)


_RETAIN = "[AS OF VERSION n] [RETAIN n DAYS]"
REF_FORMS: tuple[Form, ...] = (
    Form(
        "CREATE BRANCH",
        f"[IF NOT EXISTS] name {_RETAIN} [WITH SNAPSHOT RETENTION [n SNAPSHOTS] [n DAYS]]",
        "CREATE BRANCH audit AS OF VERSION 5 RETAIN 7 DAYS",
        lambda words: _create_ref(words, "branch", creates=True, replaces=False),
    ),
    Form(
        "CREATE OR REPLACE BRANCH",
        f"name {_RETAIN} [WITH SNAPSHOT RETENTION ...]",
        "CREATE OR REPLACE BRANCH audit",
        lambda words: _create_ref(words, "branch", creates=True, replaces=True),
    ),
    Form(
        "REPLACE BRANCH",
        f"name {_RETAIN} [WITH SNAPSHOT RETENTION ...]",
        "REPLACE BRANCH audit AS OF VERSION 7",
        lambda words: _create_ref(words, "branch", creates=False, replaces=True),
    ),
    Form("DROP BRANCH", "[IF EXISTS] name", "DROP BRANCH audit", lambda words: _drop_ref(words, "branch")),
    Form(
        "CREATE TAG",
        f"[IF NOT EXISTS] name {_RETAIN}",
        "CREATE TAG `EOY-2026` AS OF VERSION 5 RETAIN 365 DAYS",
        lambda words: _create_ref(words, "tag", creates=True, replaces=False),
    ),
    Form(
        "CREATE OR REPLACE TAG",
        f"name {_RETAIN}",
        "CREATE OR REPLACE TAG checked",
        lambda words: _create_ref(words, "tag", creates=True, replaces=True),
    ),
    Form(
        "REPLACE TAG",
        f"name {_RETAIN}",
        "REPLACE TAG checked AS OF VERSION 7",
        lambda words: _create_ref(words, "tag", creates=False, replaces=True),
    ),
    Form("DROP TAG", "[IF EXISTS] name", "DROP TAG checked", lambda words: _drop_ref(words, "tag")),
)


Changes = tuple[TableChange, ...]


@dataclass(frozen=True)
class AlterTable:
    """Changes to a table's columns, layout or properties, made in one commit."""

    table: TableName
    changes: Changes


@dataclass(frozen=True)
class RenameTable:
    """ALTER TABLE ... RENAME TO. `new` is the new name."""

    table: TableName
    new: TableName


AlterStatement = AlterTable | RenameTable | CreateRef | DropRef


def read_alter_table(words: TokenReader) -> AlterStatement:
    """Read the part of a statement after ALTER TABLE: the table's name and one action.

    Raises `InvalidStatement` for an unknown action, and `UnsupportedFeature` for one that lakescan does not run.
    """
    table = words.table_name("the name of a table")
    form = match_form(words, (*ACTIONS, *REFUSED))
    found = form.read(words)
    if isinstance(found, RenameTable | CreateRef | DropRef):
        return replace(found, table=table)
    return AlterTable(table, found)


def _path(words: TokenReader) -> Path:
    return words.names("the name of a column")


def _place(words: TokenReader) -> ColumnPosition | None:
    if words.takes("FIRST"):
        return FIRST
    return ColumnPosition(words.name("the name of a column")) if words.takes("AFTER") else None


def _add_columns(words: TokenReader) -> Changes:
    if_not_exists = words.takes("IF", "NOT", "EXISTS")

    def read() -> AddColumn:
        at, path = words.at, _path(words)
        found = read_clauses(words, path[-1], read_type(words))
        if found.is_key:
            raise words.error("a column cannot be added as PRIMARY KEY: use SET IDENTIFIER FIELDS", at, words.at - 1)
        return AddColumn(path[:-1], found.column, found.default, _place(words), if_not_exists)

    return words.listed_items(read)


def _drop_columns(words: TokenReader) -> Changes:
    if_exists = words.takes("IF", "EXISTS")
    return words.listed_items(lambda: DropColumn(_path(words), if_exists))


def _rename_column(words: TokenReader) -> Changes:
    path = _path(words)
    words.needs("TO")
    return (RenameColumn(path, words.name("the new name")),)


def _alter_columns(words: TokenReader) -> Changes:
    found = [_alter_column(words, _path(words))]
    while words.takes_symbol(","):
        found.append(_alter_column(words, _path(words)))
    return tuple(found)


def _change_columns(words: TokenReader) -> Changes:
    """Read CHANGE [COLUMN] in Spark's form (a synonym of ALTER COLUMN) or in Hive's.

    In Hive's form, a second name follows the name of the column.
    """
    path = _path(words)
    actions = (*_COLUMN_ACTIONS, "SYNC IDENTITY")
    if words.is_name(words.at + 1) and not any(words.sees(*each.split()) for each in actions):
        return _hive_change(words, path)
    found = [_alter_column(words, path)]
    while words.takes_symbol(","):
        found.append(_alter_column(words, _path(words)))
    return tuple(found)


def _alter_column(words: TokenReader, path: Path) -> ChangeColumn:
    change, start = ChangeColumn(path), words.at
    while not words.is_at_end and not words.sees_symbol(","):
        if words.takes("TYPE"):
            change = replace(change, type=read_type(words))
        elif words.takes("COMMENT"):
            change = replace(change, doc=words.text_literal("the comment"))
        elif words.takes("SET", "NOT", "NULL"):
            change = replace(change, required=True)
        elif words.takes("DROP", "NOT", "NULL"):
            change = replace(change, required=False)
        elif words.takes("SET", "DEFAULT"):
            change = replace(change, default=read_default(words))
        elif words.takes("DROP", "DEFAULT"):
            change = replace(change, default=None)
        elif words.sees("FIRST") or words.sees("AFTER"):
            change = replace(change, place=_place(words))
        elif words.sees("SYNC", "IDENTITY"):
            raise UnsupportedFeature("SYNC IDENTITY", "lakescan's writers keep the last identity value up to date.")
        elif words.takes("SET") or words.takes("DROP"):
            raise words.unexpected_word("NOT NULL", "DEFAULT")
        else:
            raise words.unexpected_word(*_COLUMN_ACTIONS)
    if words.at == start:
        raise words.unexpected_word(*_COLUMN_ACTIONS)
    return change


_COLUMN_ACTIONS = ("TYPE", "COMMENT", "FIRST", "AFTER", "SET NOT NULL", "DROP NOT NULL", "SET DEFAULT", "DROP DEFAULT")


def _hive_change(words: TokenReader, path: Path) -> Changes:
    """Read Hive's form, `CHANGE COLUMN a a BIGINT COMMENT 'x' FIRST`: old name, new name, column definition."""
    new = words.name("the new name of the column")
    found = read_clauses(words, new, read_type(words))
    doc: str | KeepCurrent = KEPT if found.column.doc is None else found.column.doc
    change = ChangeColumn(path, found.column.type, doc, place=_place(words))
    renamed = () if new.lower() == path[-1].lower() else (RenameColumn(path, new),)
    return (change, *renamed)


def _replace_columns(words: TokenReader) -> Changes:
    found = read_columns(words)
    if found.key:
        raise words.error("REPLACE COLUMNS takes no PRIMARY KEY: use SET IDENTIFIER FIELDS", words.at - 1)
    return (ReplaceColumns(found.columns, found.defaults),)


def _set_properties(words: TokenReader) -> Changes:
    return (SetProperties(read_properties(words)),)


def _unset_properties(words: TokenReader) -> Changes:
    if_exists = words.takes("IF", "EXISTS")
    return (UnsetProperties(tuple(words.items(lambda: property_name(words))), if_exists),)


def _set_location(words: TokenReader) -> Changes:
    return (SetLocation(words.text_literal("the folder, in quotes")),)


def _which(words: TokenReader) -> Term | str:
    """Read the partition field to drop or replace: a transform, or a plain name.

    A plain name is returned as text, because it may mean the partition field or its source column.
    """
    term = read_term(words)
    return term.column if term.name == "identity" else term


def _field_name(words: TokenReader) -> str | None:
    return words.name("the name of the partition field") if words.takes("AS") else None


def _add_partition(words: TokenReader) -> Changes:
    return (AddPartition(read_term(words), _field_name(words)),)


def _drop_partition(words: TokenReader) -> Changes:
    return (DropPartition(_which(words)),)


def _replace_partition(words: TokenReader) -> Changes:
    which = _which(words)
    words.needs("WITH")
    return (ReplacePartition(which, read_term(words), _field_name(words)),)


def read_write_order(words: TokenReader) -> SetOrder:
    """Read the part of a statement after WRITE: `[DISTRIBUTED BY PARTITION] [[LOCALLY] ORDERED BY ... | UNORDERED]`.

    The clauses may come in any order, and one is required. The distribution mode of the result is 'hash' with
    DISTRIBUTED BY PARTITION. Otherwise it is 'none' for LOCALLY ORDERED BY and UNORDERED, and 'range' for ORDERED BY.
    """
    start, distribution, terms, locally, unordered = words.at, False, None, False, False
    while not words.is_at_end:
        if not distribution and words.takes("DISTRIBUTED", "BY", "PARTITION"):
            distribution = True
        elif terms is None and not unordered and words.takes("UNORDERED"):
            unordered = True
        elif terms is None and not unordered and (words.sees("LOCALLY") or words.sees("ORDERED")):
            locally = words.takes("LOCALLY")
            words.needs("ORDERED", "BY")
            terms = read_order(words)
        else:
            break
    if words.at == start:
        raise words.unexpected_word("DISTRIBUTED BY PARTITION", "ORDERED BY", "LOCALLY ORDERED BY", "UNORDERED")
    mode = "hash" if distribution else "none" if unordered or locally else "range"
    return SetOrder(terms or (), mode)


def _write_order(words: TokenReader) -> Changes:
    return (read_write_order(words),)


def _references(words: TokenReader) -> tuple[str, ...]:
    return words.listed_items(lambda: dotted_path(_path(words)))


def _set_key(words: TokenReader) -> Changes:
    return (SetKey(_references(words)),)


def _drop_key(words: TokenReader) -> Changes:
    return (DropKey(_references(words)),)


def _cluster_by(words: TokenReader) -> Changes:
    if words.takes("NONE"):
        return (SetClustering(()),)
    return (SetClustering(tuple(words.items(lambda: _path(words)))),)


def _add_constraint(words: TokenReader) -> Changes:
    name = words.name("the name of the constraint")
    if not words.takes("CHECK"):
        raise UnsupportedFeature(
            "a constraint other than CHECK", "Set keys with SET IDENTIFIER FIELDS. Keys are not enforced."
        )
    if not words.sees_symbol("("):
        raise words.unexpected_word("'('")
    opening = words.at
    words.at = words.behind(opening)
    condition = words.between(opening + 1, words.at - 1, "the condition")
    return (AddConstraint(name, words.with_literals(condition).text),)


def _drop_constraint(words: TokenReader) -> Changes:
    if_exists = words.takes("IF", "EXISTS")
    return (DropConstraint(words.name("the name of the constraint"), if_exists),)


def _drop_feature(words: TokenReader) -> Changes:
    is_name = words.is_name(words.at)
    name = words.name("the name of a feature") if is_name else words.text_literal("the name of a feature")
    return (DropFeature(name, words.takes("TRUNCATE", "HISTORY")),)


def _rename(words: TokenReader) -> RenameTable:
    return RenameTable(NO_TABLE, words.table_name("the new name"))


def _hive_partition(words: TokenReader) -> Changes:
    raise UnsupportedFeature(
        "adding, dropping or renaming single partitions",
        "Partitions follow from the rows of the table. Change their rows with INSERT OVERWRITE or DELETE.",
    )


_COLUMN = "name type [NOT NULL] [DEFAULT value] [COMMENT 'text'] [FIRST | AFTER name]"
ACTIONS: tuple[Form, ...] = (
    Form("ADD COLUMN", f"[IF NOT EXISTS] {_COLUMN}, ...", "ADD COLUMN note STRING AFTER id", _add_columns),
    Form("ADD COLUMNS", f"[IF NOT EXISTS] ({_COLUMN}, ...)", "ADD COLUMNS (p.x INT, y DATE)", _add_columns),
    Form("DROP COLUMN", "[IF EXISTS] name, ...", "DROP COLUMN note", _drop_columns),
    Form("DROP COLUMNS", "[IF EXISTS] (name, ...)", "DROP COLUMNS (note, p.x)", _drop_columns),
    Form("RENAME COLUMN", "name TO new", "RENAME COLUMN note TO remark", _rename_column),
    Form(
        "ALTER COLUMN",
        "name [TYPE type] [COMMENT 'text'] [SET | DROP NOT NULL] [SET DEFAULT value | DROP DEFAULT] "
        "[FIRST | AFTER name]",
        "ALTER COLUMN quantity TYPE BIGINT",
        _alter_columns,
    ),
    Form("ALTER", "name ...", "ALTER quantity DROP NOT NULL", _alter_columns),
    Form("CHANGE COLUMN", "name new type ...", "CHANGE COLUMN quantity quantity BIGINT", _change_columns),
    Form("CHANGE", "name new type ...", "CHANGE quantity pieces BIGINT COMMENT 'n'", _change_columns),
    Form("REPLACE COLUMNS", f"({_COLUMN}, ...)", "REPLACE COLUMNS (id BIGINT)", _replace_columns),
    Form("SET TBLPROPERTIES", "('name' = 'value', ...)", "SET TBLPROPERTIES ('a' = 'b')", _set_properties),
    Form(
        "UNSET TBLPROPERTIES",
        "[IF EXISTS] ('name', ...)",
        "UNSET TBLPROPERTIES IF EXISTS ('a')",
        _unset_properties,
    ),
    Form("SET", "('name' = 'value', ...)", "SET ('a' = 'b')", _set_properties),
    Form("RESET", "('name', ...)", "RESET ('a')", _unset_properties),
    Form("SET LOCATION", "'folder'", "SET LOCATION 's3://lake/t'", _set_location),
    Form(
        "ADD PARTITION FIELD",
        "transform [AS name]",
        "ADD PARTITION FIELD days(ts) AS day",
        _add_partition,
    ),
    Form("DROP PARTITION FIELD", "transform | name", "DROP PARTITION FIELD days(ts)", _drop_partition),
    Form(
        "REPLACE PARTITION FIELD",
        "transform | name WITH transform [AS name]",
        "REPLACE PARTITION FIELD days(ts) WITH hours(ts)",
        _replace_partition,
    ),
    Form(
        "WRITE",
        "[DISTRIBUTED BY PARTITION] [[LOCALLY] ORDERED BY term [ASC | DESC] [NULLS FIRST | LAST], ... | UNORDERED]",
        "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY day, id DESC",
        _write_order,
    ),
    Form("SET IDENTIFIER FIELDS", "name, ...", "SET IDENTIFIER FIELDS id", _set_key),
    Form("DROP IDENTIFIER FIELDS", "name, ...", "DROP IDENTIFIER FIELDS id", _drop_key),
    Form("CLUSTER BY", "(name, ...) | NONE", "CLUSTER BY (user, day)", _cluster_by),
    Form("ADD CONSTRAINT", "name CHECK (condition)", "ADD CONSTRAINT c CHECK (price > 0)", _add_constraint),
    Form("DROP CONSTRAINT", "[IF EXISTS] name", "DROP CONSTRAINT IF EXISTS c", _drop_constraint),
    Form("DROP FEATURE", "name [TRUNCATE HISTORY]", "DROP FEATURE deletionVectors", _drop_feature),
    Form("RENAME TO", "new", "RENAME TO u", _rename),
    *REF_FORMS,
)
_HIVE = ("ADD PARTITION", "ADD IF", "DROP PARTITION", "DROP IF", "PARTITION", "RECOVER PARTITIONS")
REFUSED = tuple(Form(each, "", "", _hive_partition) for each in _HIVE)
