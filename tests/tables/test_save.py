"""Saving rows: appends, overwrites, by filter and by partition; each in one commit, or nothing."""

from __future__ import annotations

import ctypes
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakescan
from lakescan.tables.results import WriteResult
from tests.tables.support import Make, data_files, now, pairs, rows

A, B, N = (1, "a"), (2, "b"), (3, None)


def test_appended_rows_are_in_their_partitions(made: Make) -> None:
    saved = made().append(rows(A, B, N))
    assert (saved.rows, saved.files, saved.removed_files) == (3, 3, 0)
    now().append(rows(A))
    assert pairs() == [A, A, B, N]
    assert now().scan().where("part = 'a'").plan().files.num_rows == 2


def test_appending_no_rows_commits_nothing(made: Make) -> None:
    made()
    before = now().history().num_rows
    assert now().append(rows()) == WriteResult(0, 0, 0)
    assert now().history().num_rows == before


def test_an_overwrite_replaces_all_rows_in_one_commit(made: Make) -> None:
    made().append(rows(A, B))
    commits = now().history().num_rows
    assert now().overwrite(rows(N)).removed_files == 2
    assert pairs() == [N]
    assert now().history().num_rows == commits + 1
    now().overwrite(rows())
    assert pairs() == []


def test_an_overwrite_where_replaces_only_matching_rows(made: Make) -> None:
    """Partly matching files keep their other rows, also rows whose filter result is null."""
    made(partition_by=()).append(rows(A, (5, "a"), B, N))
    now().overwrite(rows((4, "a")), where="part = 'a'")
    assert pairs() == [B, N, (4, "a")]
    now().overwrite(rows(), where="id > 2 and part is not null")
    assert pairs() == [B, N]


def test_new_rows_must_match_the_filter(made: Make, tmp_path: Path) -> None:
    made().append(rows(A))
    files = data_files(tmp_path)
    with pytest.raises(lakescan.SchemaMismatch, match="1 rows do not match replaceWhere, and would be added next to"):
        now().overwrite(rows(A, B), where="part = 'a'")
    with pytest.raises(lakescan.SchemaMismatch, match="replaceWhere"):
        now().overwrite(rows(N), replaceWhere="part = 'a'")
    assert pairs() == [A]
    assert data_files(tmp_path) == files


def test_a_dynamic_overwrite_replaces_the_partitions_of_the_rows(made: Make) -> None:
    made().append(rows(A, (5, "a"), B, N))
    now().overwrite(rows((6, "a"), (7, None), (8, "new")), overwrite_mode="dynamic")
    assert pairs() == [B, (6, "a"), (7, None), (8, "new")]


@pytest.mark.parametrize(
    "terms", [("days(at)",), ("months(at)", "bucket(2, id)"), ("hours(at)",), ("truncate(1, part)",)]
)
def test_dynamic_overwrites_support_transforms(local: lakescan.Catalog, terms: tuple[str, ...]) -> None:
    times = pa.array([0, 3_600_000_000, 86_400_000_000 * 40], pa.timestamp("us"))
    table = pa.table({"id": [1, 2, 3], "at": times, "part": ["ab", "ac", "b"]})
    local.create_table("db.t", table.schema, partition_by=terms).append(table)
    now().overwrite(table.slice(2).set_column(0, "id", [pa.array([3])]), overwrite_mode="dynamic")
    assert pairs() == [(1, "ab"), (2, "ac"), (3, "b")]


