"""DELETE, UPDATE, MERGE and upserts in Python: their effects, and the cases that they refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import (
    AmbiguousMerge,
    InvalidOption,
    InvalidStatement,
    LimitExceeded,
    NoSuchColumn,
    NoSuchTable,
    QueryFailed,
    SchemaMismatch,
    StorageError,
    UnsupportedFeature,
)
from lakescan.iceberg.table import IcebergTable
from lakescan.statements.rows.execute import change
from lakescan.statements.syntax.dml import Delete
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.tables.base import Target
from tests.support.delta_rules import identity, table_with_rules
from tests.tables.support import Make, maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
MODES = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
KINDS = {
    "iceberg version 1": {},
    "iceberg": {},
    "iceberg, merge-on-read": MODES,
    "iceberg version 3, merge-on-read": MODES,
    "delta": {},
    "delta, vectors": {"delta.enableDeletionVectors": "true"},
}


@pytest.fixture(params=KINDS)
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    """Return a function that makes the table `local.db.t` of each format, version and mode in turn."""
    make = maker(request.param.split(",")[0], local)
    properties = KINDS[request.param]
    return lambda *arguments, **more: make(*arguments, properties=properties, **more)


@pytest.fixture
def table(made: Make) -> lakescan.Table:
    """Rows 1 to 4 of two partitions."""
    made().append(rows((1, "a"), (2, "a"), (3, "b"), (4, None)))
    return now()


def test_delete_removes_the_rows_that_satisfy_a_condition(table: lakescan.Table) -> None:
    result = table.delete("id >= 2 AND part <> 'b'")
    assert (result.deleted, result.updated, result.inserted) == (1, 0, 0)
    assert pairs() == [(1, "a"), (3, "b"), (4, None)]


def test_delete_without_a_condition_removes_all_rows(table: lakescan.Table) -> None:
    assert table.delete().deleted == 4
    assert pairs() == []
    assert table.delete().deleted == 0


def test_files_that_match_completely_are_removed_without_being_read(table: lakescan.Table, tmp_path: Path) -> None:
    files = table.scan().where("part = 'b'").plan().files
    [path] = files["path"].to_pylist()
    Path(path.removeprefix("file://")).write_bytes(b"unreadable")
    result = table.delete("part = 'b'")
    assert (result.deleted, result.removed_files, result.files, result.delete_files) == (1, 1, 0, 0)
    assert pairs() == [(1, "a"), (2, "a"), (4, None)]


def test_a_file_that_loses_all_rows_is_removed(table: lakescan.Table) -> None:
    result = table.delete("id % 2 >= 0 AND upper(part) = 'A'")
    assert (result.removed_files, result.files, result.delete_files) == (1, 0, 0)
    assert pairs() == [(3, "b"), (4, None)]


def test_a_condition_may_be_a_filter_of_python(table: lakescan.Table) -> None:
    table.delete((lakescan.col("id") > 2) & lakescan.col("part").is_not_null())
    assert pairs() == [(1, "a"), (2, "a"), (4, None)]
    with pytest.raises(NoSuchColumn, match="ident"):
        table.delete(lakescan.col("ident") == 1)
    table.append(rows((7, "C:\\"), (8, "rand()"), (9, "a'b")))
    for text, count in (("C:\\", 5), ("rand()", 4), ("a'b", 3)):  # values, not parts of an SQL text
        assert table.delete(lakescan.col("part") == text).deleted == 1
        assert now().count() == count
    assert table.delete(lakescan.col("id").is_in(list(range(2, 60)))).deleted == 2


def test_an_update_takes_a_filter_of_python(table: lakescan.Table) -> None:
    result = table.update({"part": "concat(part, '!')"}, where=lakescan.col("part") == "a")
    assert (result.updated, result.deleted) == (2, 0)
    assert pairs() == [(1, "a!"), (2, "a!"), (3, "b"), (4, None)]
    table.append(rows((8, "rand()"), (9, "C:\\")))
    assert table.update({"id": "id + 100"}, where=lakescan.col("part").is_in(["rand()", "C:\\"])).updated == 2
    with pytest.raises(NoSuchColumn, match="ident"):
        table.update({"id": "7"}, where=lakescan.col("ident") == 1)
    assert sorted(i for i, _ in pairs()) == [1, 2, 3, 4, 108, 109]


def test_a_filter_of_python_deletes_from_tables_with_a_change_feed(local: lakescan.Catalog) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    table = local.create_table("db.t", "id BIGINT, part STRING", format="delta", properties=properties)
    table.append(rows((1, "a"), (2, "b"), (3, "a")))
    assert table.delete(lakescan.col("id") > 1).deleted == 2
    assert pairs() == [(1, "a")]
    changes = now().changes(1, 2).to_arrow()
    assert sorted(zip(changes["id"].to_pylist(), changes["_change_type"].to_pylist(), strict=True)) == [
        (2, "delete"),
        (3, "delete"),
    ]


def test_texts_and_columns_are_not_mistaken_for_nondeterministic_functions(table: lakescan.Table) -> None:
    table.append(rows((5, "rand()"), (6, "uuid ()")))
    assert table.delete("part = 'rand()' -- rand()").deleted == 1
    assert table.update({"id": "60"}, "part = 'uuid ()'").updated == 1
    for condition in ("rand() < 0.5", "id > 1 AND `rand` () < 0.5", "id IN (SELECT shuffle(array(1))[0])"):
        with pytest.raises(InvalidStatement, match="another value at each call"):
            table.delete(condition)


def test_columns_may_have_the_names_of_internal_columns(local: lakescan.Catalog) -> None:
    """User columns may have the names of the query's own helper columns."""
    names = ("__lakescan_action", "__lakescan_matched", "__lakescan_0", "__lakescan__action")
    columns = ", ".join(f"{name} BIGINT" for name in names)
    table = local.create_table("db.t", f"id BIGINT, part STRING, {columns}")
    own = {name: pa.array([7, 7], pa.int64()) for name in names}
    table.append(pa.table({"id": [1, 2], "part": ["a", "b"], **own}))
    source = pa.table({"id": [2, 3], "part": ["B", "C"], **{name: pa.array([9, 9], pa.int64()) for name in names}})
    merge = table.merge(source, on="t.id = s.id").when_matched_update({"part": "lower(s.part)"})
    merge.when_not_matched_insert({"id": "s.id + 0", "part": "lower(s.part)"}).execute()
    assert pairs() == [(1, "a"), (2, "b"), (3, "c")]
    assert table.update({"part": "upper(part)"}, "__lakescan_action = 7").updated == 2


