"""`add_files`: existing Parquet files become a table's data files in place, and are read as they are."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.errors import CorruptData, InvalidOption, SchemaMismatch, UnsupportedFeature
from tests.statements.procedures.conftest import Called
from tests.tables.support import now, pairs, rows


def written(path: Path, table: pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    return path


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@pytest.fixture
def hive(tmp_path: Path) -> Path:
    """A folder in Hive's layout: the partitions a, b and null."""
    folder = tmp_path / "hive"
    written(folder / "part=a" / "1.parquet", ids(1, 2))
    written(folder / "part=a" / "2.parquet", ids(3))
    written(folder / "part=b%2F" / "3.parquet", ids(4))
    written(folder / "part=__HIVE_DEFAULT_PARTITION__" / "4.parquet", ids(5))
    (folder / "_SUCCESS").write_text("")
    written(folder / "_temporary" / "5.parquet", ids(6))
    (folder / "part=a" / ".1.parquet.crc").write_text("x")
    return folder


@pytest.fixture
def partitioned(local: lakescan.Catalog) -> lakescan.Table:
    return local.create_table("db.t", "id BIGINT, part STRING", partition_by=("part",))


def test_a_folder_in_hives_layout_is_added(partitioned: lakescan.Table, call: Called, hive: Path) -> None:
    result = call("add_files", "db.t", f"`parquet`.`{hive}`")
    assert result.to_pylist() == [{"added_files_count": 4, "changed_partition_count": None}]
    assert pairs() == [(1, "a"), (2, "a"), (3, "a"), (4, "b/"), (5, None)]
    assert now().scan().where("part = 'a'").count() == 3
    assert now().inspect("snapshots")["operation"].to_pylist() == ["append"]
    partitioned.append(rows((7, "a")))
    assert len(pairs()) == 6


def test_changed_partitions_are_counted_in_version_1(local: lakescan.Catalog, call: Called, hive: Path) -> None:
    """As Iceberg documents it, unless the table sets `compatibility.snapshot-id-inheritance.enabled`."""
    inherits = {"compatibility.snapshot-id-inheritance.enabled": "true"}
    for name, properties, expected in (("db.one", {}, 3), ("db.inherits", inherits, None)):
        properties = {"format-version": "1", **properties}
        local.create_table(name, "id BIGINT, part STRING", partition_by=("part",), properties=properties)
        result = call("add_files", name, f"`parquet`.`{hive}`")
        assert result.to_pylist() == [{"added_files_count": 4, "changed_partition_count": expected}]


def test_a_partition_filter_selects_files(partitioned: lakescan.Table, call: Called, hive: Path) -> None:
    result = call(
        "add_files", table="db.t", source_table=f"parquet.`{hive}`", partition_filter={"part": "a"}, parallelism=4
    )
    assert result.to_pylist() == [{"added_files_count": 2, "changed_partition_count": None}]
    assert pairs() == [(1, "a"), (2, "a"), (3, "a")]
    for wrong, message in (({"prt": "a"}, "Did you mean 'part'"), ({"part": "z"}, "no file")):
        with pytest.raises(InvalidOption, match=message):
            call("add_files", table="db.t", source_table=f"parquet.`{hive}`", partition_filter=wrong)


def test_partition_values_have_the_types_of_their_columns(
    local: lakescan.Catalog, call: Called, tmp_path: Path
) -> None:
    local.create_table("db.t", "id BIGINT, day DATE, n INT", partition_by=("day", "n"))
    written(tmp_path / "x" / "day=2026-01-31" / "n=7" / "f.parquet", ids(1))
    call("add_files", "db.t", f"`parquet`.`{tmp_path / 'x'}`")
    assert now().to_arrow().to_pylist() == [{"id": 1, "day": date(2026, 1, 31), "n": 7}]
    written(tmp_path / "y" / "day=soon" / "n=7" / "f.parquet", ids(1))
    with pytest.raises(InvalidOption, match="does not hold a value of type date"):
        call("add_files", "db.t", f"`parquet`.`{tmp_path / 'y'}`")