def test_rows_can_be_any_kind_of_table(made: Make) -> None:
    import duckdb
    import pandas as pd
    import polars as pl

    table = rows(A, B)
    made()
    for data in (table, table.to_batches()[0], table.to_reader(), table.to_pandas(), pl.from_arrow(table)):
        assert now().append(data).rows == 2
    now().append(duckdb.sql("select 9 as id, 'd' as part"))
    now().append(pd.DataFrame({"part": ["p"], "id": [10]}))
    assert len(pairs()) == 12
    with pytest.raises(lakescan.InvalidOption, match="list holds no rows to save"):
        now().append([1, 2])


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(made: Make, tmp_path: Path) -> None:
    made("id BIGINT NOT NULL, part STRING, x INT")
    with pytest.raises(lakescan.SchemaMismatch) as error:
        now().append(pa.table({"part": [1], "y": [2.0]}))
    assert str(error.value).splitlines() == [
        "the rows do not fit the table: column 'id' is required but missing; "
        "column 'part' is string in the table and long in the rows; column 'y' is not in the table.",
        "  table: id long not null, part string, x int",
        "  rows:  part long, y double",
        "Columns are matched by name. New ones are added with merge-schema=true. Where types differ, cast the "
        "values to the table's type.",
    ]
    with pytest.raises(lakescan.SchemaMismatch, match="column 'id' is required, but is null in 1 rows of a batch"):
        now().append(pa.table({"id": [1, None]}))
    with pytest.raises(lakescan.SchemaMismatch, match="column 'x' is int, and a value does not fit"):
        now().append(pa.table({"id": [1], "x": [2**40]}))
    assert data_files(tmp_path) == 0


def test_columns_match_by_name_and_missing_ones_are_null(made: Make) -> None:
    made("id BIGINT, part STRING, x DOUBLE, s STRUCT<a: INT, b: STRING>")
    s = pa.array([{"B": "q", "a": 1}], pa.struct([("B", pa.string()), ("a", pa.int8())]))
    now().append(pa.table({"PART": ["a"], "s": s, "Id": pa.array([1], pa.int16())}))
    assert now().scan().to_arrow().to_pylist() == [{"id": 1, "part": "a", "x": None, "s": {"a": 1, "b": "q"}}]


def test_new_columns_are_added_on_request(made: Make) -> None:
    made().append(rows(A))
    wide = pa.table({"ID": pa.array([2], pa.int8()), "part": ["b"], "more": [1.5]})
    now().append(wide, merge_schema=True)
    assert now().schema.names == ["id", "part", "more"]
    assert now().scan().to_arrow().sort_by("id")["more"].to_pylist() == [None, 1.5]
    now().append(wide, mergeSchema="true")
    assert now().scan().count() == 3


def test_no_column_is_added_for_rows_that_do_not_fit(made: Make) -> None:
    made()
    wrong = pa.table({"id": ["x"], "part": ["a"], "new": [1]})
    with pytest.raises(lakescan.SchemaMismatch, match="column 'id' is long in the table and string in the rows"):
        now().append(wrong, merge_schema=True)
    assert now().schema.names == ["id", "part"]