def test_with_queries_can_be_used_in_conditions_and_values(table: lakescan.Table) -> None:
    some = "WITH some AS (SELECT id FROM local.db.t WHERE part = 'a'), one (n) AS (SELECT min(id) FROM some) "
    update = some + "UPDATE local.db.t SET part = 'x' WHERE id IN (SELECT id FROM some) AND id > (SELECT n FROM one)"
    assert lakescan.sql(update).updated == 1
    assert pairs() == [(1, "a"), (2, "x"), (3, "b"), (4, None)]
    delete = some + "DELETE FROM local.db.t AS u WHERE NOT EXISTS (SELECT 1 FROM some WHERE some.id = u.id) -- others"
    assert lakescan.sql(delete).deleted == 3
    assert pairs() == [(1, "a")]
    assert lakescan.sql("WITH unused AS (SELECT 1) DELETE FROM local.db.t WHERE id = 1").deleted == 1
    with pytest.raises(NoSuchTable, match="sme"):
        lakescan.sql(some + "DELETE FROM local.db.t WHERE id IN (SELECT id FROM sme)")


def test_the_history_of_delta_counts_rows_by_clause(local: lakescan.Catalog) -> None:
    """The names are those of Delta's own writer; times are present, with any value."""
    table = local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    table.append(rows((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "b")))
    source = pa.table({"id": [1, 2, 7], "gone": [True, False, False]})
    merge = table.merge(source, on="t.id = s.id").when_matched_delete("s.gone").when_matched_update({"part": "'new'"})
    merge = merge.when_not_matched_by_source_delete("t.id = 3").when_not_matched_by_source_update({"part": "'old'"})
    merge.when_not_matched_insert({"id": "s.id"}).execute()
    [info] = [each for each in now().history().to_pylist() if each["operation"] == "MERGE"]
    found = {name: int(value) for name, value in info["operationMetrics"]}
    assert {name: found[name] for name in found if "Rows" in name} == {
        "numSourceRows": 3,
        "numTargetRowsInserted": 1,
        "numTargetRowsUpdated": 3,
        "numTargetRowsMatchedUpdated": 1,
        "numTargetRowsNotMatchedBySourceUpdated": 2,
        "numTargetRowsDeleted": 2,
        "numTargetRowsMatchedDeleted": 1,
        "numTargetRowsNotMatchedBySourceDeleted": 1,
        "numTargetRowsCopied": 0,
        "numOutputRows": 4,
    }
    times = {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"}
    assert times <= found.keys()
    assert found["scanTimeMs"] + found["rewriteTimeMs"] <= found["executionTimeMs"] + 1
    now().delete("id = 2")
    [info] = [each for each in now().history().to_pylist() if each["operation"] == "DELETE"]
    assert times <= dict(info["operationMetrics"]).keys()


def test_conditions_have_subqueries(table: lakescan.Table) -> None:
    name = "`local`.db.t"
    assert table.delete(f"id = (SELECT max(id) FROM {name}) OR id IN (SELECT 1)").deleted == 2
    assert pairs() == [(2, "a"), (3, "b")]


def test_nothing_is_committed_if_nothing_matches(table: lakescan.Table) -> None:
    version = now().version
    assert str(table.delete("id > 100")) == "no row changed"
    assert table.update({"part": "'z'"}, "id > 100").updated == 0
    assert now().version == version


def test_update_computes_values_of_the_old_row(table: lakescan.Table) -> None:
    result = table.update({"part": "concat(part, id)", "id": "id + 10"}, where="id < 4")
    assert result.updated == 3
    assert pairs() == [(4, None), (11, "a1"), (12, "a2"), (13, "b3")]


def test_update_of_the_partition_column_moves_rows(table: lakescan.Table) -> None:
    table.update({"part": "'c'"}, where="part = 'a'")
    assert {path["part"] for path in table.scan().where("part = 'c'").plan().files["partition"].to_pylist()} == {"c"}
    assert pairs() == [(1, "c"), (2, "c"), (3, "b"), (4, None)]


def test_members_of_structs_are_updated(made: Make) -> None:
    made("id BIGINT, at STRUCT<city: STRING, zip: INT>", partition_by=()).append(
        pa.table({"id": [1, 2], "at": [{"city": "Oslo", "zip": 1}, None]})
    )
    now().update({"at.zip": "id + 7"})
    found = now().to_arrow().sort_by("id").to_pylist()
    assert [row["at"] for row in found] == [{"city": "Oslo", "zip": 8}, {"city": None, "zip": 9}]


@pytest.mark.parametrize(
    "source",
    [
        lambda found: found,
        lambda found: found.to_batches()[0],
        lambda found: pa.RecordBatchReader.from_batches(found.schema, found.to_batches()),
        lambda found: found.to_pandas(),
        polars.from_arrow,
        lambda found: polars.from_arrow(found).lazy(),
    ],
    ids=["table", "batch", "reader", "pandas", "polars", "lazy"],
)
def test_any_data_is_merged(table: lakescan.Table, source: Callable[[pa.Table], Any]) -> None:
    result = (
        table.merge(source(rows((2, "x"), (9, "y"))), on="t.id = s.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 0)
    assert pairs() == [(1, "a"), (2, "x"), (3, "b"), (4, None), (9, "y")]


def test_another_table_and_the_table_itself_are_merged(table: lakescan.Table) -> None:
    for source in (now, lambda: now().scan().where("id < 3")):
        table.merge(source(), on="t.id = s.id").when_matched_update({"part": "concat(s.part, '!')"}).execute()
    assert pairs() == [(1, "a!!"), (2, "a!!"), (3, "b!"), (4, None)]


def test_the_first_clause_whose_condition_holds_applies(table: lakescan.Table) -> None:
    source = pa.table({"id": [1, 2, 3, 7, 8], "what": ["drop", "keep", "new", "new", "drop"]})
    result = (
        table.merge(source, on="t.id = s.id")
        .when_matched_delete("s.what = 'drop'")
        .when_matched_update({"part": "s.what"}, "s.what = 'new'")
        .when_not_matched_insert({"id": "s.id", "part": "upper(s.what)"}, "s.what <> 'drop'")
        .when_not_matched_by_source_update({"part": "'left'"}, "t.id = 4")
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 2, 1)
    assert pairs() == [(2, "a"), (3, "new"), (4, "left"), (7, "NEW")]


def test_values_are_computed_only_for_rows_that_take_them(table: lakescan.Table) -> None:
    source = pa.table({"id": [1, 9], "text": ["7", "no number"]})
    table.merge(source, on="t.id = s.id").when_matched_update({"id": "s.text"}).execute()
    assert pairs() == [(2, "a"), (3, "b"), (4, None), (7, "a")]


def test_unqualified_names_belong_to_the_only_side_of_a_clause(table: lakescan.Table) -> None:
    """As Spark resolves them; both sides have a column `part`, and the source a column `t`."""
    source = pa.table({"id": [1, 8, 9], "part": ["x", "y", "z"], "t": [1, 2, 3]})
    merge = table.merge(source, on="t.id = s.id")
    merge = merge.when_not_matched_insert({"id": "id", "part": "concat(`part`, s.t)"}, "part = 'y' AND id > 5")
    merge.when_not_matched_by_source_update({"part": "upper(part)"}, "part = 'b'").execute()
    assert pairs() == [(1, "a"), (2, "a"), (3, "B"), (4, None), (8, "y2")]
    with pytest.raises(InvalidStatement, match=r"(?i)ambiguous|several"):
        table.merge(source, on="t.id = s.id").when_matched_update({"part": "part"}).execute()


def test_null_keys_match_nothing(table: lakescan.Table) -> None:
    table.append(rows((None, "n")))
    source = pa.table({"id": pa.array([None], pa.int64()), "part": ["new"]})
    result = table.merge(source, on="t.id = s.id").when_matched_delete().when_not_matched_insert_all().execute()
    assert (result.inserted, result.deleted) == (1, 0)


def test_a_row_with_several_matches_is_an_error_that_names_it(table: lakescan.Table) -> None:
    version = now().version
    source = rows((2, "x"), (2, "y"))
    with pytest.raises(AmbiguousMerge, match="the row with id = 2 matches more than one row"):
        table.merge(source, on="t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(AmbiguousMerge):
        table.merge(source, on="t.id = s.id").when_matched_delete("s.part = 'x'").execute()
    assert now().version == version
    assert table.merge(source, on="t.id = s.id").when_matched_delete().execute().deleted == 1


def test_failed_statements_leave_no_files(table: lakescan.Table, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(AmbiguousMerge):
        table.merge(rows((1, "x"), (2, "y"), (2, "z")), on="t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(QueryFailed):
        table.update({"id": "CASE WHEN id < 3 THEN id ELSE CAST(part AS BIGINT) END"})
    assert sorted(tmp_path.rglob("*")) == before


def test_upsert_updates_by_key_and_inserts_the_rest(table: lakescan.Table) -> None:
    result = table.upsert(rows((1, "z"), (8, "n")), keys=["id"])
    assert (result.inserted, result.updated) == (1, 1)
    assert pairs() == [(1, "z"), (2, "a"), (3, "b"), (4, None), (8, "n")]


def test_upsert_uses_the_primary_key_by_default(local: lakescan.Catalog) -> None:
    table = local.create_table("db.k", "id BIGINT NOT NULL, part STRING, PRIMARY KEY (id)")
    table.append(rows((1, "a")))
    table.upsert(pandas.DataFrame({"id": [1, 2], "part": ["b", "c"]}))
    assert table.to_arrow().sort_by("id").to_pylist() == [{"id": 1, "part": "b"}, {"id": 2, "part": "c"}]


def test_upsert_needs_keys_that_are_unique(table: lakescan.Table) -> None:
    with pytest.raises(InvalidOption, match="no identifier fields"):
        table.upsert(rows((1, "z")))
    with pytest.raises(AmbiguousMerge, match="2 of the new rows have id = 8"):
        table.upsert(rows((8, "z"), (8, "n")), keys="id")
    with pytest.raises(NoSuchColumn, match="ident"):
        table.upsert(rows((8, "z")), keys="ident")


def test_columns_that_an_insert_leaves_out_are_null(table: lakescan.Table) -> None:
    table.merge(rows((7, "x")), on="t.id = s.id").when_not_matched_insert({"id": "s.id"}).execute()
    assert pairs()[-1] == (7, None)


def test_new_columns_of_the_source_are_added_if_wanted(table: lakescan.Table) -> None:
    source = pa.table({"id": [1, 9], "part": ["x", "y"], "more": [1.5, 2.5]})
    table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert "more" not in now().schema.names
    table.merge(source, on="t.id = s.id", merge_schema=True).when_matched_update_all().execute()
    assert dict(zip(now().to_arrow()["id"].to_pylist(), now().to_arrow()["more"].to_pylist(), strict=True))[9] == 2.5


def test_values_that_do_not_fit_are_refused_before_anything_is_written(table: lakescan.Table) -> None:
    version, source = now().version, rows((1, "x"))
    with pytest.raises(NoSuchColumn, match=r"'prt'.*part"):
        table.update({"prt": "1"})
    with pytest.raises(InvalidStatement, match="no column"):
        table.delete("prt = 'a'")
    with pytest.raises(SchemaMismatch, match="store assignment"):
        table.update({"id": "DATE '2026-01-31'"})
    with pytest.raises(InvalidStatement, match="is set twice"):
        table.update({"part": "'a'", "PART": "'b'"})
    with pytest.raises(InvalidStatement, match="another value at each call"):
        table.delete("rand() < 0.5")
    with pytest.raises(InvalidStatement, match="the MERGE has no clause"):
        table.merge(source, on="t.id = s.id").execute()
    with pytest.raises(InvalidStatement, match="would never apply"):
        table.merge(source, on="t.id = s.id").when_matched_delete().when_matched_update_all()
    with pytest.raises(InvalidStatement, match="no column 'part'"):
        table.merge(pa.table({"id": [1]}), on="t.id = s.id").when_matched_update_all().execute()
    with pytest.raises(InvalidStatement):
        table.merge(source, on="id = id").when_matched_delete().execute()
    with pytest.raises(InvalidOption, match="for overwrites only"):
        table.delete(replace_where="id = 1")
    with pytest.raises(InvalidOption, match="row-change-mode"):
        table.append(source, row_change_mode="copy-on-write")
    assert now().version == version


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_instants_of_any_unit_are_keys(made: Make, unit: str) -> None:
    moments = pa.array([datetime(2026, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)], pa.timestamp("us", "UTC"))
    made("at TIMESTAMP, n BIGINT", partition_by=()).append(pa.table({"at": moments[:2], "n": [1, 2]}))
    new = pa.table({"at": moments[1:].cast(pa.timestamp(unit, "Europe/Oslo")), "n": [20, 30]})
    assert now().upsert(new.to_pandas(), "at").updated == 1
    assert sorted(zip(*now().to_arrow().to_pydict().values(), strict=True)) == [
        (datetime(2026, 1, day, 12, tzinfo=UTC), n) for day, n in ((1, 1), (2, 20), (3, 30))
    ]


def test_a_merge_sets_members_of_structs(made: Make) -> None:
    made("id BIGINT, at STRUCT<city: STRING, tags: ARRAY<STRING>>", partition_by=()).append(
        pa.table({"id": [1, 2], "at": [{"city": "Oslo", "tags": ["a"]}, {"city": "Bonn", "tags": []}]})
    )
    new = pa.table({"id": [2, 3], "town": ["Köln", "Rom"]})
    merge = now().merge(new, on="t.id = s.id").when_matched_update({"at.city": "s.town"})
    merge.when_not_matched_insert({"id": "s.id"}).execute()
    found = now().to_arrow().sort_by("id").to_pylist()
    assert [row["at"] for row in found] == [
        {"city": "Oslo", "tags": ["a"]},
        {"city": "Köln", "tags": []},
        None,
    ]


def test_nulls_in_not_null_columns_are_refused(made: Make) -> None:
    made("id BIGINT NOT NULL, part STRING").append(rows((1, "a")))
    with pytest.raises(SchemaMismatch, match="id"):
        now().update({"id": "NULL"})
    with pytest.raises(SchemaMismatch, match="id"):
        now().merge(rows((2, "x")), on="t.id = s.id").when_not_matched_insert({"part": "s.part"}).execute()
    assert pairs() == [(1, "a")]


def test_overflows_fail(made: Make) -> None:
    made("id INT, part STRING").append(pa.table({"id": pa.array([2_000_000_000], pa.int32()), "part": ["a"]}))
    for value in ("id + id", "CAST(id AS BIGINT) * 2", "'12x'"):
        with pytest.raises(QueryFailed):
            now().update({"id": value})
    now().update({"id": "'12'"})
    assert pairs() == [(12, "a")]


def test_rows_of_append_only_tables_stay(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT", format="delta", properties={"delta.appendOnly": "true"})
    table.append(pa.table({"id": [1]}))
    for statement in (lambda: table.delete("id = 1"), lambda: table.update({"id": "2"})):
        with pytest.raises(UnsupportedFeature, match="appendOnly"):
            statement()


def test_the_mode_is_an_option(made: Make) -> None:
    made(partition_by=()).append(rows((1, "a"), (2, "b")))
    result = now().delete("id = 1", row_change_mode="copy-on-write")
    assert (result.files, result.removed_files, result.delete_files) == (1, 1, 0)
    assert pairs() == [(2, "b")]


def test_rows_beyond_the_memory_limit_wait_in_files(local: lakescan.Catalog) -> None:
    """The join holds 60 MB of texts."""
    table = local.create_table("db.t", "id BIGINT, part STRING")
    numbers = pa.array(range(400_000), pa.int64())
    table.append(pa.table({"id": numbers, "part": pa.array(["a text of some length"] * 400_000)}))
    source = pa.table({"id": numbers, "part": pa.array([f"{n:0150d}" for n in range(400_000)])})

    def merged(limit: str) -> int:
        merge = table.merge(source, on="t.id = s.id", memory_limit=limit).when_matched_update_all()
        return merge.execute().updated

    assert merged("56m") == 400_000
    with pytest.raises(LimitExceeded, match="memory-limit"):
        merged("8m")
    with pytest.raises(InvalidOption, match="memory-limit"):
        table.append(source, memory_limit="1g")


def test_uuids_are_kept_and_set_by_texts(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT, u UUID")
    uuids = pa.array([b"0123456789abcdef", None], pa.binary(16))
    table.append(pa.table({"id": [1, 2], "u": pa.ExtensionArray.from_storage(pa.uuid(), uuids)}))
    table.update({"id": "id + 10"})
    table.update({"u": "'00000000-0000-0000-0000-00000000000A'"}, "id = 12")
    found = table.to_arrow().sort_by("id")["u"].to_pylist()
    assert [each.hex for each in found] == [b"0123456789abcdef".hex(), f"{10:032x}"]
    with pytest.raises(SchemaMismatch, match="not a UUID"):
        table.update({"u": "'7'"})


def test_nanoseconds_are_not_rounded(local: lakescan.Catalog) -> None:
    rows = pa.table({"id": [1, 2], "at": pa.array([1_234_567_891, 2], pa.timestamp("ns"))})
    table = local.create_table("db.t", rows.schema, properties={"format-version": "3"})
    table.append(rows)
    with pytest.raises(UnsupportedFeature, match="nanoseconds"):
        table.update({"id": "7"})
    table.delete("id = 2")
    assert table.to_arrow()["at"].cast(pa.int64()).to_pylist() == [1_234_567_891]


def test_statements_do_not_round_the_nanoseconds_that_they_read(local: lakescan.Catalog) -> None:
    fine = pa.table({"id": [1, 2], "at": pa.array([1_234_567_891, 2], pa.timestamp("ns"))})
    table = local.create_table("db.fine", fine.schema, properties={"format-version": "3"})
    table.append(fine)
    other = local.create_table("db.t", "id BIGINT, at TIMESTAMP_NTZ")
    for name in ("fine", "t"):
        with pytest.raises(SchemaMismatch, match="'at' of s has nanoseconds"):
            lakescan.sql(f"INSERT INTO local.db.{name} SELECT id, at FROM s", s=fine)
        with pytest.raises(UnsupportedFeature, match=r"'at' of local\.db\.fine"):
            lakescan.sql(f"INSERT INTO local.db.{name} SELECT id + 10, at FROM local.db.fine WHERE id = 1")
    with pytest.raises(SchemaMismatch, match="'at' of the source has nanoseconds"):
        other.merge(fine, on="t.id = s.id").when_not_matched_insert_all().execute()
    with pytest.raises(UnsupportedFeature, match="nanoseconds"):
        table.delete("at > (SELECT max(at) FROM local.db.t)")
    assert now().count() == 0
    assert table.to_arrow()["at"].cast(pa.int64()).to_pylist() == [1_234_567_891, 2]
    assert lakescan.sql("INSERT INTO local.db.t (id) SELECT id FROM local.db.fine").rows == 2
    assert table.delete("id IN (SELECT id FROM local.db.t WHERE id = 2)").deleted == 1
    whole = pandas.DataFrame({"id": [7], "at": pandas.to_datetime(["2026-01-31 01:02:03.456789"]).astype("M8[ns]")})
    assert other.merge(whole, on="t.id = s.id").when_not_matched_insert_all().execute().inserted == 1
    [at] = now().scan().where("id = 7").to_arrow()["at"].to_pylist()
    assert str(at) == "2026-01-31 01:02:03.456789"


def test_conditions_have_the_meaning_that_they_have_in_a_select(local: lakescan.Catalog) -> None:
    """Spark compares a date with a text as dates."""
    table = local.create_table("db.t", "id BIGINT, day DATE, code STRING")
    days = [date(2026, 1, 1), date(2026, 1, 2)]
    table.append(pa.table({"id": [1, 2], "day": days, "code": ["7", "8"]}))
    assert lakescan.sql("SELECT id FROM local.db.t WHERE code = 7").to_arrow()["id"].to_pylist() == [1]
    lakescan.sql("DELETE FROM local.db.t WHERE code = 9")
    lakescan.sql("DELETE FROM local.db.t WHERE day < '2026-01-01 10:00:00'")
    assert now().count() == 2
    lakescan.sql("DELETE FROM local.db.t WHERE code = '7' AND day = '2026-01-01 10:00:00'")
    assert now().to_arrow()["id"].to_pylist() == [2]
    assert now().delete("day < '2026-01-02 10:00:00'").deleted == 0
    lakescan.sql("UPDATE local.db.t SET code = '9' WHERE day IN (' 2026-1-2 ', '2025')")
    assert now().to_arrow()["code"].to_pylist() == ["9"]


def test_values_that_sql_does_not_have_pass_through_statements(local: lakescan.Catalog) -> None:
    found = pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int64()),
            "u": pa.array([b"\x00\x11\xfe\xff" * 4, None, b"\xab" * 16], pa.uuid()),
            "us": pa.array([[b"\x01" * 16, None], None, []], pa.list_(pa.binary(16))).cast(pa.list_(pa.uuid())),
            "at": pa.array([1, None, 86_399_999_999], pa.time64("us")),
            "place": pa.array([{"n": 1}, {"n": None}, None], pa.struct([("n", pa.int64())])),
        }
    )
    local.create_table("db.t", found.schema).append(found)
    before = now().to_arrow()
    now().update({"id": "id + 10"})
    now().merge(before, "t.id = s.id + 10").when_matched_update_all().execute()
    now().merge(now(), "t.id = s.id + 10").when_not_matched_insert_all().when_not_matched_by_source_delete().execute()
    assert now().to_arrow().sort_by("id").equals(before)
    now().update({"u": "'ABABABAB-abab-abab-abab-abababababab'"}, "id = 1")
    assert now().scan().where("id = 1").to_arrow()["u"][0] == before["u"][2]
    with pytest.raises(SchemaMismatch, match="'u' is uuid, and a value does not fit: 'x' is not a UUID"):
        now().update({"u": "'x'"})


def test_columns_are_not_taken_for_the_table(made: Make) -> None:
    kind = pa.struct([("id", pa.int64())])
    made("id BIGINT, T STRUCT<id: BIGINT>", partition_by=()).append(
        pa.table({"id": [1, 2], "T": pa.array([{"id": 2}, {"id": 1}], kind)})
    )
    now().update({"t.id": "t.id + 10"}, "t.id = 2")
    assert now().delete("t.id = 1").deleted == 1
    assert now().to_arrow().to_pylist() == [{"id": 1, "T": {"id": 12}}]


def test_rows_of_only_defaults_are_inserted(table: lakescan.Table) -> None:
    table.update({"id": "DEFAULT", "part": "DEFAULT"}, "id = 1")
    table.merge(rows((7, "a")), "t.id = s.id").when_not_matched_insert({"id": "DEFAULT"}).execute()
    assert sorted(map(str, now().to_arrow()["id"].to_pylist())) == ["2", "3", "4", "None", "None"]


def test_struct_members_accept_the_same_values_as_columns(made: Make) -> None:
    made("id BIGINT, at STRUCT<zip: INT, in: STRUCT<n: DECIMAL(5, 2)>>", partition_by=()).append(
        pa.table({"id": [1], "at": pa.array([None], pa.struct([("zip", pa.int32())]))})
    )
    now().update({"at.zip": "'7'", "at.in.n": "id / 3"})
    assert now().to_arrow()["at"].to_pylist() == [{"zip": 7, "in": {"n": Decimal("0.33")}}]
    with pytest.raises(SchemaMismatch, match="column 'zip' is int, and its value boolean"):
        now().update({"at.zip": "true"})
    with pytest.raises(InvalidStatement, match="DEFAULT is only for whole columns: no member of 'at' has one"):
        now().update({"at.zip": "DEFAULT"})


def test_a_subquery_reads_the_same_state_of_the_target(local: lakescan.Catalog) -> None:
    isolation = {"delta.isolationLevel": "WriteSerializable"}
    maker("delta", local)(partition_by=(), properties=isolation).append(rows((1, "a"), (4, "b")))
    statement = Delete(TableName(("t",)), Sql("id = (SELECT max(id) FROM local.db.t)"))

    def late(target: Target) -> lakescan.ChangeResult:
        lakescan.table("local.db.t").append(rows((9, "c")))  # a blind append, which does not conflict
        return change(target, statement, {})

    assert now().changed_by({}, late).deleted == 1
    assert pairs() == [(1, "a"), (9, "c")]


def test_row_ids_stay_and_generated_columns_are_recomputed(tmp_path: Path) -> None:
    rules = {"no": identity(), "twice": {"delta.generationExpression": "price * 2"}}
    (tmp_path / "t").mkdir()
    table = table_with_rules(tmp_path / "t", {"no": "long", "k": "long", "price": "double", "twice": "double"}, rules)
    table.append(pa.table({"k": [1, 2], "price": [1.0, 2.0]}))
    merge = table.merge(pa.table({"k": [2, 9], "price": [20.0, 90.0]}), on="t.k = s.k")
    merge = merge.when_matched_update({"price": "s.price"})
    merge.when_not_matched_insert({"k": "s.k", "price": "s.price"}).execute()
    found = table.to_arrow().sort_by("no").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, 1, 1.0, 2.0), (2, 2, 20.0, 40.0), (3, 9, 90.0, 180.0)]
    for value in ("7", "DEFAULT", "NULL"):
        with pytest.raises(SchemaMismatch, match="identity column 'no'"):
            table.update({"no": value})
    with pytest.raises(SchemaMismatch, match="generated column 'twice'"):
        table.update({"twice": "7"})
    table.upsert(pa.table({"k": [9, 10], "price": [9.0, 10.0]}), "k")  # whole rows, except for values the table fills
    found = table.to_arrow().sort_by("no").to_pylist()
    assert [tuple(row.values()) for row in found[2:]] == [(3, 9, 9.0, 18.0), (4, 10, 10.0, 20.0)]


def test_a_committed_statement_succeeds_even_if_the_table_cannot_be_reloaded(
    table: lakescan.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement was committed. A caller who got an error would repeat it."""

    def failing(self: lakescan.Table) -> lakescan.Table:
        raise StorageError("the store is away")

    given = now()
    with monkeypatch.context() as patched:
        patched.setattr(lakescan.Table, "refresh", failing)
        assert lakescan.sql("INSERT INTO given VALUES (7, 'x')", given=given).rows == 1
        assert lakescan.sql("DELETE FROM given WHERE id = 1", given=given).deleted == 1
    assert given.count() == 4


def test_the_target_of_a_statement_is_planned_once(local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = local.create_table("db.t", "id BIGINT, v STRING")
    for n in range(3):
        table.append(pa.table({"id": [n, n + 10], "v": ["a", "b"]}))
    planned = []
    original = IcebergTable.plan_files
    monkeypatch.setattr(IcebergTable, "plan_files", lambda *args: planned.append(args) or original(*args))
    table.update({"v": "'new'"}, "id % 2 = 1")
    assert len(planned) == 1
    source = pa.table({"id": [1, 99], "v": ["x", "y"]})
    table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert len(planned) == 2


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (k)"])
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_copy_on_write_writes_one_file_for_each_changed_partition(local: lakescan.Catalog, kind: str, by: str) -> None:
    local.create_namespace("shop")
    lakescan.sql(f"CREATE TABLE local.shop.cow (id BIGINT, k STRING, v DOUBLE) USING {kind} {by}")
    values = ", ".join(f"({n}, '{'ab'[n % 2]}', {n})" for n in range(10))
    lakescan.sql(f"INSERT INTO local.shop.cow VALUES {values}")
    lakescan.sql("UPDATE local.shop.cow SET v = v + 100 WHERE id < 4")
    lakescan.sql(
        "MERGE INTO local.shop.cow t USING (SELECT 5 AS id UNION ALL SELECT 77) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = -1 WHEN NOT MATCHED THEN INSERT (id, k, v) VALUES (s.id, 'a', 0)"
    )
    table = lakescan.table("local.shop.cow")
    assert table.inspect("files").num_rows == (3 if by else 1)  # the inserted row is in a file of its own
    found = {row["id"]: row["v"] for row in table.to_arrow().to_pylist()}
    assert found == {**{n: n + 100 for n in range(4)}, 4: 4, 5: -1, **{n: n for n in range(6, 10)}, 77: 0}


def test_values_inside_nested_ones_are_cast_as_spark_casts_them(local: lakescan.Catalog) -> None:
    local.create_namespace("shop")
    lakescan.sql("CREATE TABLE local.shop.n (id BIGINT, m MAP<STRING, DECIMAL(12, 4)>, a ARRAY<BIGINT>)")
    lakescan.sql("INSERT INTO local.shop.n VALUES (1, map('x', 1), array(1))")
    lakescan.sql("UPDATE local.shop.n SET m = map('z', 1.23456), a = array(CAST(7.9 AS DOUBLE))")
    [row] = lakescan.table("local.shop.n").to_arrow().to_pylist()
    assert row == {"id": 1, "m": [("z", Decimal("1.2346"))], "a": [7]}
    with pytest.raises((QueryFailed, SchemaMismatch)):
        lakescan.sql("UPDATE local.shop.n SET m = map('z', 123456789012.5)")