def test_a_file_is_added_once(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    table = local.create_table("db.t", "id BIGINT")
    file = written(tmp_path / "f.parquet", ids(1))
    call("add_files", "db.t", f"`parquet`.`{file}`")
    version = now().version
    for spelled in (file, f"file://{file}", f"{file.parent}//f.parquet"):
        with pytest.raises(InvalidOption, match="already"):
            call("add_files", "db.t", f"`parquet`.`{spelled}`")
    assert now().version == version
    table.delete("id = 1")
    call("add_files", "db.t", f"`parquet`.`{file}`")
    call("add_files", table="db.t", source_table=f"`parquet`.`{file}`", check_duplicate_files=False)
    assert now().to_arrow()["id"].to_pylist() == [1, 1]


def test_a_file_that_another_adds_at_the_same_time_is_added_once(
    local: lakescan.Catalog, call: Called, tmp_path: Path
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    local.create_table("db.t", "id BIGINT").append(ids(0))
    source = f"`parquet`.`{written(tmp_path / 'f.parquet', ids(1))}`"
    original, done = SqlCatalog.commit_table, []

    def commit(self: Any, *arguments: Any) -> Any:
        if not done:
            done.append(True)
            call("add_files", "db.t", source)
        return original(self, *arguments)

    with patch.object(SqlCatalog, "commit_table", commit), pytest.raises(InvalidOption, match="already"):
        call("add_files", "db.t", source)
    assert now().to_arrow()["id"].to_pylist() == [0, 1] or now().to_arrow()["id"].to_pylist() == [1, 0]


def test_names_are_mapped_in_the_same_commit(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    """Files without ids keep their columns by name, whatever is renamed, and in any order."""
    local.create_table("db.t", "id BIGINT, s STRUCT<a: INT, b: STRING>, l ARRAY<INT>, m MAP<STRING, INT>")
    columns = {
        "m": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        "l": pa.array([[1, 2]], pa.list_(pa.int32())),
        "extra": pa.array(["?"]),
        "s": pa.array([{"b": "x", "a": 5}], pa.struct([("b", pa.string()), ("a", pa.int32())])),
        "id": pa.array([9], pa.int32()),
    }
    versions = len(list(tmp_path.rglob("*.metadata.json")))
    call("add_files", "db.t", f"`parquet`.`{written(tmp_path / 'f.parquet', pa.table(columns))}`")
    assert len(list(tmp_path.rglob("*.metadata.json"))) == versions + 1
    assert "schema.name-mapping.default" in now().properties
    expected = {"id": 9, "s": {"a": 5, "b": "x"}, "l": [1, 2], "m": [("k", 1)]}
    assert now().to_arrow().to_pylist() == [expected]
    with lakescan.catalogs.registry.connection("local").load_table("db.t").update_schema() as update:
        update.rename_column("id", "number")
    assert now().to_arrow()["number"].to_pylist() == [9]


KINDS: dict[str, tuple[str, pa.Array, list]] = {
    "long": ("BIGINT", pa.array([3, None, 1], pa.int64()), [1, 3]),
    "widened": ("BIGINT", pa.array([3, None, 1], pa.int32()), [1, 3]),
    "double": ("DOUBLE", pa.array([3.5, None, 1.5], pa.float32()), [1.5, None]),
    "text": ("STRING", pa.array(["c", None, "a"]), ["a", "c"]),
    "date": ("DATE", pa.array([date(2026, 1, 3), None, date(2026, 1, 1)]), [date(2026, 1, 1), date(2026, 1, 3)]),
    "decimal": (
        "DECIMAL(9, 2)",
        pa.array([Decimal("3.50"), None, Decimal("-1.25")], pa.decimal128(9, 2)),
        [Decimal("-1.25"), Decimal("3.50")],
    ),
    "milliseconds": (
        "TIMESTAMP_NTZ",
        pa.array([datetime(2026, 1, 3, 1), None, datetime(2026, 1, 1)], pa.timestamp("ms")),
        [datetime(2026, 1, 1), datetime(2026, 1, 3, 1)],
    ),
    "boolean": ("BOOLEAN", pa.array([True, None, False]), [False, True]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_read_from_the_footer(local: lakescan.Catalog, call: Called, tmp_path: Path, kind: str) -> None:
    sql, values, bounds = KINDS[kind]
    local.create_table("db.t", f"v {sql}")
    written(tmp_path / "x" / "f.parquet", pa.table({"v": values}), row_group_size=2)
    call("add_files", "db.t", f"`parquet`.`{tmp_path / 'x'}`")
    (metrics,) = now().inspect("files")["readable_metrics"].to_pylist()
    assert (metrics["v"]["value_count"], metrics["v"]["null_value_count"]) == (3, 1)
    assert [metrics["v"]["lower_bound"], metrics["v"]["upper_bound"]] == bounds
    (offsets,) = now().inspect("files")["split_offsets"].to_pylist()
    assert len(offsets) == 2
    assert now().to_arrow()["v"].to_pylist() == values.cast(now().schema.field("v").type).to_pylist()
    assert now().scan().where("v is null").count() == 1


def test_files_with_nan_are_not_pruned_by_their_bounds(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    local.create_table("db.t", "v DOUBLE")
    file = written(tmp_path / "f.parquet", pa.table({"v": [1.0, float("nan")]}))
    call("add_files", "db.t", f"`parquet`.`{file}`")
    assert now().scan().where("v > 5").count() == lakescan.table("local.db.t").to_arrow().num_rows - 1
    (metrics,) = now().inspect("files")["readable_metrics"].to_pylist()
    assert metrics["v"]["nan_value_count"] is None


def test_pruned_files_are_the_right_ones(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT")
    for number in range(4):
        written(tmp_path / "x" / f"{number}.parquet", ids(*range(10 * number, 10 * number + 10)))
    call("add_files", "db.t", f"`parquet`.`{tmp_path / 'x'}`")
    plan = now().scan().where("id between 12 and 15").plan()
    assert len(plan.table) == 1
    assert now().scan().where("id between 8 and 11").count() == 4


@pytest.mark.parametrize(
    ("columns", "file", "message"),
    [
        ("id BIGINT", {"other": [1]}, "none of its columns"),
        ("id BIGINT, n INT", {"id": [1], "n": ["x"]}, "'n' is string, but int in the table"),
        ("id INT", {"id": pa.array([1], pa.int64())}, "'id' is int64, but int"),
        ("id BIGINT, d DECIMAL(5, 1)", {"id": [1], "d": pa.array([Decimal("1.25")], pa.decimal128(5, 2))}, "'d' is"),
        ("id BIGINT NOT NULL, n INT", {"n": pa.array([1], pa.int32())}, "lacks the column 'id'"),
        ("id BIGINT NOT NULL", {"id": pa.array([1, None])}, "1 of its values are"),
        ("id BIGINT, s STRUCT<a: INT>", {"id": [1], "s": pa.array([{"a": "x"}])}, "'s.a' is string"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    local: lakescan.Catalog, call: Called, tmp_path: Path, columns: str, file: dict, message: str
) -> None:
    local.create_table("db.t", columns)
    written(tmp_path / "f.parquet", pa.table(file))
    with pytest.raises(SchemaMismatch, match=message):
        call("add_files", "db.t", f"`parquet`.`{tmp_path / 'f.parquet'}`")
    assert now().version is None


def test_field_ids_of_another_table_are_not_used(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    local.create_table("db.t", "a BIGINT, b BIGINT")
    fields = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": n}) for name, n in (("b", "1"), ("a", "2"))]
    file = written(tmp_path / "f.parquet", pa.table([[1], [2]], schema=pa.schema(fields)))
    with pytest.raises(SchemaMismatch, match="ids are those of another table"):
        call("add_files", "db.t", f"`parquet`.`{file}`")


def test_folders_that_do_not_fit_the_partitions_are_refused(
    local: lakescan.Catalog, partitioned: lakescan.Table, call: Called, hive: Path, tmp_path: Path
) -> None:
    flat = written(tmp_path / "flat" / "f.parquet", rows((1, "a"))).parent
    with pytest.raises(UnsupportedFeature, match="no folders named after partitions"):
        call("add_files", "db.t", f"`parquet`.`{flat}`")
    local.create_table("db.u", "id BIGINT, part STRING")
    with pytest.raises(UnsupportedFeature, match="folders named part"):
        call("add_files", "db.u", f"`parquet`.`{hive}`")
    local.create_table("db.v", "id BIGINT, part STRING", partition_by=("bucket(4, id)",))
    with pytest.raises(UnsupportedFeature, match="partitioned by bucket"):
        call("add_files", "db.v", f"`parquet`.`{flat}`")
    written(tmp_path / "mixed" / "part=a" / "f.parquet", ids(1))
    written(tmp_path / "mixed" / "f.parquet", ids(1))
    with pytest.raises(InvalidOption, match="folders of different names"):
        call("add_files", "db.t", f"`parquet`.`{tmp_path / 'mixed'}`")


def test_tables_of_a_format_are_not_added(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT")
    lakescan.save(ids(1), tmp_path / "delta", format="delta")
    with pytest.raises(UnsupportedFeature, match="has a Delta or Iceberg table"):
        call("add_files", "db.t", f"`parquet`.`{tmp_path / 'delta'}`")


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("`orc`.`/x`", UnsupportedFeature, "orc files"),
        ("spark_catalog.db.t", UnsupportedFeature, "Only Spark can read Spark's own catalog"),
        ("`parquet`.`/nothing/here`", InvalidOption, "no files to add"),
    ],
)
def test_other_sources_are_refused(
    partitioned: lakescan.Table, call: Called, source: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call("add_files", "db.t", source)


def test_files_that_are_not_parquet_are_refused(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT")
    written(tmp_path / "x" / "f.parquet", ids(1))
    (tmp_path / "x" / "notes.txt").write_text("not a data file")
    with pytest.raises(CorruptData, match="notes"):
        call("add_files", "db.t", f"`parquet`.`{tmp_path / 'x'}`")
    assert now().version is None


@pytest.mark.parametrize(("name", "kind"), [("f.orc", "ORC"), ("f.snappy.ORC", "ORC"), ("f.avro", "Avro")])
def test_files_of_other_formats_are_refused_by_name(
    local: lakescan.Catalog, call: Called, tmp_path: Path, name: str, kind: str
) -> None:
    local.create_table("db.t", "id BIGINT")
    written(tmp_path / "x" / "a.parquet", ids(1))
    (tmp_path / "x" / name).write_bytes(b"of another format")
    message = rf"adding the {kind} file .*{name}. Only Parquet files are supported"
    with pytest.raises(UnsupportedFeature, match=message):
        call("add_files", "db.t", f"`parquet`.`{tmp_path / 'x'}`")
    with pytest.raises(UnsupportedFeature, match=message):
        call("snapshot", f"`parquet`.`{tmp_path / 'x'}`", "db.new")
    with pytest.raises(UnsupportedFeature, match=message):
        lakescan.sql(f"CONVERT TO DELTA parquet.`{tmp_path / 'x'}`")
    assert (now().version, local.list_tables("db")) == (None, ["db.t"])
    assert sorted(each.name for each in (tmp_path / "x").iterdir()) == sorted(["a.parquet", name])


def test_rows_of_added_files_get_ids(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT", properties={"format-version": "3"}).append(ids(0))
    call("add_files", "db.t", f"`parquet`.`{written(tmp_path / 'f.parquet', ids(1, 2))}`")
    assert sorted(now().scan().select("_row_id").to_arrow()["_row_id"].to_pylist()) == [0, 1, 2]


def test_expiry_keeps_added_files_which_may_be_those_of_another_table(
    partitioned: lakescan.Table, local: lakescan.Catalog, call: Called, hive: Path
) -> None:
    """Files outside the table's own folders were added from there and are kept. Its own files are removed."""
    local.create_table("db.other", "id BIGINT, part STRING", partition_by=("part",))
    for name in ("db.t", "db.other"):
        call("add_files", name, f"`parquet`.`{hive}`")
    partitioned.append(rows((7, "a")))
    now().delete("part = 'a'")
    before = set(partitioned_files())
    result = now().expire_snapshots("2100-01-01", clean_expired_files=True)
    assert len(before - set(partitioned_files())) == 1
    assert result.removed_files > 0
    assert pairs() == [(4, "b/"), (5, None)]
    assert sorted(lakescan.table("local.db.other").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5]


def partitioned_files() -> list[Path]:
    return [*Path(now().folder.removeprefix("file://")).rglob("*.parquet")]


def test_expiry_removes_the_tables_own_files_in_its_earlier_location(
    partitioned: lakescan.Table, tmp_path: Path
) -> None:
    partitioned.append(rows((1, "a")))
    earlier = partitioned_files()
    now().alter().set_location(str(tmp_path / "moved")).commit()
    now().overwrite(rows((2, "a")))
    now().expire_snapshots("2100-01-01", clean_expired_files=True)
    assert [each for each in earlier if each.exists()] == []
    assert pairs() == [(2, "a")]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.alter().rename_column("id", "number").add_column("id", "STRING"),
        lambda table: table.alter().drop_column("id").add_column("id", "BIGINT"),
        lambda table: table.alter().rename_column("id", "number").rename_column("part", "id"),
        lambda table: table.alter().replace_columns("id BIGINT"),
    ],
)
def test_the_name_of_a_column_is_not_given_to_another_as_long_as_files_have_no_ids(
    local: lakescan.Catalog, call: Called, hive: Path, change: Any
) -> None:
    """Files without ids are read by name: their values would move to the other column."""
    local.create_table("db.t", "id BIGINT, part STRING")
    call("add_files", "db.t", f"`parquet`.`{written(hive / 'x' / '1.parquet', ids(1, 2))}`")
    before = now().to_arrow()
    with pytest.raises(UnsupportedFeature, match=r"without field ids, .*1\.parquet among them"):
        change(now()).commit()
    assert now().to_arrow() == before
    now().compact(rewrite_all=True)
    with pytest.raises(UnsupportedFeature, match="without field ids"):  # an older snapshot has them
        change(now()).commit()
    now().expire_snapshots("2100-01-01")
    change(now()).commit()
    assert now().to_arrow()["id"].null_count == 2
    if "number" in now().schema.names:
        assert sorted(now().to_arrow()["number"].to_pylist()) == [1, 2]


def test_a_renamed_column_of_files_without_ids_can_have_its_name_back(
    local: lakescan.Catalog, call: Called, hive: Path
) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    call("add_files", "db.t", f"`parquet`.`{written(hive / 'x' / '1.parquet', ids(1, 2))}`")
    now().alter().rename_column("id", "number").commit()
    assert sorted(now().to_arrow()["number"].to_pylist()) == [1, 2]
    now().alter().rename_column("number", "id").add_column("number", "STRING").commit()
    assert sorted(now().to_arrow()["id"].to_pylist()) == [1, 2]
    assert now().to_arrow()["number"].null_count == 2


def test_a_column_in_the_file_has_the_value_of_its_folder(
    local: lakescan.Catalog, call: Called, tmp_path: Path
) -> None:
    """Readers use the folder's value, but skip files by the column's own bounds."""
    local.create_table("db.t", "id BIGINT, part STRING, n INT, d DECIMAL(5, 2)", partition_by=("part", "n", "d"))

    def folder(name: str, part: str | None, n: int, d: str) -> str:
        values = {"id": [1], "part": pa.array([part], pa.string()), "n": pa.array([n], pa.int32()), "d": [Decimal(d)]}
        return f"`parquet`.`{written(tmp_path / name / 'part=a' / 'n=7' / 'd=1.50' / 'f.parquet', pa.table(values))}`"

    call("add_files", "db.t", folder("x", "a", 7, "1.50").replace("/part=a/n=7/d=1.50/f.parquet", ""))
    for name, values in (("y", ("b", 7, "1.50")), ("z", ("a", 8, "1.50")), ("w", ("a", 7, "2.50"))):
        with pytest.raises(SchemaMismatch, match="other values than the name of its folder"):
            call("add_files", "db.t", folder(name, *values).replace("/part=a/n=7/d=1.50/f.parquet", ""))
    assert now().scan().where("part = 'a' AND n = 7 AND d = 1.50").count() == 1


def test_two_columns_of_a_file_are_not_one_of_the_table(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    table = local.create_table("db.t", "id BIGINT, s STRING")
    call("add_files", "db.t", f"`parquet`.`{written(tmp_path / '1.parquet', pa.table({'id': [1], 's': ['x']}))}`")
    table.alter().rename_column("s", "z").commit()
    both = written(tmp_path / "2.parquet", pa.table({"id": [2], "s": ["old"], "z": ["new"]}))
    with pytest.raises(SchemaMismatch, match="its columns 's' and 'z' are both the column 'z'"):
        call("add_files", "db.t", f"`parquet`.`{both}`")
    for number, name in ((3, "s"), (4, "z")):
        file = written(tmp_path / f"{number}.parquet", pa.table({"id": [number], name: ["y"]}))
        call("add_files", "db.t", f"`parquet`.`{file}`")
    assert sorted(now().to_arrow()["z"].to_pylist()) == ["x", "y", "y"]


def test_files_with_ids_have_a_name_that_the_field_has_had(
    local: lakescan.Catalog, call: Called, tmp_path: Path
) -> None:
    table = local.create_table("db.t", "id BIGINT, s STRING")
    ids = {"id": b"1", "s": b"2"}
    schema = pa.schema(
        [
            pa.field(name, kind, metadata={b"PARQUET:field_id": ids[name]})
            for name, kind in (("id", pa.int64()), ("s", pa.string()))
        ]
    )
    file = written(tmp_path / "1.parquet", pa.table({"id": [1], "s": ["x"]}, schema=schema))
    table.alter().rename_column("s", "z").commit()
    call("add_files", "db.t", f"`parquet`.`{file}`")
    assert now().to_arrow().to_pylist() == [{"id": 1, "z": "x"}]
