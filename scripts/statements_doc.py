"""Write the table of statements in `docs/sql.md` from the grammar: `python scripts/statements_doc.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lakescan.statements.procedures import PROCEDURES, Procedure
from lakescan.statements.syntax.alter_table import ACTIONS
from lakescan.statements.syntax.grammar import FORMS, parse_statement
from lakescan.statements.syntax.token_reader import Form
from lakescan.statements.tables.run import can_run

PAGE = Path(__file__).parent.parent / "docs" / "sql.md"

_HEAD = """# SQL

`lakescan.sql(text)` runs a statement in this process, `lakescan.spark.sql(spark, text)` on Spark. Words and meanings
are those of Spark 4, of Iceberg's extensions and of Delta's.

Tables are `catalog.namespace.table`, ``delta.`/lake/events` `` and ``iceberg.`/lake/orders` ``; after
`USE catalog.namespace`, only `table`. Queries and statements that change rows (SELECT, INSERT, DELETE, UPDATE, MERGE,
TRUNCATE TABLE) are in [Change rows](guides/change_rows.md) and in the docstring of `lakescan.sql`. `SHOW`, `DESCRIBE`
and `CALL` return rows: a `Query` in this process, a data frame on Spark.

```python
lakescan.sql("CREATE TABLE lake.shop.orders (id BIGINT, day DATE, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (day)")
lakescan.sql("ALTER TABLE lake.shop.orders ADD COLUMN note STRING AFTER id")
lakescan.sql("SHOW TABLES IN lake.shop").show()
```

Types have Spark's names. `TIMESTAMP` is an instant. `TIMESTAMP(p)` is the type of the SQL standard and of Flink: it has
no time zone, except as `TIMESTAMP(p) WITH [LOCAL] TIME ZONE`. Up to 6 digits are stored as microseconds, and up to 9 as
nanoseconds (Iceberg, format version 3). More digits are refused. `VARCHAR(n)` is a `STRING`. Flink's types are mapped
as in Iceberg's connector for Flink: `TIMESTAMP_LTZ(p)` is an instant, `BINARY(n)` is `fixed[n]`, `VARBINARY(n)` and
`BYTES` are `binary`, `ROW<...>` is a struct, and `MULTISET<T>` is a map of counts. Computed columns, `WATERMARK FOR`,
`UNIQUE` and connectors in `WITH` are refused. Keys are not enforced, but their columns are required.

Views are Iceberg views, in catalogs of type `rest` and `sql` (an embedded catalog is one). Iceberg's own engines read
them. Views that other engines created run here if they have a query in Spark's dialect. `CREATE VIEW` checks the query.
Short names in it are resolved in the namespace that `USE` had set, or in the view's own. A view keeps the columns that
it had when it was created. It reads the current version of its tables, or the version that `VERSION AS OF` in its query
names. A view has no earlier versions, and its rows are changed in its tables. `CREATE TEMPORARY VIEW` is a statement of
Spark. `lakescan.spark.create_view` makes a temporary view that sees new commits.

`scripts/statements_doc.py` makes the tables below from the grammar, so every listed statement runs.
"""

_PROCEDURES = """## Procedures

`CALL catalog.system.name(...)`, or in Python `lakescan.statements.procedures.call(catalog, name, positional, named)`,
which returns an Arrow table. Values by position come first, in this order, then those by name. Parameters in brackets
can be left out. Parameters and results are Iceberg's. `executor` of the function, and Spark where it runs the
statement, is where files are read and rewritten.

| procedure | result |
|---|---|"""


def page() -> str:
    """Return the text of the page."""
    lines = [_HEAD, "## Statements", "", *_table(each for each in FORMS if _runs(each.example)), ""]
    lines += ["## ALTER TABLE", "", "Behind `ALTER TABLE name`:", ""]
    lines += [*_table(each for each in ACTIONS if _runs(f"ALTER TABLE t {each.example}"))]
    lines += ["", _PROCEDURES, *_procedures(each for each in PROCEDURES.values() if each.run is not None), ""]
    lines += [f"`{each.name}` is refused. {each.instead}" for each in PROCEDURES.values() if each.run is None]
    return "\n".join([*lines, ""])


def _runs(text: str) -> bool:
    statement = parse_statement(text)
    return statement is not None and can_run(statement)


def _table(forms: Iterable[Form]) -> Iterator[str]:
    yield "| statement | example |"
    yield "|---|---|"
    for each in forms:
        yield f"| {_code(f'{each.keywords} {each.syntax}'.strip())} | {_code(each.example)} |"


def _procedures(procedures: Iterable[Procedure]) -> Iterator[str]:
    for each in sorted(procedures, key=lambda one: one.name):
        needed = ", ".join(parameter.name for parameter in each.parameters if parameter.required)
        free = "".join(f"[, {parameter.name}]" for parameter in each.parameters if not parameter.required)
        yield f"| {_code(f'{each.name}({needed}{free})')} | {', '.join(map(_code, each.output.names))} |"


def _code(text: str) -> str:
    fence = "``" if "`" in text else "`"
    inside = f" {text} " if fence == "``" else text
    return f"{fence}{inside}{fence}".replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page())
