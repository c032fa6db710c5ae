"""The same statement, run by lakescan and by the JVM on twin tables, makes equal metadata where the format defines it.

Rows of SHOW and DESCRIBE have the JVM's columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.rows import differences

import lakescan
from interop.test_alter import STEPS, described, metadata
from interop.test_alter_delta import last_commit
from interop.test_delta import written
from interop.test_delta_commits import checked, forget

MADE = [
    "CREATE TABLE {t} (id BIGINT, part STRING) USING iceberg",
    "CREATE TABLE {t} (id BIGINT NOT NULL COMMENT 'the id', part STRING, at TIMESTAMP, day DATE, seen TIMESTAMP_NTZ, "
    "s STRUCT<a: INT COMMENT 'inner', b: ARRAY<DECIMAL(9, 2)>>, m MAP<STRING, BINARY>) USING iceberg "
    "PARTITIONED BY (part, days(at), bucket(8, id), truncate(3, part), years(day), hours(seen)) COMMENT 'orders' "
    "TBLPROPERTIES ('format-version' = '2', 'own' = '1')",
    "CREATE TABLE {t} (f FLOAT, g DOUBLE, b BOOLEAN, i INT) USING iceberg TBLPROPERTIES ('format-version' = '1')",
    "CREATE TABLE {t} (id BIGINT, n INT) USING iceberg PARTITIONED BY (months_of STRING)",
    "CREATE TABLE {t} USING iceberg PARTITIONED BY (bucket(4, id)) COMMENT 'made of rows' "
    "TBLPROPERTIES ('format-version' = '3') AS SELECT CAST(1 AS BIGINT) AS id, 'a' AS part",
]
# One statement in lakescan, several in the JVM.
MADE_AND_ALTERED = {
    "CREATE TABLE {t} (id BIGINT NOT NULL, part STRING) USING iceberg WRITE ORDERED BY id DESC, bucket(4, part)": [
        "CREATE TABLE {t} (id BIGINT NOT NULL, part STRING) USING iceberg",
        "ALTER TABLE {t} WRITE ORDERED BY id DESC, bucket(4, part)",
    ],
    "CREATE TABLE {t} (id BIGINT, part STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('format-version' = '2')": [
        "CREATE TABLE {t} (id BIGINT NOT NULL, part STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')",
        "ALTER TABLE {t} SET IDENTIFIER FIELDS id",
    ],
}


def layout(name: str) -> dict[str, Any]:
    """Return a table's current columns, layout and properties, without the ids of earlier ones."""
    found = metadata(name)
    kinds = {"schemas": ("schema-id", "current-schema-id"), "partition-specs": ("spec-id", "default-spec-id")}
    kinds["sort-orders"] = ("order-id", "default-sort-order-id")
    current = {}
    for kind, (own, chosen) in kinds.items():
        (current[kind],) = [
            {key: value for key, value in each.items() if key != own}
            for each in found[kind]
            if each[own] == found[chosen]
        ]
    current["schemas"].setdefault("identifier-field-ids", [])
    others = ("owner", "created-at")  # the JVM's user; the time at which the server made a table together with its rows
    properties = {key: value for key, value in found["properties"].items() if key not in others}
    return {**current, "properties": properties, "format-version": found["format-version"]}


@pytest.mark.parametrize("number", range(len(MADE) + len(MADE_AND_ALTERED)))
def test_tables_are_made_as_by_the_jvm(rest: lakescan.Catalog, jvm: Any, number: int) -> None:
    pairs = [*((each, [each]) for each in MADE), *MADE_AND_ALTERED.items()]
    own, theirs = pairs[number]
    lakescan.sql(own.format(t=f"rest.db.stated{number}"))
    for each in theirs:
        jvm.sql(each.format(t=f"rest.db.stated{number}_theirs"))
    assert layout(f"rest.db.stated{number}") == layout(f"rest.db.stated{number}_theirs")
    rows = jvm.sql(f"SELECT * FROM rest.db.stated{number}").toArrow()
    assert differences(rows, jvm.sql(f"SELECT * FROM rest.db.stated{number}_theirs").toArrow()) == ""
    assert differences(lakescan.table(f"rest.db.stated{number}").to_arrow(), rows) == ""


MORE = [
    "ADD COLUMNS (v1 INT, v2 STRING)",
    "CHANGE COLUMN v1 v1 BIGINT COMMENT 'wider'",
    "ALTER COLUMN v2 COMMENT 'text', v1 AFTER v2",
    "DROP COLUMNS IF EXISTS (v2, v9)",
    "DROP COLUMN v1",
    "UNSET TBLPROPERTIES IF EXISTS ('none', 'owner-of')",
]


