"""snapshot: a new table over another table's Parquet files, which it does not own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.errors import InvalidOption, SchemaMismatch, TableExists, UnsupportedFeature
from lakescan.writing.imported_files import folder_type
from tests.statements.procedures.conftest import Called


@pytest.fixture
def hive(tmp_path: Path) -> Path:
    """Files in folders by day and number."""
    for day, number, ids in (("2026-01-30", "1", [1, 2]), ("2026-01-31", "27", [3])):
        folder = tmp_path / "hive" / f"day={day}" / f"n={number}"
        folder.mkdir(parents=True)
        struct = pa.array([{"a": 5}] * len(ids), pa.struct([("a", pa.int32())]))
        pq.write_table(pa.table({"id": ids, "s": struct}), folder / "f.parquet")
    (tmp_path / "hive" / "_SUCCESS").touch()
    return tmp_path / "hive"


def test_a_folder_becomes_a_table(local: lakescan.Catalog, call: Called, hive: Path) -> None:
    given = {"owner": "me", "gc.enabled": "true"}
    result = call("snapshot", f"`parquet`.`{hive}`", "db.t", properties=given)
    assert result.to_pylist() == [{"imported_files_count": 2}]
    table = local.load_table("db.t")
    assert table.partitioning == "day, n"
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])[1:] == [
        {"id": 2, "s": {"a": 5}, "day": date(2026, 1, 30), "n": 1},
        {"id": 3, "s": {"a": 5}, "day": date(2026, 1, 31), "n": 27},
    ]
    assert {"owner": "me", "gc.enabled": "false", "snapshot": "true"}.items() <= table.properties.items()
    assert len(table.history()) == 1
    table.alter().rename_column("id", "number").commit()
    assert sorted(table.refresh().to_arrow()["number"].to_pylist()) == [1, 2, 3]


def test_the_snapshot_changes_and_its_source_does_not(local: lakescan.Catalog, call: Called, hive: Path) -> None:
    call("snapshot", source_table=f"parquet.`{hive}`", table="db.t")
    before = {each: each.read_bytes() for each in hive.rglob("*.parquet")}
    table = local.load_table("db.t")
    table.delete("id = 1")
    table.overwrite(table.to_arrow())
    with pytest.raises(UnsupportedFeature, match=r"gc\.enabled"):
        table.expire_snapshots("2100-01-01")
    with pytest.raises(UnsupportedFeature, match=r"gc\.enabled"):
        local.drop_table("db.t", purge=True)
    local.drop_table("db.t")
    assert {each: each.read_bytes() for each in hive.rglob("*.parquet")} == before


def test_a_location_outside_of_the_files_is_required(local: lakescan.Catalog, call: Called, hive: Path) -> None:
    for location in (hive, f"file://{hive}/x", hive.parent):
        with pytest.raises(InvalidOption, match="would be mixed"):
            call("snapshot", f"`parquet`.`{hive}`", "db.t", str(location))
    call("snapshot", f"`parquet`.`{hive}`", "db.t", str(hive.parent / "new"))
    assert local.load_table("db.t").folder == str(hive.parent / "new")
    with pytest.raises(TableExists):
        call("snapshot", f"`parquet`.`{hive}`", "db.t")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", None, "27"], "int"),
        (["1", str(2**40)], "long"),
        (["1", "2.5"], "double"),
        (["2026-01-31"], "date"),
        (["2026-01-31", "2026-02-31"], "string"),
        (["1", "x"], "string"),
        (["1e"], "string"),
        ([str(2**70)], "double"),
        (["__HIVE_DEFAULT_PARTITION__"], "string"),
    ],
)
def test_partition_types_are_inferred_from_folder_names(values: list[str | None], kind: str) -> None:
    assert str(folder_type(values)) == kind


def test_the_table_has_the_columns_of_all_files(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    at = datetime(2026, 1, 31, tzinfo=UTC)
    one = pa.table({"id": [1], "at": pa.array([at.replace(tzinfo=None)], pa.timestamp("us"))})
    (tmp_path / "x").mkdir()
    pq.write_table(one, tmp_path / "x" / "1.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(pa.table({"id": [2], "note": ["x"]}), tmp_path / "x" / "2.parquet")
    call("snapshot", f"`parquet`.`{tmp_path}/x`", "db.t")
    found = local.load_table("db.t").to_arrow().sort_by("id")
    assert found.to_pylist() == [{"id": 1, "at": at, "note": None}, {"id": 2, "at": None, "note": "x"}]
    pq.write_table(pa.table({"id": ["3"]}), tmp_path / "x" / "3.parquet")
    with pytest.raises(SchemaMismatch, match=r"column .id. is long in .*1\.parquet, and string in .*3\.parquet"):
        call("snapshot", f"`parquet`.`{tmp_path}/x`", "db.u")
    assert not local.table_exists("db.u")


def nanoseconds(folder: Path) -> None:
    pq.write_table(pa.table({"at": pa.array([1], pa.timestamp("ns"))}), folder / "f.parquet")


def nothing(folder: Path) -> None:
    (folder / "_SUCCESS").touch()


def delta(folder: Path) -> None:
    lakescan.save(pa.table({"id": [1]}), folder, format="delta")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (nanoseconds, UnsupportedFeature, "nanoseconds"),
        (nothing, InvalidOption, "no files"),
        (delta, UnsupportedFeature, "Delta or Iceberg table"),
    ],
)
def test_invalid_source_folders_are_refused(
    local: lakescan.Catalog, call: Called, tmp_path: Path, make: Callable[[Path], None], error: Any, message: str
) -> None:
    (tmp_path / "x").mkdir()
    make(tmp_path / "x")
    with pytest.raises(error, match=message):
        call("snapshot", f"`parquet`.`{tmp_path}/x`", "db.t")
    assert not local.table_exists("db.t")


@pytest.mark.parametrize("source", ["`orc`.`/x`", "delta.`/x`", "spark_catalog.db.t", "t"])
def test_other_sources_are_refused(local: lakescan.Catalog, call: Called, source: str) -> None:
    with pytest.raises(UnsupportedFeature, match="snapshot"):
        call("snapshot", source, "db.t")


def test_a_failed_snapshot_leaves_the_files(local: lakescan.Catalog, call: Called, hive: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import TableAlreadyExistsError

    before = sorted(hive.rglob("*"))
    with (
        patch.object(SqlCatalog, "register_table", side_effect=TableAlreadyExistsError("there")),
        pytest.raises(lakescan.LakescanError),
    ):
        call("snapshot", f"`parquet`.`{hive}`", "db.t")
    assert sorted(hive.rglob("*")) == before
    assert not list((hive.parent / "lake").rglob("*.avro"))


def test_files_and_columns_are_chosen(local: lakescan.Catalog, hive: Path) -> None:
    (one, _) = sorted(str(each) for each in hive.rglob("*.parquet"))
    columns = "id BIGINT, extra STRING, day DATE, n STRING"
    made = local.create_from_files(
        "db.t", hive, columns=columns, partition_by=["day", "n"], files=[f"file:{one}"], properties={"owner": "me"}
    )
    assert (made.files, made.rows) == (1, 2)
    expected = {"id": 1, "extra": None, "day": date(2026, 1, 30), "n": "1"}
    assert local.load_table("db.t").to_arrow().to_pylist()[0] == expected
    assert local.create_from_files("db.empty", hive, columns=columns, partition_by=["day", "n"], files=[]).files == 0
    assert local.load_table("db.empty").count() == 0
    for wrong, error in (
        ({"columns": columns, "partition_by": ["day"]}, InvalidOption),
        ({"partition_by": ["day"]}, InvalidOption),
        ({"files": [f"{hive}/other.parquet"]}, InvalidOption),
        ({"format": "delta"}, UnsupportedFeature),
    ):
        with pytest.raises(error):
            local.create_from_files("db.u", hive, **wrong)
    assert not local.table_exists("db.u")
