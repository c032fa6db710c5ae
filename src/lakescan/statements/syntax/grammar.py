"""The grammar of statements about tables, namespaces and views, and `parse_statement`.

Queries are parsed by `parse`, and statements that change rows by `parse_dml`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from lakescan.statements.syntax.alter_table import AlterStatement, read_alter_table
from lakescan.statements.syntax.commands import (
    Call,
    Convert,
    Generate,
    Optimize,
    Refresh,
    Reorg,
    Restore,
    Vacuum,
    read_call,
    read_convert,
    read_generate,
    read_optimize,
    read_refresh,
    read_reorg,
    read_restore,
    read_vacuum,
)
from lakescan.statements.syntax.namespaces import (
    AlterNamespace,
    CommentOn,
    CreateCatalog,
    CreateNamespace,
    DropNamespace,
    Show,
    ShowKind,
    read_alter_namespace,
    read_comment_on,
    read_create_catalog,
    read_create_namespace,
    read_describe,
    read_drop_namespace,
    read_show_columns,
    read_show_in,
    read_show_partitions,
    read_show_properties,
    read_show_table,
)
from lakescan.statements.syntax.tables_and_views import (
    AlterView,
    CreateTable,
    CreateView,
    DropTable,
    DropView,
    read_alter_view,
    read_create_table,
    read_create_view,
    read_drop_table,
    read_drop_view,
    read_external_table,
)
from lakescan.statements.syntax.token_reader import Form, TokenReader

TableStatement = (
    AlterStatement
    | AlterNamespace
    | AlterView
    | Call
    | CommentOn
    | Convert
    | CreateCatalog
    | CreateNamespace
    | CreateTable
    | CreateView
    | DropNamespace
    | DropTable
    | DropView
    | Generate
    | Optimize
    | Refresh
    | Reorg
    | Restore
    | Show
    | Vacuum
)

_CREATE = (
    "[IF NOT EXISTS] name (column type [NOT NULL] [DEFAULT value | GENERATED ALWAYS AS (expression) | GENERATED ALWAYS "
    "| BY DEFAULT AS IDENTITY [(START WITH n INCREMENT BY n)]] [COMMENT 'text'] [PRIMARY KEY NOT ENFORCED], ... "
    "[, PRIMARY KEY (column, ...) NOT ENFORCED] [, CONSTRAINT name CHECK (condition)]) | LIKE table "
    "[USING iceberg | delta] [PARTITIONED BY (transform, ...)] [CLUSTER BY (column, ...)] [WRITE ORDERED BY term, ...] "
    "[LOCATION 'folder'] [COMMENT 'text'] [TBLPROPERTIES | WITH ('name' = 'value', ...)] [AS query]"
)
_IN = "[FROM | IN namespace] [[LIKE] 'pattern']"
_NAMESPACES = ("NAMESPACE", "DATABASE", "SCHEMA")


def _namespaces() -> tuple[Form, ...]:
    """Build the forms of namespace statements for NAMESPACE and its synonyms DATABASE and SCHEMA."""
    found: list[Form] = []
    for word in _NAMESPACES:
        found += [
            Form(
                f"CREATE {word}",
                "[IF NOT EXISTS] name [COMMENT 'text'] [LOCATION 'folder'] [WITH PROPERTIES (...)]",
                f"CREATE {word} IF NOT EXISTS lake.shop",
                read_create_namespace,
            ),
            Form(
                f"DROP {word}", "[IF EXISTS] name [RESTRICT | CASCADE]", f"DROP {word} lake.shop", read_drop_namespace
            ),
            Form(
                f"ALTER {word}",
                "name SET PROPERTIES (...) | UNSET PROPERTIES (...) | SET LOCATION 'folder'",
                f"ALTER {word} lake.shop SET PROPERTIES ('owner' = 'sales')",
                read_alter_namespace,
            ),
            Form(
                f"SHOW {word}S",
                _IN,
                f"SHOW {word}S IN lake LIKE 's*'",
                lambda words: read_show_in(words, ShowKind.NAMESPACES),
            ),
        ]
    return tuple(found)


FORMS: tuple[Form, ...] = (
    Form("CREATE TABLE", _CREATE, "CREATE TABLE lake.shop.t (id BIGINT)", read_create_table),
    Form(
        "CREATE TABLE",
        "[IF NOT EXISTS] name LIKE other | SHALLOW CLONE other [VERSION AS OF n | TIMESTAMP AS OF 'time'] "
        "[TBLPROPERTIES (...)] [LOCATION 'folder']",
        "CREATE TABLE lake.shop.t SHALLOW CLONE delta.`/lake/events` VERSION AS OF 3",
        read_create_table,
    ),
    Form(
        "CREATE EXTERNAL TABLE",
        "[IF NOT EXISTS] name (...) LOCATION 'folder' ...",
        "CREATE EXTERNAL TABLE lake.shop.t (id BIGINT) LOCATION '/lake/t'",
        read_external_table,
    ),
    Form(
        "CREATE OR REPLACE TABLE",
        "name SHALLOW CLONE other [VERSION AS OF n | TIMESTAMP AS OF 'time'] [TBLPROPERTIES (...)]",
        "CREATE OR REPLACE TABLE lake.shop.t SHALLOW CLONE delta.`/lake/events`",
        lambda words: read_create_table(words, replaces=True),
    ),
    Form(
        "CREATE OR REPLACE TABLE",
        _CREATE.removeprefix("[IF NOT EXISTS] "),
        "CREATE OR REPLACE TABLE lake.shop.t USING delta AS SELECT 1 AS id",
        lambda words: read_create_table(words, replaces=True),
    ),
    Form(
        "REPLACE TABLE",
        _CREATE.removeprefix("[IF NOT EXISTS] "),
        "REPLACE TABLE lake.shop.t AS SELECT 1 AS id",
        lambda words: read_create_table(words, creates=False, replaces=True),
    ),
    Form("REFRESH TABLE", "name", "REFRESH TABLE lake.shop.t", read_refresh),
    Form("DROP TABLE", "[IF EXISTS] name [PURGE]", "DROP TABLE IF EXISTS lake.shop.t PURGE", read_drop_table),
    Form("ALTER TABLE", "name ...: see below", "ALTER TABLE lake.shop.t ADD COLUMN note STRING", read_alter_table),
    Form(
        "CREATE CATALOG",
        "[IF NOT EXISTS] name WITH ('property' = 'value', ...)",
        "CREATE CATALOG lake WITH ('warehouse' = '/lake')",
        read_create_catalog,
    ),
    *_namespaces(),
    Form(
        "COMMENT ON",
        "TABLE | NAMESPACE name IS 'text' | NULL",
        "COMMENT ON TABLE lake.shop.t IS 'orders'",
        read_comment_on,
    ),
    Form("SHOW CATALOGS", "[[LIKE] 'pattern']", "SHOW CATALOGS", lambda words: read_show_in(words, ShowKind.CATALOGS)),
    Form("SHOW TABLES", _IN, "SHOW TABLES IN lake.shop", lambda words: read_show_in(words, ShowKind.TABLES)),
    Form("SHOW VIEWS", _IN, "SHOW VIEWS IN lake.shop", lambda words: read_show_in(words, ShowKind.VIEWS)),
    Form(
        "SHOW PROCEDURES",
        _IN,
        "SHOW PROCEDURES IN lake.system",
        lambda words: read_show_in(words, ShowKind.PROCEDURES),
    ),
    Form(
        "SHOW CURRENT NAMESPACE",
        "",
        "SHOW CURRENT NAMESPACE",
        lambda words: read_show_in(words, ShowKind.CURRENT_NAMESPACE),
    ),
    Form(
        "SHOW CREATE TABLE",
        "name",
        "SHOW CREATE TABLE lake.shop.t",
        lambda words: read_show_table(words, ShowKind.CREATE_TABLE),
    ),
    Form("SHOW COLUMNS", "FROM | IN name", "SHOW COLUMNS IN lake.shop.t", read_show_columns),
    Form("SHOW TBLPROPERTIES", "name [('property')]", "SHOW TBLPROPERTIES lake.shop.t", read_show_properties),
    Form(
        "SHOW PARTITIONS",
        "name [PARTITION (column = value, ...)]",
        "SHOW PARTITIONS lake.shop.t PARTITION (day = '2026-01-31')",
        read_show_partitions,
    ),
    Form(
        "SHOW BRANCHES", "FROM name", "SHOW BRANCHES FROM lake.shop.t", lambda w: read_show_table(w, ShowKind.BRANCHES)
    ),
    Form("SHOW TAGS", "FROM name", "SHOW TAGS FROM lake.shop.t", lambda words: read_show_table(words, ShowKind.TAGS)),
    Form(
        "DESCRIBE",
        "[TABLE] [EXTENDED | FORMATTED] name [column] | [QUERY] query | NAMESPACE name | HISTORY name [LIMIT n] "
        "| DETAIL name",
        "DESCRIBE HISTORY delta.`/lake/events` LIMIT 3",
        read_describe,
    ),
    Form("DESC", "...", "DESC TABLE EXTENDED lake.shop.t", read_describe),
    Form(
        "CALL",
        "catalog.system.procedure(value, ..., name => value, ...)",
        "CALL lake.system.expire_snapshots(table => 'shop.t', retain_last => 10)",
        read_call,
    ),
    Form(
        "OPTIMIZE",
        "name [FULL] [WHERE condition] [ZORDER BY (column, ...)]",
        "OPTIMIZE delta.`/lake/events` WHERE day = '2026-01-31' ZORDER BY (user)",
        read_optimize,
    ),
    Form(
        "VACUUM",
        "name [FULL | LITE] [USING INVENTORY table | (query)] [RETAIN n HOURS] [DRY RUN]",
        "VACUUM delta.`/lake/events` RETAIN 168 HOURS DRY RUN",
        read_vacuum,
    ),
    Form(
        "RESTORE",
        "[TABLE] name TO VERSION AS OF n | TIMESTAMP AS OF 'time'",
        "RESTORE TABLE delta.`/lake/events` TO VERSION AS OF 3",
        read_restore,
    ),
    Form(
        "CONVERT TO DELTA",
        "parquet.`folder` [NO STATISTICS] [PARTITIONED BY (column type, ...)]",
        "CONVERT TO DELTA parquet.`/lake/old` PARTITIONED BY (day DATE)",
        read_convert,
    ),
    Form(
        "GENERATE",
        "symlink_format_manifest FOR TABLE name",
        "GENERATE symlink_format_manifest FOR TABLE delta.`/lake/events`",
        read_generate,
    ),
    Form(
        "REORG TABLE",
        "name [WHERE condition] APPLY (PURGE)",
        "REORG TABLE delta.`/lake/events` APPLY (PURGE)",
        read_reorg,
    ),
    Form(
        "CREATE VIEW",
        "[IF NOT EXISTS] name [(column [COMMENT 'text'], ...)] [COMMENT 'text'] [TBLPROPERTIES (...)] AS query",
        "CREATE VIEW lake.shop.v AS SELECT id FROM lake.shop.t",
        read_create_view,
    ),
    Form(
        "CREATE OR REPLACE VIEW",
        "name [(column [COMMENT 'text'], ...)] [COMMENT 'text'] [TBLPROPERTIES (...)] AS query",
        "CREATE OR REPLACE VIEW lake.shop.v AS SELECT id FROM lake.shop.t",
        lambda words: read_create_view(words, replaces=True),
    ),
    Form("DROP VIEW", "[IF EXISTS] name", "DROP VIEW lake.shop.v", read_drop_view),
    Form(
        "ALTER VIEW",
        "name AS query | RENAME TO new | SET TBLPROPERTIES (...) | UNSET TBLPROPERTIES (...)",
        "ALTER VIEW lake.shop.v AS SELECT id, price FROM lake.shop.t",
        read_alter_view,
    ),
)
_BY_KEYWORDS = {tuple(form.keywords.split()): form for form in FORMS}
_MOST = max(map(len, _BY_KEYWORDS))


def form_of(words: TokenReader) -> Form | None:
    """Read the leading keywords of a statement and return the longest form that matches; None if no form matches.

    Nothing is read then.
    """
    for count in range(_MOST, 0, -1):
        found = tuple(each.text.upper() for each in words.words[:count])
        if len(found) == count and (form := _BY_KEYWORDS.get(found)) is not None:
            words.at = count
            return form
    return None


def parse_statement(text: str, values: Mapping[str, Any] | None = None) -> TableStatement | None:
    """Parse a statement about a table, a namespace or a view.

    Args:
        text: One statement.
        values: Values of its parameters, by name.

    Returns:
        The parsed statement, or None if the text does not start with the keywords of any form.

    Raises:
        InvalidStatement: The text is not valid. The message underlines the place.
        UnsupportedFeature: The statement has a clause that lakescan does not run.

    Example:
        >>> parse_statement("DROP TABLE lake.shop.orders PURGE").purge
        True
    """
    words = TokenReader(text, values)
    form = form_of(words)
    if form is None:
        return None
    found: TableStatement = form.read(words)
    words.ends()
    return found


_OTHERS: tuple[str, ...] = ("SELECT", "WITH", "INSERT INTO", "INSERT OVERWRITE", "DELETE FROM", "UPDATE", "MERGE INTO")
_OTHERS += ("TRUNCATE TABLE", "USE", "EXPLAIN")
_ALIKE = 0.7  # a ratio at which REFRESH TABLE and REPLACE TABLE are not alike


def nearest_statement(text: str) -> str:
    """Return " Did you mean ...?" with the statement whose first two words are spelled most alike.

    Returns "" if no statement is similar.
    """
    found = [word.upper() for word in re.findall(r"\w+", text)[:2]]
    known = [tuple(name.split()[:2]) for name in (*(form.keywords for form in FORMS), *_OTHERS)]
    alike = {
        " ".join(each): sum(ratios)
        for each in known
        if min(ratios := [SequenceMatcher(None, a, b).ratio() for a, b in zip(each, found, strict=False)], default=0)
        >= _ALIKE
    }
    return f" Did you mean {max(alike, key=alike.__getitem__)}?" if alike else ""