def test_alter_table_equals_that_of_the_jvm(rest: lakescan.Catalog, jvm: Any) -> None:
    """The statements of `test_alter`, in lakescan's SQL."""
    columns = (
        "id BIGINT NOT NULL, part STRING, at TIMESTAMP, n INT, f FLOAT, d DECIMAL(9, 2), day DATE, "
        "address STRUCT<city: STRING, zip: INT>, lines ARRAY<STRUCT<sku: STRING, pieces: INT>>, tags MAP<STRING, INT>"
    )
    ours, theirs = "rest.db.words_ours", "rest.db.words_theirs"
    for each in (ours, theirs):
        jvm.sql(f"CREATE TABLE {each} ({columns}) USING iceberg TBLPROPERTIES ('format-version' = '1')")
    for words in [*(words for words, _ in STEPS), *MORE]:
        jvm.sql(f"ALTER TABLE {theirs} {words}")
        lakescan.sql(f"ALTER TABLE {ours} {words}")
        assert described(ours) == described(theirs), words
    for text in ("COMMENT ON TABLE {t} IS 'what it is'", "COMMENT ON TABLE {t} IS NULL"):
        jvm.sql(text.format(t=theirs))
        lakescan.sql(text.format(t=ours))
        found, wanted = described(ours), described(theirs)
        if (
            wanted["properties"].get("comment") == ""
        ):  # in lakescan IS NULL removes the comment, in the JVM it leaves an empty text
            del wanted["properties"]["comment"]
        assert found == wanted, text
    jvm.sql(f"ALTER TABLE {theirs} RENAME TO db.words_moved_there")
    lakescan.sql(f"ALTER TABLE {ours} RENAME TO db.words_moved_here")
    found = [row.tableName for row in jvm.sql("SHOW TABLES IN rest.db").collect() if row.tableName.startswith("words")]
    assert sorted(found) == ["words_moved_here", "words_moved_there"]


REFS = [
    "CREATE BRANCH b AS OF VERSION {0} RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS",
    "CREATE BRANCH IF NOT EXISTS b",
    "CREATE TAG t RETAIN 30 DAYS",
    "CREATE OR REPLACE TAG u AS OF VERSION {0}",
    "REPLACE BRANCH b RETAIN 8 HOURS",
    "REPLACE TAG t AS OF VERSION {0} RETAIN 90 MINUTES",
    "CREATE OR REPLACE BRANCH c WITH SNAPSHOT RETENTION 4 SNAPSHOTS",
    "CREATE BRANCH d WITH SNAPSHOT RETENTION 2 DAYS",
    "DROP BRANCH c",
    "DROP BRANCH IF EXISTS c",
    "DROP TAG u",
    "DROP TAG IF EXISTS u",
]


def test_branches_and_tags_equal_those_of_the_jvm(rest: lakescan.Catalog, jvm: Any) -> None:
    names = ("rest.db.refs_ours", "rest.db.refs_theirs")
    ids = {}
    for each in names:
        jvm.sql(f"CREATE TABLE {each} (id BIGINT) USING iceberg")
        for number in range(2):
            jvm.sql(f"INSERT INTO {each} VALUES ({number})")
        found = jvm.sql(f"SELECT snapshot_id FROM {each}.snapshots ORDER BY committed_at").collect()
        ids[each] = [row.snapshot_id for row in found]

    def refs(name: str) -> dict[str, Any]:
        return {
            ref: {**each, "snapshot-id": ids[name].index(each["snapshot-id"])}
            for ref, each in metadata(name)["refs"].items()
        }

    ours, theirs = names
    for words in REFS:
        jvm.sql(f"ALTER TABLE {theirs} {words.format(*ids[theirs])}")
        lakescan.sql(f"ALTER TABLE {ours} {words.format(*ids[ours])}")
        assert refs(ours) == refs(theirs), words
    lakescan.sql(f"INSERT INTO {ours}.branch_b VALUES (7)")
    assert sorted(row.id for row in jvm.sql(f"SELECT * FROM {ours}.branch_b").collect()) == [0, 1, 7]