@pytest.mark.parametrize("nested", [False, True])
def test_added_columns_enable_the_features_of_their_types(tmp_path: Path, nested: bool) -> None:
    table = tmp_path / "t"
    lakescan.save(pa.table({"id": [1]}), table, format="delta")
    kind: pa.DataType = pa.map_(pa.string(), pa.timestamp("us"))
    kind = pa.struct([("m", kind)]) if nested else kind
    lakescan.table(table).append(pa.table({"id": [2], "t": pa.nulls(1, kind)}), merge_schema=True)
    assert "timestampNtz" in deltalake.DeltaTable(table).protocol().reader_features
    assert lakescan.table(table).schema.field("t").type == kind
    assert sorted(lakescan.table(table).scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_columns_are_added_under_column_mapping(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT", format="delta", properties={"delta.columnMapping.mode": "name"})
    now().append(pa.table({"id": [1]}))
    now().append(pa.table({"id": [2], "more": [{"x": "y"}]}), merge_schema=True)
    assert now().properties["delta.columnMapping.maxColumnId"] == "3"
    found = now().scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": 1, "more": None}, {"id": 2, "more": {"x": "y"}}]


def test_added_columns_are_nullable(made: Make) -> None:
    """Older rows have no value."""
    made().append(rows(A))
    more = pa.field("more", pa.struct([pa.field("x", pa.int64(), nullable=False)]), nullable=False)
    schema = pa.schema([("id", pa.int64()), ("part", pa.string()), more])
    now().append(pa.Table.from_pylist([{"id": 2, "part": "b", "more": {"x": 1}}], schema), merge_schema=True)
    assert now().schema.field("more").nullable
    assert now().scan().to_arrow().sort_by("id")["more"].to_pylist() == [None, {"x": 1}]


def test_files_end_at_their_target_size(made: Make) -> None:
    made(partition_by=())
    table = pa.table({"id": range(300_000), "part": [str(n * 7919 % 10**9) for n in range(300_000)]})
    saved = now().append(pa.Table.from_batches(table.to_batches(max_chunksize=10_000)), target_file_size_bytes="300k")
    assert saved.files > 2
    assert now().scan().count() == 300_000
    assert now().scan().where("id = 299999").to_arrow().num_rows == 1


def test_rows_of_a_row_group_are_in_the_sort_order_of_the_table(local: lakescan.Catalog) -> None:
    order = ["part desc nulls last", "s.x", "truncate(10, id) desc"]
    columns = "id BIGINT, part STRING, s STRUCT<x: INT>"
    local.create_table("db.t", columns, sort_by=order)
    given = [(5, "a", 1), (15, "a", 1), (2, None, 3), (3, "b", None), (4, "b", 0), (1, "a", None)]
    now().append(pa.Table.from_pylist([{"id": i, "part": p, "s": {"x": x}} for i, p, x in given]))
    assert now().scan().to_arrow()["id"].to_pylist() == [3, 4, 1, 15, 5, 2]


def test_rows_ordered_by_partition_need_one_open_file(made: Make) -> None:
    """Rows in another order are written, too, but to more files."""
    batches = pa.Table.from_batches(rows(A, (3, "a"), B, (4, "a")).to_batches(max_chunksize=1))
    assert made().append(batches).files == 2
    assert now().append(batches, **{"fanout-enabled": False}).files == 3
    assert pairs() == sorted([A, (3, "a"), B, (4, "a")] * 2)


@pytest.mark.slow
def test_concurrent_appends_lose_nothing(made: Make) -> None:
    made(partition_by=())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: now().append(rows(*((10 * n + i, "x") for i in range(3)))), range(16)))
    assert [i for i, _ in pairs()] == sorted(10 * n + i for n in range(16) for i in range(3))


def test_a_commit_with_a_transaction_number_is_made_once(made: Make) -> None:
    made()
    for _ in range(2):
        now().append(rows(A), txnAppId="loader", txnVersion=1)
    now().append(rows(B), txnAppId="loader", txnVersion=2)
    now().append(rows(A), txnAppId="loader", txnVersion=1)
    now().append(rows(N), txnAppId="other", txnVersion=1)
    now().overwrite(rows(N), txnAppId="loader", txnVersion=2)
    assert pairs() == [A, B, N]
    with pytest.raises(lakescan.InvalidOption, match="must be given together"):
        now().append(rows(A), txnAppId="loader")


def test_user_metadata_is_stored_in_the_commit(made: Make) -> None:
    table = made()
    table.append(rows(A), userMetadata="from the loader")
    if table.format == "iceberg":
        now().append(rows(A), **{"snapshot-property.job": "17"})
        summaries = [dict(s) for s in now().history()["summary"].to_pylist()]
        assert (summaries[0]["userMetadata"], summaries[1]["job"]) == ("from the loader", "17")
    else:
        log = Path(table.location.removeprefix("file://")) / "_delta_log" / f"{1:020d}.json"
        assert '"userMetadata":"from the loader"' in log.read_text()
        assert "domainMetadata" not in log.read_text()
        assert now().history()["userMetadata"].to_pylist()[1] == "from the loader"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"merge_shema": True}, lakescan.InvalidOption, "Did you mean 'mergeSchema'"),
        ({"output-spec-id": 0}, lakescan.UnsupportedFeature, "write option 'output-spec-id'"),
        ({"overwrite_mode": "some"}, lakescan.InvalidOption, "static"),
        ({"target-file-size-bytes": "big"}, lakescan.InvalidOption, "bytes, or a size such as 128m"),
    ],
)
def test_unknown_options_are_refused(made: Make, options: Any, error: Any, message: str) -> None:
    made()
    with pytest.raises(error, match=message):
        now().append(rows(A), **options)


