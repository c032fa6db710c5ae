"""`spark.read` of lakescan's tables in enabled sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the Delta table `t`, which has two versions, and the Iceberg table `lake.r.t`."""
    found = tmp_path_factory.mktemp("delta")
    rows = enabled.range(2)
    rows.write.format("delta").save(str(found / "t"))
    rows.write.format("delta").mode("append").save(str(found / "t"))
    rows.writeTo("lake.r.t").create()
    return found


def test_load_takes_a_path_a_list_of_one_path_or_the_option_path(
    enabled: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(folder / "t")
    monkeypatch.chdir(folder)
    reader = enabled.read.format("delta")
    for frame in (reader.load(path), reader.load([path]), reader.load("t"), enabled.read.load(path, format="delta")):
        assert frame.count() == 4
    assert enabled.read.format("delta").option("path", path).load().count() == 4


def test_load_of_format_iceberg_takes_a_name(enabled: Any, folder: Path) -> None:
    assert enabled.read.format("iceberg").load("lake.r.t").count() == 2
    assert enabled.read.option("no.such.option", "1").table("lake.r.t").count() == 2


def test_time_travel_by_options_and_by_the_path(enabled: Any, folder: Path) -> None:
    path = str(folder / "t")
    assert enabled.read.format("delta").option("versionAsOf", 0).load(path).count() == 2
    assert enabled.read.format("delta").option("versionAsOf", "0").load(path).count() == 2
    assert enabled.read.format("delta").load(f"{path}@v0").count() == 2
    with pytest.raises(AnalysisException, match="DELTA_VERSION_NOT_FOUND"):
        enabled.read.format("delta").option("versionAsOf", 99).load(path).count()
    with pytest.raises(AnalysisException, match="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"):
        enabled.read.format("delta").option("timestampAsOf", "2001-01-01").load(path).count()


def test_frames_have_metadata_columns_by_name(enabled: Any, folder: Path) -> None:
    iceberg, delta = enabled.table("lake.r.t"), enabled.read.format("delta").load(str(folder / "t"))
    assert iceberg.columns == iceberg.select("*").columns == ["id"]
    assert [row[0] for row in iceberg.where("id = 1 AND _pos >= 0").select("_spec_id").collect()] == [0]
    assert iceberg.where("_pos = 0").columns == ["id"]
    [name] = iceberg.select(iceberg["_file"]).distinct().limit(1).collect()
    assert name[0].endswith(".parquet")
    files = delta.groupBy("_metadata.file_path").count().select("count").collect()
    assert sum(row[0] for row in files) == 4
    assert delta.where("_metadata.file_name LIKE '%.parquet'").select("id", "_metadata.row_index").count() == 4
    assert enabled.sql(f"SELECT _metadata.file_path FROM delta.`{folder}/t`").count() == 4


def test_options_select_a_part_of_the_changelog(enabled: Any, folder: Path) -> None:
    enabled.range(5, 6).writeTo("lake.r.changed").create()
    first = enabled.sql("SELECT snapshot_id FROM lake.r.changed.snapshots").first()[0]
    enabled.range(6, 8).writeTo("lake.r.changed").append()
    changes = enabled.read.format("iceberg").option("start-snapshot-id", first).load("lake.r.changed.changes")
    assert sorted(row["id"] for row in changes.collect()) == [6, 7]


def test_load_refuses_what_the_jars_refuse(enabled: Any, folder: Path) -> None:
    path = str(folder / "t")
    for place in (None, [], [path, path]):
        with pytest.raises(IllegalArgumentException):
            enabled.read.format("delta").load(place)
    with pytest.raises(UnsupportedOperationException):
        enabled.read.format("delta").schema("id long").load(path)
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        enabled.read.format("delta").load(str(folder / "nothing"))


def test_a_column_with_the_name_of_a_metadata_column_is_the_tables_own(enabled: Any, tmp_path: Path) -> None:
    enabled.sql("SELECT 1L AS id, 'mine' AS _file").write.format("delta").save(str(tmp_path / "t"))
    frame = enabled.read.format("delta").load(str(tmp_path / "t"))
    assert [tuple(row) for row in frame.select("_file", "_pos").collect()] == [("mine", 0)]
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        frame.select("_metadata.file_path")


def test_an_earlier_version_has_its_own_columns(enabled: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    enabled.range(2).write.format("delta").save(path)
    enabled.sql("SELECT 2L AS id, 'b' AS more").write.format("delta").mode("append").option("mergeSchema", "true").save(
        path
    )
    enabled.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    enabled.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO key")
    assert enabled.read.format("delta").option("versionAsOf", 0).load(path).columns == ["id"]
    assert enabled.read.format("delta").load(f"{path}@v1").columns == ["id", "more"]
    assert enabled.read.format("delta").load(path).where("_metadata.row_index >= 0").columns == ["key", "more"]