@pytest.mark.parametrize("words", ["DROP TABLE {t}", "DROP TABLE IF EXISTS {t} PURGE"])
def test_tables_are_dropped_for_the_jvm_as_well(rest: lakescan.Catalog, jvm: Any, words: str) -> None:
    name = f"rest.db.dropped{len(words)}"
    jvm.sql(f"CREATE TABLE {name} (id BIGINT) USING iceberg")
    jvm.sql(f"INSERT INTO {name} VALUES (1)")
    files = [row.file_path.removeprefix("file:") for row in jvm.sql(f"SELECT file_path FROM {name}.files").collect()]
    lakescan.sql(words.format(t=name))
    assert not jvm.catalog.tableExists(name)
    assert [Path(each).exists() for each in files] == ["PURGE" not in words]
    lakescan.sql(f"DROP TABLE IF EXISTS {name}")
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.sql(f"DROP TABLE {name}")


SHOWN = [
    "SHOW CATALOGS",
    "SHOW NAMESPACES IN rest",
    "SHOW TABLES IN rest.db",
    "SHOW VIEWS IN rest.db",
    "SHOW COLUMNS IN {t}",
    "SHOW TBLPROPERTIES {t}",
    "SHOW TBLPROPERTIES {t} ('own')",
    "SHOW CREATE TABLE {t}",
    "DESCRIBE {t}",
    "DESCRIBE TABLE EXTENDED {t}",
    "DESCRIBE {t} id",
    "DESCRIBE NAMESPACE rest.db",
    "DESCRIBE NAMESPACE EXTENDED rest.db",
    "SHOW CURRENT NAMESPACE",
]
# Equal row by row; other rows belong to each engine (its own properties, names of catalogs).
EQUAL = ("SHOW COLUMNS", "SHOW TABLES", "SHOW NAMESPACES", "SHOW VIEWS")


@pytest.mark.parametrize("statement", SHOWN)
def test_show_has_the_columns_of_the_jvm(rest: lakescan.Catalog, jvm: Any, statement: str) -> None:
    name = "rest.db.shown"
    jvm.sql(
        f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT COMMENT 'the id', part STRING, s STRUCT<a: INT>) USING iceberg "
        "PARTITIONED BY (part, bucket(4, id)) COMMENT 'shown' TBLPROPERTIES ('own' = '1')"
    )
    theirs = jvm.sql(statement.format(t=name)).toArrow()
    ours = lakescan.sql(statement.format(t=name)).to_arrow()
    assert ours.schema.names == theirs.schema.names
    assert [str(each) for each in ours.schema.types] == [str(each) for each in theirs.schema.types]
    if statement.startswith(EQUAL):
        key = [(column, "ascending") for column in ours.schema.names]
        assert ours.sort_by(key).to_pylist() == theirs.sort_by(key).to_pylist()
    if statement == "DESCRIBE {t}":
        columns = [row for row in theirs.to_pylist() if row["col_name"] in ("id", "part", "s")]
        assert ours.slice(0, 3).to_pylist() == columns[:3]


DELTA_TYPES = "id INT COMMENT 'key', s STRUCT<a: INT, b: STRING>, l ARRAY<INT>, f FLOAT, d DATE, part STRING"
DELTA_MADE = [
    f"CREATE TABLE {{t}} ({DELTA_TYPES}) USING delta",
    f"CREATE TABLE {{t}} ({DELTA_TYPES}) USING delta CLUSTER BY (id, s.b)",
    f"CREATE TABLE {{t}} ({DELTA_TYPES}) USING delta PARTITIONED BY (part, d) COMMENT 'what it is' "
    "TBLPROPERTIES ('own' = '1', 'delta.appendOnly' = 'true')",
    "CREATE TABLE {t} (id INT NOT NULL, part STRING) USING delta "
    "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')",
    "CREATE TABLE {t} (id INT, at TIMESTAMP_NTZ) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "CREATE TABLE {t} USING delta PARTITIONED BY (part) AS SELECT 1 AS id, 'a' AS part",
]


@pytest.mark.parametrize("number", range(len(DELTA_MADE)))
def test_delta_tables_are_made_as_by_delta(jvm: Any, warehouse: Path, number: int) -> None:
    theirs, mine = (warehouse / "delta" / f"made {number} by {who}" for who in ("delta", "us"))
    jvm.sql(DELTA_MADE[number].format(t=f"delta.`{theirs}`"))
    lakescan.sql(DELTA_MADE[number].format(t=f"delta.`{mine}`"))
    found, wanted = last_commit(mine), last_commit(theirs)
    # lakescan's additional records are for other readers.
    found["parameters"] = {each: found["parameters"].get(each) for each in wanted["parameters"]}
    assert found == wanted
    forget(jvm)
    expected = jvm.sql(f"SELECT * FROM delta.`{theirs}`").toArrow()
    assert differences(jvm.sql(f"SELECT * FROM delta.`{mine}`").toArrow(), expected) == ""


