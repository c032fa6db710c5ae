"""Tables created, renamed, dropped and described by in-process SQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.statements.select import namespace


@pytest.fixture
def lake(tmp_path: Path) -> lakescan.Catalog:
    catalog = lakescan.catalog("lake", warehouse=tmp_path / "lake")
    catalog.create_namespace("shop")
    return catalog


@pytest.fixture(autouse=True)
def no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespace, "_CURRENT", ContextVar("none", default=()))


NEW = pa.table({"id": pa.array([3], pa.int32())})


def rows(text: str, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lakescan.sql(text, **arguments).to_arrow().to_pylist()
    return found


def test_a_flink_create_table_with_a_primary_key_makes_a_table(lake: lakescan.Catalog) -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS lake.shop.sink6 (order_id INTEGER COMMENT 'unique id', order_date DATE, order_time "
        "TIMESTAMP(3), quantity INT, product_id INT, purchaser STRING, PRIMARY KEY (order_id) NOT ENFORCED) "
        "WITH ('format-version' = '2')"
    )
    made = lakescan.sql(text)
    assert made.format == "iceberg"
    assert made.format_version == "2"
    assert made.schema.field("order_time").type == pa.timestamp("us")
    assert not made.schema.field("order_id").nullable
    for orders in (
        [{"order_id": 1, "purchaser": "a"}, {"order_id": 2, "purchaser": "b"}],
        [{"order_id": 2, "purchaser": "c"}],
    ):
        made.upsert(pa.Table.from_pylist(orders, schema=made.schema))
    assert lakescan.sql(text).count() == 2
    assert rows("SELECT purchaser FROM lake.shop.sink6 WHERE order_id = 2") == [{"purchaser": "c"}]


def test_precision_that_a_table_cannot_keep_is_refused(lake: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.InvalidOption, match="version 3"):
        lakescan.sql("CREATE TABLE lake.shop.t (at TIMESTAMP(9)) TBLPROPERTIES ('format-version' = '2')")
    with pytest.raises(lakescan.UnsupportedFeature, match="timestamp_ns"):
        lakescan.sql("CREATE TABLE lake.shop.t (at TIMESTAMP(9)) USING delta")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_table_is_created_from_a_query(lake: lakescan.Catalog, format: str) -> None:
    lakescan.sql(f"CREATE TABLE lake.shop.q USING {format} AS SELECT 1 AS id, 'a' AS word UNION ALL SELECT 2, 'b'")
    assert sorted(row["id"] for row in rows("SELECT * FROM lake.shop.q")) == [1, 2]
    lakescan.sql(f"CREATE OR REPLACE TABLE lake.shop.q USING {format} AS SELECT id FROM lake.shop.q WHERE id > 1")
    assert rows("SELECT * FROM lake.shop.q") == [{"id": 2}]
    with pytest.raises(lakescan.TableExists, match="CREATE OR REPLACE TABLE replaces it"):
        lakescan.sql(f"CREATE TABLE lake.shop.q USING {format} AS SELECT 1 AS id")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_if_not_exists_keeps_a_concurrently_created_table(lake: lakescan.Catalog, format: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        lakescan.sql(f"CREATE TABLE lake.shop.t USING {format} AS SELECT 7 AS theirs")
        yield pa.record_batch({"id": [1]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    found = lakescan.sql(f"CREATE TABLE IF NOT EXISTS lake.shop.t USING {format} AS SELECT * FROM new", new=reader)
    assert found.to_arrow().to_pylist() == [{"theirs": 7}]


def test_replace_needs_an_existing_table(lake: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.NoSuchTable, match="CREATE OR REPLACE TABLE creates it"):
        lakescan.sql("REPLACE TABLE lake.shop.t (id INT)")


def test_short_names_mean_the_namespace_of_use(lake: lakescan.Catalog) -> None:
    def statements() -> None:
        lakescan.sql("USE lake.shop")
        lakescan.sql("CREATE TABLE t (id INT)")
        lakescan.sql("ALTER TABLE t RENAME TO u")
        assert [row["tableName"] for row in rows("SHOW TABLES")] == ["u"]
        assert rows("SHOW CURRENT NAMESPACE") == [{"catalog": "lake", "namespace": "shop"}]
        lakescan.sql("DROP TABLE u")
        assert rows("SHOW TABLES") == []

    copy_context().run(statements)  # other tests must not see the namespace set by USE


def test_short_names_need_a_namespace_after_use_of_a_catalog(lake: lakescan.Catalog) -> None:
    def statements() -> None:
        lakescan.sql("USE lake")
        with pytest.raises(lakescan.InvalidStatement, match="needs a namespace, and USE set only the catalog 'lake'"):
            lakescan.sql("CREATE TABLE t (id INT)")
        lakescan.sql("USE SCHEMA shop")
        assert rows("SHOW CURRENT NAMESPACE") == [{"catalog": "lake", "namespace": "shop"}]

    copy_context().run(statements)


@pytest.mark.parametrize("word", ["SCHEMA", "NAMESPACE", "DATABASE"])
def test_use_schema_names_a_namespace_and_never_a_catalog(lake: lakescan.Catalog, tmp_path: Path, word: str) -> None:
    def statements() -> None:
        lakescan.catalog("shop", warehouse=tmp_path / "another").create_namespace("shop")
        with pytest.raises(lakescan.NoSuchCatalog, match="needs a current catalog, and none is set"):
            lakescan.sql(f"USE {word} shop")
        lakescan.sql("USE lake")
        lakescan.sql(f"USE {word} shop")
        assert rows("SHOW CURRENT NAMESPACE") == [{"catalog": "lake", "namespace": "shop"}]
        with pytest.raises(lakescan.NoSuchNamespace, match=r"'shop' is a catalog: USE shop\.shop"):
            lakescan.sql(f"USE {word} shop.shop")
        lakescan.sql("USE shop")
        assert rows("SHOW CURRENT NAMESPACE") == [{"catalog": "shop", "namespace": ""}]

    copy_context().run(statements)


@pytest.mark.parametrize("text", ["ALTER TABLE lake.shop.t ADD COLUMN n INT", "DESCRIBE lake.shop.t", "USE lake.shop"])
def test_explain_takes_queries_and_changes_of_rows(lake: lakescan.Catalog, text: str) -> None:
    lakescan.sql("CREATE TABLE lake.shop.t (id BIGINT)")
    with pytest.raises(lakescan.UnsupportedFeature, match=f"EXPLAIN of the statement '{text}"):
        lakescan.sql(f"EXPLAIN {text}")


def test_describe_of_a_query_has_its_columns_and_their_types_in_spark(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE lake.shop.t (id BIGINT, place STRUCT<city: STRING>)")
    for first in ("DESCRIBE QUERY", "desc"):
        found = rows(f"{first} SELECT id + 1 AS next, place FROM lake.shop.t")
        assert [tuple(row.values()) for row in found] == [
            ("next", "bigint", None),
            ("place", "struct<city:string>", None),
        ]


def test_tables_are_renamed_within_their_namespace_or_to_another(lake: lakescan.Catalog) -> None:
    lake.create_namespace("old")
    lakescan.sql("CREATE TABLE lake.shop.t (id INT)")
    lakescan.sql("ALTER TABLE lake.shop.t RENAME TO u")
    assert lake.list_tables("shop") == ["shop.u"]
    lakescan.sql("ALTER TABLE lake.shop.u RENAME TO old.v")
    assert lake.list_tables("old") == ["old.v"]
    lakescan.sql("ALTER TABLE lake.old.v RENAME TO lake.shop.t")
    assert lake.list_tables("shop") == ["shop.t"]


def test_a_delta_table_is_made_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    lakescan.sql(f"CREATE TABLE delta.`{folder}` (id INT, day DATE) PARTITIONED BY (day) COMMENT 'what happened'")
    made = lakescan.table(folder)
    assert (made.format, made.partitioning, made.comment) == ("delta", "day", "what happened")
    with pytest.raises(lakescan.TableExists):
        lakescan.sql(f"CREATE TABLE delta.`{folder}` (id INT)")
    lakescan.sql(f"CREATE TABLE IF NOT EXISTS delta.`{folder}` (id INT)")


def test_namespaces_are_made_described_and_dropped(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE NAMESPACE IF NOT EXISTS lake.sales COMMENT 'all of it' WITH PROPERTIES ('owner' = 'me')")
    assert rows("SHOW NAMESPACES IN lake LIKE 'sa*'") == [{"namespace": "sales"}]
    described = {row["info_name"]: row["info_value"] for row in rows("DESCRIBE NAMESPACE EXTENDED lake.sales")}
    assert (described["Comment"], described["Owner"]) == ("all of it", "me")
    lakescan.sql("ALTER DATABASE lake.sales SET PROPERTIES ('owner' = 'you')")
    assert lake.namespace_properties("sales")["owner"] == "you"
    lakescan.sql("COMMENT ON NAMESPACE lake.sales IS NULL")
    assert "comment" not in lake.namespace_properties("sales")
    lakescan.sql("CREATE TABLE lake.sales.t (id INT)")
    with pytest.raises(lakescan.TableExists, match="drop them first"):
        lakescan.sql("DROP NAMESPACE lake.sales")
    lakescan.sql("DROP NAMESPACE lake.sales CASCADE")
    assert lake.list_namespaces() == ["shop"]


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("SHOW TABLES", lakescan.InvalidStatement, "no namespace is given"),
        ("SHOW TABLES IN lake", lakescan.InvalidStatement, "name a namespace of it"),
        ("SHOW TABLES IN laek.shop", lakescan.NoSuchCatalog, "Did you mean 'lake'"),
        ("DESCRIBE lake.shop.ordres", lakescan.NoSuchTable, "has no table"),
        ("DROP TABLE lake.t", lakescan.InvalidStatement, "too short"),
        ("ALTER TABLE lake.shop.t RENAME TO elsewhere.u", lakescan.NoSuchNamespace, "has no namespace 'elsewhere'"),
    ],
)
def test_unknown_names_are_refused(lake, statement: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lakescan.sql(statement)


def test_the_key_of_a_table_is_shown_wherever_the_table_is_described(lake: lakescan.Catalog) -> None:
    lakescan.sql(
        "CREATE TABLE lake.shop.t (s STRUCT<a: INT NOT NULL> NOT NULL, `x.y` STRING, v INT, PRIMARY KEY (s.a, `x.y`))"
    )
    table = lakescan.table("lake.shop.t")
    assert table.primary_key == ("s.a", "`x.y`")
    assert table.detail()["primaryKey"].to_pylist() == [["s.a", "`x.y`"]]
    details = {row["col_name"]: row["data_type"] for row in rows("DESCRIBE EXTENDED lake.shop.t")}
    assert details["Primary Key"] == "s.a, `x.y`"
    assert "identifier-fields=[s.a,`x.y`]" in details["Table Properties"]
    assert "PRIMARY KEY (s.a, `x.y`) NOT ENFORCED" in rows("SHOW CREATE TABLE lake.shop.t")[0]["createtab_stmt"]
    assert lakescan.sql("CREATE TABLE lake.shop.u LIKE lake.shop.t").primary_key == table.primary_key
    for format in ("iceberg", "delta"):
        other = lakescan.sql(f"CREATE TABLE lake.shop.{format} (id INT) USING {format}")
        assert other.primary_key == ()
        assert "Primary Key" not in [row["col_name"] for row in rows(f"DESCRIBE EXTENDED lake.shop.{format}")]


@pytest.mark.parametrize(
    ("columns", "named"),
    [
        ("a INT, UNIQUE (a)", "a UNIQUE constraint"),
        ("a INT UNIQUE", "UNIQUE of the column 'a'"),
        ("a INT, CONSTRAINT u UNIQUE (a)", "a UNIQUE constraint"),
        ("a TIMESTAMP(3), WATERMARK FOR a AS a - INTERVAL '5' SECOND", "WATERMARK FOR"),
        ("a INT, b AS a * 2 COMMENT 'twice'", "the computed column 'b'"),
        ("a TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL", "METADATA of the column 'a'"),
        ("a INT, FOREIGN KEY (a) REFERENCES u (a)", "a FOREIGN KEY"),
        ("a INT, PRIMARY KEY (a) ENFORCED", "an enforced primary key"),
        ("a INT) WITH ('connector' = 'iceberg', 'catalog-type' = 'hadoop'", "'connector'='iceberg' in WITH"),
        ("a INT) WITH ('connector' = 'kafka'", "'connector'='kafka' in WITH"),
        ("a INT) DISTRIBUTED BY HASH (a) INTO (4", "DISTRIBUTED"),
        ("a INT) LIKE lake.shop.u (INCLUDING ALL", "LIKE after the columns"),
    ],
)
def test_unsupported_flink_clauses_are_refused_by_name(lake, columns: str, named: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=named):
        lakescan.sql(f"CREATE TABLE lake.shop.t ({columns})")
    assert lake.list_tables("shop") == []


def test_keywords_of_refused_clauses_can_be_column_names(lake: lakescan.Catalog) -> None:
    names = ["unique", "watermark", "constraint", "check", "period", "index", "row", "metadata"]
    made = lakescan.sql(f"CREATE TABLE lake.shop.t ({', '.join(f'{name} INT' for name in names)})")
    assert made.schema.names == names


def test_a_table_is_refreshed_by_its_name(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE lake.shop.t (id INT)")
    assert lakescan.sql("REFRESH TABLE lake.shop.t") is None
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.sql("REFRESH TABLE lake.shop.nothing")


def test_a_table_is_described(lake: lakescan.Catalog) -> None:
    lakescan.sql(
        "CREATE TABLE lake.shop.t (id BIGINT NOT NULL COMMENT 'key', at TIMESTAMP, s STRUCT<X: INT, y: ARRAY<STRING>>) "
        "PARTITIONED BY (days(at)) COMMENT 'orders'"
    )
    described = rows("DESCRIBE TABLE lake.shop.t")
    assert described[:3] == [
        {"col_name": "id", "data_type": "bigint", "comment": "key"},
        {"col_name": "at", "data_type": "timestamp", "comment": None},
        {"col_name": "s", "data_type": "struct<X:int,y:array<string>>", "comment": None},
    ]
    assert {"col_name": "Part 0", "data_type": "day(at)", "comment": ""} in described
    details = {row["col_name"]: row["data_type"] for row in rows("DESCRIBE EXTENDED lake.shop.t")}
    assert (details["Provider"], details["Comment"], details["Name"]) == ("iceberg", "orders", "lake.shop.t")
    assert rows("DESCRIBE lake.shop.t id")[1] == {"info_name": "data_type", "info_value": "bigint"}
    assert [row["col_name"] for row in rows("SHOW COLUMNS IN lake.shop.t")] == ["id", "at", "s"]
    assert {"key": "comment", "value": "orders"} in rows("SHOW TBLPROPERTIES lake.shop.t")
    assert "does not have property" in rows("SHOW TBLPROPERTIES lake.shop.t ('nope')")[0]["value"]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_statement_of_show_create_table_makes_the_same_table(lake: lakescan.Catalog, format: str) -> None:
    key = ", PRIMARY KEY (id) NOT ENFORCED" if format == "iceberg" else ""
    order = "WRITE LOCALLY ORDERED BY id DESC NULLS LAST" if format == "iceberg" else ""
    lakescan.sql(
        f"CREATE TABLE lake.shop.t (id BIGINT NOT NULL COMMENT 'it''s', day DATE, `a b` ARRAY<DECIMAL(5, 2)>{key}) "
        f"USING {format} PARTITIONED BY (day) {order} COMMENT 'all \\\\ of it'"
    )
    before = lakescan.table("lake.shop.t")
    [made] = rows("SHOW CREATE TABLE lake.shop.t")
    was = (before.schema, before.partitioning, before.sort_order, before.comment, before.format_version)
    lakescan.sql("DROP TABLE lake.shop.t")
    text = made["createtab_stmt"].replace(before.folder, f"{before.folder}_again")
    again = lakescan.sql(text)
    assert (again.schema, again.partitioning, again.sort_order, again.comment, again.format_version) == was
    assert again.schema.field("id").metadata == was[0].field("id").metadata


ODD = "`a.b` INT, `c``d` STRING, `sp ace` INT, `x,y` INT, `f(x)` INT, `ünï` INT, `select` INT, `1a` INT"


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_partitions_by_columns_of_any_names_are_shown_repeated_and_written_to(
    lake: lakescan.Catalog, format: str
) -> None:
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')" if format == "delta" else ""
    names = "`a.b`, `c``d`, `sp ace`, `x,y`, `f(x)`" + (
        ", bucket(4, `ünï`), truncate(3, `select`)" if not mapped else ""
    )
    order = "" if mapped else "WRITE ORDERED BY `x,y` DESC, bucket(2, `a.b`)"
    lakescan.sql(f"CREATE TABLE lake.shop.t ({ODD}) USING {format} PARTITIONED BY ({names}) {order} {mapped}")
    lakescan.sql("CREATE TABLE lake.shop.alike LIKE lake.shop.t")
    values = "1, 'x', 2, 3, 4, 5, 6, 7"
    lakescan.sql(f"INSERT INTO lake.shop.t VALUES ({values})")
    lakescan.sql(
        "INSERT OVERWRITE lake.shop.t PARTITION (`a.b` = 1, `c``d` = 'x', `sp ace` = 2, `x,y` = 3, `f(x)` = 4) "
        "SELECT 8, 9, 10"
    )
    before = lakescan.table("lake.shop.t")
    assert before.to_arrow().to_pylist() == [
        {"a.b": 1, "c`d": "x", "sp ace": 2, "x,y": 3, "f(x)": 4, "ünï": 8, "select": 9, "1a": 10}
    ]
    [made] = rows("SHOW CREATE TABLE lake.shop.t")
    lakescan.sql("DROP TABLE lake.shop.t")
    again = lakescan.sql(made["createtab_stmt"].replace(before.folder, f"{before.folder}_again"))
    for each in (again, lakescan.table("lake.shop.alike")):
        assert (each.partitioning, each.sort_order) == (before.partitioning, before.sort_order)
        assert each.schema.names == before.schema.names


def test_a_table_without_columns_is_shown_as_created(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE lake.shop.t")
    [made] = rows("SHOW CREATE TABLE lake.shop.t")
    lakescan.sql("DROP TABLE lake.shop.t")
    assert lakescan.sql(made["createtab_stmt"]).schema.names == []


def test_a_partition_field_that_version_1_keeps_as_void_is_not_shown(lake: lakescan.Catalog) -> None:
    lakescan.sql(
        "CREATE TABLE lake.shop.t (id INT, day DATE) PARTITIONED BY (day) TBLPROPERTIES ('format-version' = '1')"
    )
    lakescan.sql("ALTER TABLE lake.shop.t DROP PARTITION FIELD day")
    [made] = rows("SHOW CREATE TABLE lake.shop.t")
    assert "PARTITIONED BY" not in made["createtab_stmt"]


def test_a_catalog_is_registered_by_its_properties(tmp_path: Path) -> None:
    lakescan.sql(f"CREATE CATALOG made_by_sql WITH ('warehouse' = '{tmp_path}/w')")
    lakescan.sql("CREATE NAMESPACE made_by_sql.shop")
    assert rows("SHOW NAMESPACES IN made_by_sql") == [{"namespace": "shop"}]
    lakescan.sql("CREATE CATALOG IF NOT EXISTS made_by_sql WITH ('warehouse' = 'elsewhere')")
    with pytest.raises(lakescan.InvalidOption, match="exists already"):
        lakescan.sql("CREATE CATALOG made_by_sql WITH ('warehouse' = 'elsewhere')")
    with pytest.raises(lakescan.UnsupportedFeature, match="hadoop"):
        lakescan.sql("CREATE CATALOG other WITH ('type' = 'iceberg', 'catalog-type' = 'hadoop')")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_partitions_are_shown_by_their_values(lake: lakescan.Catalog, format: str) -> None:
    lakescan.sql(f"CREATE TABLE lake.shop.t (id INT, day DATE, k STRING) USING {format} PARTITIONED BY (day, k)")
    lakescan.sql(
        "INSERT INTO lake.shop.t VALUES (1, DATE '2026-01-31', 'a'), (2, DATE '2026-01-31', 'b'), (3, NULL, 'a')"
    )
    assert len(rows("SHOW PARTITIONS lake.shop.t")) == 3
    assert len(rows("SHOW PARTITIONS lake.shop.t PARTITION (day = DATE '2026-01-31')")) == 2
    assert len(rows("SHOW PARTITIONS lake.shop.t PARTITION (day = NULL, k = 'a')")) == 1
    with pytest.raises(lakescan.NoSuchColumn, match="not partitioned by 'dya'"):
        lakescan.sql("SHOW PARTITIONS lake.shop.t PARTITION (dya = 'x')")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_partitions_are_selected_by_the_new_name_of_their_column(lake: lakescan.Catalog, format: str) -> None:
    """Also by the name of the partition field, which Iceberg keeps."""
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')" if format == "delta" else ""
    lakescan.sql(f"CREATE TABLE lake.shop.t (id INT, old STRING) USING {format} PARTITIONED BY (old) {mapped}")
    lakescan.sql("INSERT INTO lake.shop.t VALUES (1, 'x'), (2, 'y'), (3, NULL)")
    lakescan.sql("ALTER TABLE lake.shop.t RENAME COLUMN old TO new")
    show = "SHOW PARTITIONS lake.shop.t PARTITION "
    assert [len(rows(f"{show}({each})")) for each in ("new = 'x'", "new = NULL", "new = 'z'")] == [1, 1, 0]
    if format == "iceberg":
        assert rows(f"{show}(old = 'x')") == rows(f"{show}(new = 'x')")
    else:
        with pytest.raises(lakescan.NoSuchColumn, match="not partitioned by 'old'"):
            lakescan.sql(f"{show}(old = 'x')")
    with pytest.raises(lakescan.NoSuchColumn, match=r"not partitioned by 'nwe'.*'new'"):
        lakescan.sql(f"{show}(nwe = 'x')")


def test_external_tables_have_a_location(lake: lakescan.Catalog, tmp_path: Path) -> None:
    lakescan.sql(f"CREATE EXTERNAL TABLE lake.shop.t (id INT) LOCATION '{tmp_path}/t'")
    assert lakescan.table("lake.shop.t").folder == f"{tmp_path}/t"
    with pytest.raises(lakescan.InvalidStatement, match="expected LOCATION"):
        lakescan.sql("CREATE EXTERNAL TABLE lake.shop.u (id INT)")


def test_cascade_drops_only_the_tables_of_its_namespace(lake: lakescan.Catalog) -> None:
    """A table named `a.b` is not the table b of the namespace a."""
    lake.create_namespace("shop.a")
    for name in ("shop.a.b", "shop.`a.b`", "shop.`x y`"):
        lake.create_table(name, "id INT")
    assert lake.list_tables("shop") == ["shop.`a.b`", "shop.`x y`"]
    assert [row["tableName"] for row in rows("SHOW TABLES IN lake.shop")] == ["a.b", "x y"]
    assert all(lake.load_table(name).count() == 0 for name in lake.list_tables("shop"))
    lake.create_namespace("other")
    lake.create_table("other.`a.b`", "id INT")
    lake.create_namespace("other.a")
    lake.create_table("other.a.b", "id INT")
    lakescan.sql("DROP NAMESPACE lake.other CASCADE")
    assert lake.list_tables("other.a") == ["other.a.b"]
    assert lake.list_tables("shop.a") == ["shop.a.b"]


def test_a_table_is_renamed_into_a_namespace_of_any_name(lake: lakescan.Catalog) -> None:
    lake.create_namespace("`old ones`")
    lakescan.sql("CREATE TABLE lake.shop.t (id INT)")
    lakescan.sql("ALTER TABLE lake.shop.t RENAME TO `old ones`.u")
    assert lake.list_tables("`old ones`") == ["`old ones`.u"]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize("name", ["tag_x", "branch_x", "branch_main", "snapshots", "history"])
def test_an_existing_table_takes_precedence_over_a_branch_tag_or_metadata_table(
    lake: lakescan.Catalog, format: str, name: str
) -> None:
    def statements() -> None:
        full = f"lake.shop.{name}"
        lakescan.sql(f"CREATE TABLE {full} (id INT) USING {format}")
        lakescan.sql(f"INSERT INTO {full} VALUES (1), (2)")
        lakescan.sql(f"UPDATE {full} SET id = {name}.id + 10 WHERE {full}.id = 1")
        lakescan.sql(f"DELETE FROM {full} WHERE id = 2")
        lakescan.sql(f"MERGE INTO {full} AS t USING new ON t.id = new.id WHEN NOT MATCHED THEN INSERT *", new=NEW)
        lakescan.sql(f"ALTER TABLE {full} ADD COLUMN n INT")
        assert rows(f"SELECT id FROM {full} ORDER BY id") == [{"id": 3}, {"id": 11}]
        lakescan.sql("USE lake.shop")
        lakescan.sql(f"INSERT INTO {name} VALUES (4, 4)")
        assert rows(f"SELECT count(*) AS n FROM {name}") == [{"n": 3}]
        assert lakescan.table(full).scan().count() == 3

    copy_context().run(statements)


def test_a_tag_or_branch_is_found_if_no_table_has_the_name(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE lake.shop.tag_x (id INT)")
    lakescan.sql("INSERT INTO lake.shop.tag_x VALUES (1)")
    for text in ("CREATE BRANCH b", "CREATE TAG t"):
        lakescan.sql(f"ALTER TABLE lake.shop.tag_x {text}")
    lakescan.sql("INSERT INTO lake.shop.tag_x.branch_b VALUES (2)")
    assert rows("SELECT count(*) AS n FROM lake.shop.tag_x.branch_b") == [{"n": 2}]
    assert rows("SELECT count(*) AS n FROM lake.shop.tag_x.tag_t") == [{"n": 1}]
    with pytest.raises(lakescan.InvalidStatement, match=r"lake\.shop\.tag_x\.tag_t is a tag"):
        lakescan.sql("INSERT INTO lake.shop.tag_x.tag_t VALUES (2)")