def test_options_of_the_other_format_are_refused(local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id INT", format="delta")
    with pytest.raises(lakescan.InvalidOption, match="for iceberg tables"):
        table.append(pa.table({"id": [1]}), branch="dev")


def test_files_have_at_most_the_requested_rows(made: Make) -> None:
    made(partition_by=())
    batches = [rows(*((10 * n + i, "a") for i in range(size))) for n, size in enumerate((1, 7, 2, 5))]
    saved = now().append(pa.concat_tables(batches), maxRecordsPerFile=4)
    assert (saved.files, saved.rows) == (4, 15)
    assert sorted(now().scan().plan().files["record_count"].to_pylist()) == [3, 4, 4, 4]
    assert len(pairs()) == 15
    with pytest.raises(lakescan.InvalidOption, match="a whole number above 0"):
        now().append(rows(A), maxRecordsPerFile=0)


def test_branches_can_be_committed_to_and_begin_with_the_current_rows(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING").append(rows(A))
    now().append(rows(B), branch="dev")
    assert pairs() == [A]
    assert sorted(now().scan().as_of(branch="dev").to_arrow()["id"].to_pylist()) == [1, 2]
    now().overwrite(rows(N), branch="dev", where="id > 1")
    assert sorted(now().scan().as_of(branch="dev").to_arrow()["id"].to_pylist()) == [1, 3]
    now().overwrite(rows(N), branch="other")
    assert now().scan().as_of(branch="other").to_arrow()["id"].to_pylist() == [3]
    assert pairs() == [A]


def test_decimals_are_bucketed_with_any_memory_alignment(local: lakescan.Catalog) -> None:
    """Batches from Spark are aligned to any multiple of 8."""
    values = pa.array(["1.25", "7.50", "-3.00"]).cast(pa.decimal128(9, 2))
    somewhere = pa.allocate_buffer(64 + 48)
    moved = somewhere.slice(8 if somewhere.address % 16 == 0 else 0, 48)
    (ctypes.c_char * 48).from_address(moved.address)[:] = values.buffers()[1].to_pybytes()[:48]
    apart = pa.Array.from_buffers(values.type, 3, [None, moved])
    assert (apart.to_pylist(), moved.address % 16) == (values.to_pylist(), 8)
    local.create_table("db.t", "m DECIMAL(9, 2)", partition_by=["bucket(4, m)"])
    now().append(pa.table({"m": apart}))
    assert sorted(now().scan().to_arrow()["m"].to_pylist()) == sorted(values.to_pylist())
    assert now().scan().where("m = 7.50").plan().files.num_rows == 1


def test_partition_values_of_every_kind_are_read_back(made: Make) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    kinds = {
        "s": ("STRING", ["a/b=c %20", "ü", None]),
        "d": ("DATE", [date(1969, 12, 31), date(2026, 1, 1), None]),
        "t": ("TIMESTAMP", [datetime(1960, 1, 1, 1, 2, 3, 4, UTC), datetime(2026, 1, 1, tzinfo=UTC), None]),
        "n": ("TIMESTAMP_NTZ", [datetime(1960, 1, 1, 1, 2, 3, 4), datetime(2026, 1, 1), None]),
        "c": ("DECIMAL(9, 2)", [Decimal("-1.50"), Decimal("1234567.89"), None]),
        "b": ("BOOLEAN", [True, False, None]),
        "i": ("INT", [-1, 2**31 - 1, None]),
    }
    table = made("id BIGINT, " + ", ".join(f"{n} {k}" for n, (k, _) in kinds.items()), tuple(kinds))
    data = pa.table({"id": [1, 2, 3], **{n: v for n, (_, v) in kinds.items()}})
    table.append(data)
    found = now().scan().to_arrow().sort_by("id")
    assert found.to_pylist() == data.to_pylist()
    for name, (_, values) in kinds.items():
        assert now().scan().where(lakescan.col(name) == values[0]).to_arrow()["id"].to_pylist() == [1]
        assert now().scan().where(f"{name} is null").to_arrow()["id"].to_pylist() == [3]
    now().overwrite(data.slice(0, 1), overwrite_mode="dynamic")
    assert now().scan().count() == 3


def test_not_a_number_is_one_partition(local: lakescan.Catalog) -> None:
    nan = float("nan")
    local.create_table("db.t", "id BIGINT, x DOUBLE", format="delta", partition_by=["x"])
    batches = pa.table({"id": [1, 2, 3, 4], "x": [nan, 1.0, nan, None]}).to_batches(max_chunksize=1)
    assert now().append(pa.Table.from_batches(batches)).files == 3
    assert sorted(now().scan().where("x = 1.0").to_arrow()["id"].to_pylist()) == [2]
    assert now().scan().count() == 4


def test_partitions_of_a_new_table_are_a_text_or_a_list(local: lakescan.Catalog, tmp_path: Path) -> None:
    priced = rows(A).append_column("price", [[1.0] * rows(A).num_rows])
    for n, said in enumerate(["part, id", ["part", "id"], ("part", "id")]):
        lakescan.save(priced, tmp_path / str(n), format="delta", partition_by=said)
        assert lakescan.table(tmp_path / str(n)).partitioning == "part, id"
    lakescan.save(rows(A), "local.db.listed", partition_by=["bucket(4, id)", "part"])
    assert lakescan.table("local.db.listed").partitioning == "bucket(4, id), part"


@pytest.mark.parametrize("said", [{"partition_by": 5}, {"partition_by": [5]}, {"branch": 5}, {"compression": None}])
def test_an_option_that_takes_text_takes_nothing_else(said: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match=r"has the invalid value .*; expected: (.*a string|zstd)"):
        lakescan.save(rows(A), tmp_path / "d", format="delta", **said)
    assert not (tmp_path / "d").exists()


def test_a_path_means_a_delta_table_and_a_name_a_catalog_table(local: lakescan.Catalog, tmp_path: Path) -> None:
    assert lakescan.save(rows(A), tmp_path / "d", format="delta", partition_by="part").rows == 1
    with pytest.raises(lakescan.TableExists, match="mode='append' adds to it"):
        lakescan.save(rows(A), tmp_path / "d")
    assert lakescan.save(rows(A), tmp_path / "d", mode="ignore") == WriteResult(0, 0, 0)
    lakescan.save(rows(B), tmp_path / "d", mode="append")
    assert lakescan.table(tmp_path / "d").scan().count() == 2
    lakescan.save(rows(B), tmp_path / "d", mode="overwrite")
    assert lakescan.table(tmp_path / "d").partitioning == "part"
    assert lakescan.table(tmp_path / "d").scan().count() == 1
    lakescan.save(rows(A), "local.db.t", partition_by="bucket(4, id), part")
    assert now().partitioning == "bucket(4, id), part"
    with pytest.raises(lakescan.InvalidOption, match="to create one"):
        lakescan.save(rows(A), tmp_path / "new")
    with pytest.raises(lakescan.UnsupportedFeature, match="Commits go through a catalog"):
        lakescan.save(rows(A), tmp_path / "new", format="iceberg")
    with pytest.raises(lakescan.InvalidOption, match="mode 'upsert' is unknown"):
        lakescan.save(rows(A), tmp_path / "new", mode="upsert")


def test_an_iceberg_table_that_was_opened_by_its_location_is_not_written_to(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    location = now().scan().to_options()["path"]
    with pytest.raises(lakescan.UnsupportedFeature, match="or register the table in a catalog"):
        lakescan.table(location).append(rows(A))


def test_mapped_columns_of_a_new_delta_table_are_written_by_their_physical_names(local: lakescan.Catalog) -> None:
    columns = "id BIGINT, `a b` STRING, s STRUCT<x: INT>, p STRING"
    mapping = {"delta.columnMapping.mode": "name"}
    local.create_table("db.t", columns, format="delta", partition_by=["p"], properties=mapping)
    data = pa.table({"id": [1, 2], "a b": ["x", "y"], "s": [{"x": 1}, None], "p": ["q", None]})
    now().append(data)
    assert now().scan().to_arrow().sort_by("id").to_pylist() == data.to_pylist()
    assert now().scan().where("s.x = 1").plan().files.num_rows == 1


def test_append_only_tables_are_not_overwritten(local: lakescan.Catalog, tmp_path: Path) -> None:
    properties = {"delta.appendOnly": "true"}
    local.create_table("db.t", "id BIGINT, part STRING", format="delta", properties=properties).append(rows(A, B))
    with pytest.raises(lakescan.UnsupportedFeature, match=r"whose delta\.appendOnly is true"):
        now().overwrite(rows((1, "a")), where="part = 'a'")
    assert pairs() == [A, B]
    assert data_files(tmp_path) == 1


def test_rows_that_break_a_constraint_of_a_delta_table_are_refused(local, tmp_path: Path) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    constrain(table, small="id < 10", named="part IS NOT NULL OR id = 0")
    now().append(rows(A, (0, None)))
    with pytest.raises(lakescan.SchemaMismatch, match="2 rows violate the constraint 'small' of the table: id < 10"):
        now().append(rows(B, (10, "x"), (11, "x")))
    with pytest.raises(lakescan.SchemaMismatch, match="1 rows violate the constraint 'named'"):
        now().overwrite(rows((3, None)))
    assert pairs() == [(0, None), A]
    assert data_files(tmp_path) == 1


def test_a_constraint_may_be_any_expression(local: lakescan.Catalog) -> None:
    constrain(local.create_table("db.t", "id BIGINT, part STRING", format="delta"), even="id % 2 = 0")
    now().append(rows((2, "x")))
    with pytest.raises(lakescan.SchemaMismatch, match=r"'even' of the table: id % 2 = 0. For example: id = 3"):
        now().append(rows((2, "x"), (3, "x")))


def constrain(table: lakescan.Table, **constraints: str) -> None:
    """Add CHECK constraints, one at a time, as deltalake does."""
    for name, condition in constraints.items():
        deltalake.DeltaTable(table.location).alter.add_constraint({name: condition})


@pytest.mark.parametrize("change", ["overwrite all", "overwrite some", "compact"])
def test_files_with_deletion_vectors_are_replaced(local: lakescan.Catalog, change: str) -> None:
    from samples.delta_deletes import commit_vectors, stored_vector

    table = local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    table.append(rows(A, B))
    folder = Path(table.location.removeprefix("file://"))
    (name,) = [file.name for file in folder.glob("*.parquet")]
    commit_vectors(folder, {name: stored_vector(folder, [0])})
    now().append(rows(N))
    assert pairs() == [B, N]
    if change == "overwrite all":
        assert now().overwrite(rows(A)).removed_files == 2
        assert pairs() == [A]
    elif change == "overwrite some":
        now().overwrite(rows(A), where="id = 1")
        assert pairs() == [A, B, N]
    else:
        assert now().compact().removed_files == 2
        assert pairs() == [B, N]
    (removed,) = [each for each in _actions(folder, "remove")[-2:] if "deletionVector" in each]
    assert removed["path"] == name


def _actions(folder: Path, name: str) -> list[Any]:
    """Return the actions of a name in all commits, in order."""
    commits = sorted((folder / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    return [line[name] for line in lines if name in line]


def test_an_overwrite_may_give_a_delta_table_other_columns(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT NOT NULL, part STRING", format="delta", partition_by=["part"]).append(rows(A))
    new = pa.table({"part": ["x", "y"], "price": [1.5, None]})
    saved = now().overwrite(new, overwriteSchema=True)
    assert (saved.files, saved.removed_files) == (2, 1)
    assert now().scan().to_arrow().sort_by("part").equals(new.cast(now().scan().schema))
    assert now().partitioning == "part"
    assert now().history()["operation"].to_pylist() == ["CREATE TABLE", "WRITE", "WRITE"]  # one commit
    assert now().scan().as_of(version=1).to_arrow().to_pylist() == [{"id": 1, "part": "a"}]
    now().overwrite(new)
    assert now().scan().count() == 2


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"replaceWhere": "id = 1"}, lakescan.InvalidOption, "overwrite of the whole table"),
        ({"partitionOverwriteMode": "dynamic"}, lakescan.InvalidOption, "overwrite of the whole table"),
        ({"mergeSchema": True}, lakescan.InvalidOption, "overwrite of the whole table"),
    ],
)
def test_other_columns_are_for_overwrites_of_the_whole_table(made: Make, options, error, message: str) -> None:
    table = made()
    with pytest.raises(error, match=message):
        table.overwrite(pa.table({"id": ["x"], "part": ["a"]}), overwriteSchema=True, **options)
    with pytest.raises(lakescan.InvalidOption, match="is for overwrites"):
        table.append(rows(A), overwriteSchema=True)


@pytest.mark.parametrize(
    ("columns", "options", "new", "message"),
    [
        (
            "id BIGINT",
            {},
            pa.table({"t": pa.array([0], pa.timestamp("us"))}),
            "with columns of type timestamp",
        ),
    ],
)
def test_schema_overwrites_that_need_several_commits_are_refused(local, columns, options, new, message) -> None:
    table = local.create_table("db.t", columns, format="delta", **options)
    with pytest.raises(lakescan.UnsupportedFeature, match=message):
        table.overwrite(new, overwriteSchema=True)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_keys_of_maps_get_no_new_members(tmp_path: Path, format: str) -> None:
    def rows(key: dict[str, int]) -> pa.Table:
        kind = pa.map_(pa.struct([(name, pa.int64()) for name in key]), pa.string())
        return pa.table({"m": pa.array([[(key, "x")]], kind)})

    lakescan.catalog("keys", warehouse=str(tmp_path)).create_namespace("n")
    lakescan.save(rows({"a": 1}), "keys.n.t", format=format)
    with pytest.raises(lakescan.SchemaMismatch, match=r"'m.key.b' is not .* no new members(?s:.*)Leave them out"):
        lakescan.save(rows({"a": 1, "b": 2}), "keys.n.t", mode="append", merge_schema=True)
    assert lakescan.table("keys.n.t").to_arrow().num_rows == 1


@pytest.mark.parametrize("mode", ["error", "append", "overwrite", "ignore"])
@pytest.mark.parametrize("left", [None, ".00000000000000000000.json.5f2c.tmp"])
def test_a_delta_table_is_made_where_a_creation_was_interrupted(tmp_path: Path, mode: str, left: str | None) -> None:
    """A process that ended before the first commit leaves the log folder, and perhaps a draft in it."""
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    if left is not None:
        (tmp_path / "t/_delta_log" / left).write_text("{}")
    written = lakescan.save(pa.table({"id": [1, 2]}), tmp_path / "t", mode=mode, format="delta")
    assert written.rows == 2
    assert lakescan.table(tmp_path / "t").count() == 2


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_new_table_is_refused_over_a_log_without_its_commits(tmp_path: Path, mode: str) -> None:
    (tmp_path / "t/_delta_log").mkdir(parents=True)
    (tmp_path / "t/_delta_log/_last_checkpoint").write_text('{"version": 10, "size": 3}')
    with pytest.raises(lakescan.NotATable, match="has no commit and no checkpoint"):
        lakescan.save(pa.table({"id": [1]}), tmp_path / "t", mode=mode, format="delta")