DELTA_STEPS = [
    "ALTER TABLE {t} ADD COLUMNS (n STRING COMMENT 'new', s.c DOUBLE AFTER a)",
    "ALTER TABLE {t} ADD COLUMN m DECIMAL(5, 2) FIRST",
    "ALTER TABLE {t} ALTER COLUMN id COMMENT 'other'",
    "ALTER TABLE {t} ALTER COLUMN f FIRST",
    "ALTER TABLE {t} CHANGE COLUMN n n STRING COMMENT 'changed' AFTER f",
    "ALTER TABLE {t} SET TBLPROPERTIES ('own' = '1', 'delta.columnMapping.mode' = 'name')",
    "ALTER TABLE {t} RENAME COLUMN n TO remark",
    "ALTER TABLE {t} DROP COLUMN m",
    "ALTER TABLE {t} DROP COLUMNS (s.c, l)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",
    "ALTER TABLE {t} ADD CONSTRAINT Positive CHECK (id > 0)",
    "ALTER TABLE {t} DROP CONSTRAINT Positive",
    "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS ('own', 'none')",
    "ALTER TABLE {t} CLUSTER BY (id)",
    "ALTER TABLE {t} CLUSTER BY NONE",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    "ALTER TABLE {t} ALTER COLUMN remark SET DEFAULT 'none'",
    "ALTER TABLE {t} ALTER COLUMN remark DROP DEFAULT",
    "COMMENT ON TABLE {t} IS 'about it'",
]
DELTA_ROWS = [
    "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', 'x'), array(1), 0.5, DATE '2026-01-01', 'p')",
    "INSERT INTO {t} VALUES (2, null, array(2, null), null, null, null)",
]


def test_statements_about_delta_tables_make_the_commits_of_delta(jvm: Any, warehouse: Path) -> None:
    made = [f"CREATE TABLE {{t}} ({DELTA_TYPES}) USING delta", *DELTA_ROWS]
    theirs, expected = written(jvm, warehouse, "statements jvm", made)
    mine, found = written(jvm, warehouse, "statements own", made)
    for words in DELTA_STEPS:
        jvm.sql(words.format(t=theirs))
        lakescan.sql(words.format(t=mine))
        assert last_commit(Path(found)) == last_commit(Path(expected)), words
    forget(jvm)
    rows = jvm.sql(f"SELECT * FROM {theirs}").toArrow()
    assert differences(jvm.sql(f"SELECT * FROM {mine}").toArrow(), rows) == ""
    assert checked(jvm, found)


DELTA_COMMANDS = [
    "OPTIMIZE {t} ZORDER BY (id)",
    "RESTORE TABLE {t} TO VERSION AS OF 1",
    "VACUUM {t} DRY RUN",
    "DESCRIBE HISTORY {t}",
    "DESCRIBE HISTORY {t} LIMIT 1",
    "DESCRIBE DETAIL {t}",
    "DESCRIBE {t}",
    "SHOW COLUMNS IN {t}",
    "SHOW TBLPROPERTIES {t}",
    "VACUUM {t}",
]


@pytest.fixture
def few_tasks(jvm: Any) -> Iterator[None]:
    """Limit the tasks: otherwise Delta's VACUUM lists folders in 10,000 tasks."""
    jvm.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "2")
    yield
    jvm.conf.unset("spark.sql.sources.parallelPartitionDiscovery.parallelism")


@pytest.mark.usefixtures("few_tasks")
def test_commands_of_delta_return_the_columns_of_delta(jvm: Any, warehouse: Path) -> None:
    """Each command runs on both twins, so that both make the same commits."""
    made = [f"CREATE TABLE {{t}} ({DELTA_TYPES}) USING delta", *DELTA_ROWS]
    theirs, expected = written(jvm, warehouse, "commands jvm", made)
    mine, found = written(jvm, warehouse, "commands own", made)
    differing = {}
    for words in DELTA_COMMANDS:
        there = jvm.sql(words.format(t=theirs))
        here = lakescan.sql(words.format(t=mine)).to_arrow()
        more = 2 if words.startswith("SHOW TBLPROPERTIES") else 0  # in the JVM with the protocol versions
        if (here.schema.names, here.num_rows + more) != (there.columns, len(there.collect())):
            differing[words] = (here.schema.names, there.columns, here.num_rows, len(there.collect()))
        if words.startswith(("OPTIMIZE", "RESTORE")):
            ours, wanted = last_commit(Path(found)), last_commit(Path(expected))
            assert ours["operation"] == wanted["operation"]
            assert ours["parameters"] == wanted["parameters"], words
    assert differing == {}
