"""CREATE TABLE from Python and from SQL: the new table has the requested columns, partitions and properties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.statements.tables import ddl as tables
from tests.tables.test_outcomes import looks

STATEMENT = """
    CREATE TABLE local.db.events (
        id BIGINT NOT NULL COMMENT 'the id',
        ts TIMESTAMP,
        local_ts TIMESTAMP_NTZ,
        address STRUCT<city: STRING NOT NULL COMMENT 'where', zip: INT>,
        tags ARRAY<STRING>,
        counts MAP<STRING, DECIMAL(10, 2)>,
        small TINYINT,
        PRIMARY KEY (id) NOT ENFORCED
    )
    USING iceberg
    PARTITIONED BY (days(ts), bucket(16, id), truncate(4, address.city))
    COMMENT 'what happened'
    TBLPROPERTIES ('format-version' = '2', 'write.parquet.compression-codec' = 'gzip')
"""


def test_a_statement_makes_the_table_that_it_describes(local: lakescan.Catalog) -> None:
    table = lakescan.sql(None, STATEMENT)
    assert table is not None
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds == {
        "id": "int64",
        "ts": "timestamp[us, tz=UTC]",
        "local_ts": "timestamp[us]",
        "address": "struct<city: string not null, zip: int32>",
        "tags": "list<element: string>",
        "counts": "map<string, decimal128(10, 2)>",
        "small": "int32",
    }
    assert not table.schema.field("id").nullable
    assert table.schema.field("id").metadata[b"comment"] == b"the id"
    assert table.partitioning == "day(ts), bucket(16, id), truncate(4, address.city)"
    assert table.properties["write.parquet.compression-codec"] == "gzip"
    assert table.properties["comment"] == "what happened"
    assert local._catalog.load_table("db.events").schema().identifier_field_names() == {"id"}


def test_python_makes_the_same_table(local: lakescan.Catalog) -> None:
    columns = pa.schema(
        [pa.field("id", pa.int64(), nullable=False, metadata={"comment": "the id"}), ("ts", pa.date32())]
    )
    options = {
        "primary_key": ["id"],
        "partition_by": ["months(ts)"],
        "sort_by": ["ts desc", "bucket(4, id) nulls last"],
    }
    table = local.create_table("db.t", columns, **options)
    assert table.partitioning == "month(ts)"
    assert table.sort_order == "ts desc nulls last, bucket(4, id) asc nulls last"
    assert table.schema.field("id").metadata[b"comment"] == b"the id"
    assert local._catalog.load_table("db.t").schema().identifier_field_names() == {"id"}


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_statements_create_change_and_drop_a_table(local: lakescan.Catalog, format: str) -> None:
    lakescan.sql(None, "CREATE NAMESPACE IF NOT EXISTS local.other")
    lakescan.sql(None, f"CREATE TABLE local.other.t (a INT, b STRING) USING {format} PARTITIONED BY (b)")
    with pytest.raises(lakescan.TableExists):
        lakescan.sql(None, f"CREATE TABLE local.other.t (a INT) USING {format}")
    again = lakescan.sql(None, f"CREATE TABLE IF NOT EXISTS local.other.t (c INT) USING {format}")
    assert again is not None
    assert again.schema.names == ["a", "b"]
    again.append(pa.table({"a": [1], "b": ["x"]}))
    replaced = lakescan.sql(None, f"CREATE OR REPLACE TABLE local.other.t (b STRING, d DATE) USING {format}")
    assert replaced is not None
    assert (replaced.schema.names, replaced.partitioning) == (["b", "d"], "unpartitioned")
    assert replaced.scan().to_arrow().num_rows == 0
    renamed = lakescan.sql(None, "ALTER TABLE local.other.t RENAME TO other.u")
    assert str(renamed and renamed.name) == "local.other.u"
    lakescan.sql(None, "DROP TABLE local.other.u")
    lakescan.sql(None, "DROP TABLE IF EXISTS local.other.u")
    lakescan.sql(None, "DROP NAMESPACE local.other")
    assert local.list_namespaces() == ["db"]


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        ("id DOUBLE NOT NULL", {"primary_key": ["id"]}, lakescan.InvalidOption, "cannot have float, double or nested"),
        ("id INT", {"primary_key": ["id"]}, lakescan.InvalidOption, "declare it NOT NULL"),
        ("id INT NOT NULL", {"primary_key": ["ids"]}, lakescan.NoSuchColumn, "Did you mean 'id'"),
        ("id INT", {"partition_by": ["weeks(id)"]}, lakescan.InvalidOption, "is not a partition transform"),
        ("id INT", {"partition_by": ["days(id)"]}, lakescan.InvalidOption, "has no such transform"),
        ("id INT", {"partition_by": ["bucket(id)"]}, lakescan.InvalidOption, "is not a partition transform"),
        ("id INT, ID INT", {}, lakescan.InvalidOption, "is defined twice"),
        ("id INT, v VARIANT", {}, lakescan.InvalidOption, "requires format version 3"),
        ("id INT", {"properties": {"format-version": "4"}}, lakescan.InvalidOption, "must be 1, 2 or 3"),
        ("id INT DEFAULT 3", {}, lakescan.InvalidOption, "has a default, which requires format version 3"),
        ("id INT", {"defaults": {"ids": 3}}, lakescan.InvalidOption, "Did you mean 'id'"),
        ("id INT", {"defaults": {"id": 2**40}}, lakescan.InvalidOption, "is not a valid int"),
        ("id INT DEFAULT 'x'", {}, lakescan.InvalidOption, "is not a valid int"),
        ("id INT DEFAULT rand()", {}, lakescan.InvalidOption, "is not a literal"),
        ("v VARIANT", {"properties": {"format-version": "3"}}, lakescan.UnsupportedFeature, "Unsupported field type"),
        ("id INT", {"format": "hudi"}, lakescan.InvalidOption, "use 'iceberg' or 'delta'"),
        ("id INTT", {}, lakescan.InvalidStatement, "'INTT' is not a column type. Did you mean 'INT'"),
    ],
)
def test_a_table_that_cannot_be_made_is_refused(local, columns, options, error, message) -> None:
    with pytest.raises(error, match=message):
        local.create_table("db.t", columns, **options)
    assert not local.table_exists("db.t")


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("ANALYZE TABLE local.db.t COMPUTE STATISTICS", lakescan.UnsupportedFeature, "/docs/sql.md lists"),
        ("CREATE TABLE nowhere.db.t (id INT)", lakescan.NoSuchCatalog, "does not begin with a known catalog"),
        ("CREATE TABLE local.t (id INT)", lakescan.InvalidOption, "is too short: write catalog.namespace.table"),
        ("CREATE TABLE local.db.t (id INT) OPTIONS (a 'b')", lakescan.UnsupportedFeature, "Use TBLPROPERTIES"),
        ("CREATE TABLE", lakescan.InvalidStatement, "expected the name of a table, and the text ends"),
    ],
)
def test_unsupported_statements_are_refused_with_the_reason(local, statement, error, message) -> None:
    with pytest.raises(error, match=message):
        lakescan.sql(None, statement)


@pytest.mark.spark
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_table_is_created_from_a_query(spark, local: lakescan.Catalog, format: str) -> None:
    query = "SELECT id, CAST(id % 2 AS STRING) AS k FROM range(10)"
    made = lakescan.sql(spark, f"CREATE TABLE local.db.q USING {format} PARTITIONED BY (k) AS {query}")
    assert made is not None
    assert (made.partitioning, made.scan().count()) == ("k", 10)
    again = lakescan.sql(spark, f"CREATE OR REPLACE TABLE local.db.q USING {format} AS SELECT id FROM range(3)")
    assert again is not None
    assert sorted(again.scan().to_arrow()["id"].to_pylist()) == [0, 1, 2]
    with pytest.raises(lakescan.SchemaMismatch):
        lakescan.sql(spark, f"CREATE TABLE local.db.wrong (id INT, x INT NOT NULL) USING {format} AS {query}")
    assert not local.table_exists("db.wrong")


@pytest.fixture
def version_1(local: lakescan.Catalog) -> lakescan.Table:
    of_version = {"format-version": "1"}
    made = local.create_table("db.t", "id BIGINT, part STRING", partition_by=("part",), properties=of_version)
    made.append(pa.table({"id": [1], "part": ["a"]}))
    return made


def test_a_column_that_version_1_partitions_by_stays_when_its_table_is_replaced(version_1, local) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="'part', which format version 1 cannot remove"):
        local.create_table("db.t", "id BIGINT", replace=True)
    assert lakescan.table("local.db.t").count() == 1
    local.create_table("db.t", "id BIGINT, part STRING", replace=True).append(pa.table({"id": [2], "part": ["b"]}))
    assert lakescan.table("local.db.t").scan().to_arrow().to_pylist() == [{"id": 2, "part": "b"}]


def test_the_error_names_a_partition_field_whose_column_was_dropped_concurrently(version_1, local) -> None:
    theirs = connection("local").load_table("db.t")
    with theirs.update_spec() as spec:
        spec.remove_field("part")
    with theirs.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("part")
    with pytest.raises(lakescan.UnsupportedFeature, match="partition field 'part' has lost its column"):
        lakescan.table("local.db.t").append(pa.table({"id": [2]}))
    assert lakescan.table("local.db.t").count() == 1


@pytest.mark.parametrize("clause", ["CHECK (b > 0)", "UNIQUE", "REFERENCES other"])
def test_unsupported_column_rules_are_refused(local, clause) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="of the column 'b' in CREATE TABLE"):
        lakescan.sql(f"CREATE TABLE local.db.rules (a INT, b BIGINT {clause}) USING delta")


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("how", ["empty", "with rows"])
def test_a_table_renamed_concurrently_after_its_creation_keeps_its_files(
    local: lakescan.Catalog, version: str, how: str
) -> None:
    """pyiceberg does not find the table that it registered. The creation did not fail, so no file is removed."""
    own = type(connection("local"))
    register, rows, patches = own.register_table, pa.table({"id": [1, 2]}), pytest.MonkeyPatch()

    def renamed(self: Any, identifier: Any, metadata_location: str, **named: Any) -> Any:
        patches.undo()
        register(self, identifier, metadata_location, **named)
        self.rename_table(identifier, ("db", "other"))
        return self.load_table(identifier)

    def created(self: Any, identifier: Any, *arguments: Any, **named: Any) -> Any:
        patches.undo()
        self.create_table(identifier, *arguments, **named)
        self.rename_table(identifier, ("db", "other"))
        return self.load_table(identifier)

    patches.setattr(own, "register_table", renamed)
    patches.setattr(own, "create_table", created)
    if how == "empty":
        with pytest.raises(
            lakescan.NoSuchTable, match=r"db\.t is created, but .* another writer has dropped or renamed"
        ):
            local.create_table("db.t", rows.schema, properties={"format-version": version})
    else:
        saved = lakescan.save(rows, "local.db.t", mode="append", properties={"format-version": version})
        assert saved.rows == 2
    assert local.list_tables("db") == ["db.other"]
    assert lakescan.table("local.db.other").scan().to_arrow()["id"].to_pylist() == ([] if how == "empty" else [1, 2])


def test_a_rename_succeeds_even_if_the_table_is_dropped_right_after(
    local: lakescan.Catalog,
) -> None:
    local.create_table("db.t", "id BIGINT")
    own = type(connection("local"))
    rename, patches = own.rename_table, pytest.MonkeyPatch()

    def dropped(self: Any, old: Any, new: Any) -> Any:
        patches.undo()
        rename(self, old, new)
        self.drop_table(new)
        return self.load_table(new)

    patches.setattr(own, "rename_table", dropped)
    with pytest.raises(lakescan.NoSuchTable, match=r"db\.other is renamed, but .* another writer has dropped"):
        local.rename_table("db.t", "db.other")
    with pytest.raises(lakescan.NoSuchTable, match=r"no table 'db\.missing'"):
        local.rename_table("db.missing", "db.other")


def test_reading_a_new_table_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table exists, so the statement does not fail with the error of a busy store."""
    real, answers = tables.open_table, [lakescan.StorageError("slow down")]

    def busy(*arguments: Any) -> Any:
        if answers:
            raise answers.pop()
        return real(*arguments)

    monkeypatch.setattr(tables, "open_table", busy)
    with looks(2):
        made = lakescan.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id BIGINT)")
    assert not answers
    assert made.count() == 0
