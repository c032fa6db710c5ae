"""Branches and tags in ALTER TABLE (Iceberg)."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.statements.syntax.forms import Form
from lakescan.statements.syntax.layout import read_milliseconds, read_version
from lakescan.statements.syntax.names import TableName
from lakescan.statements.syntax.words import TokenReader

NO_TABLE = TableName(())  # until the statement is read


@dataclass(frozen=True)
class CreateRef:
    """CREATE or REPLACE of a branch or tag; times are in milliseconds."""

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
    """DROP BRANCH or DROP TAG."""

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
