"""DROP FEATURE of Delta tables, for reader features: the rows stay, and nothing needs the feature afterwards."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.common.timestamps import to_millis
from lakescan.delta.commit import commit_file as put
from lakescan.delta.maintenance.log_cleanup import clean_up
from lakescan.storage import Storage
from tests.support.delta_state import added, commit, newest_version, state
from tests.support.rows import differences

ROWS = pa.table({"id": pa.array([1, 2, 3, 4], pa.int32()), "word": ["a", "b", None, "d"], "part": ["x", "x", "y", "y"]})
DAY = 25 * 3600
PROTECTED = "delta.requireCheckpointProtectionBeforeVersion"
LEFT = {"appendOnly", "invariants"}


def mapped(table: lakescan.Table) -> None:
    table.alter().rename_column("word", "text").rename_column("part", "p").commit()
    table.delete("id = 2")


def widened(table: lakescan.Table) -> None:
    table.append(ROWS)
    table.alter().change_column("id", type="BIGINT").commit()
    table.append(pa.table({"id": pa.array([2**40]), "word": ["z"], "part": ["z"]}))


FEATURES: dict[str, tuple[dict[str, str], Callable[[lakescan.Table], object]]] = {
    "deletionVectors": ({"delta.enableDeletionVectors": "true"}, lambda t: t.delete("id IN (1, 3)")),
    "columnMapping": ({"delta.columnMapping.mode": "name"}, mapped),
    "typeWidening": ({"delta.enableTypeWidening": "true"}, widened),
    "v2Checkpoint": ({"delta.checkpointPolicy": "v2"}, lambda t: t.checkpoint()),
    "vacuumProtocolCheck": (
        {},
        lambda t: t.alter().set_properties({"delta.feature.vacuumProtocolCheck": "supported"}).commit(),
    ),
}


def made(folder: Path, feature: str, properties: dict[str, str] | None = None) -> lakescan.Table:
    """Make a table that uses a feature."""
    own, use = FEATURES[feature]
    lakescan.save(ROWS, folder, format="delta", partition_by="part", properties={**own, **(properties or {})})
    use(lakescan.table(folder))
    table = lakescan.table(folder)
    assert feature in state(folder)[0].features
    return table


def age(folder: Path, seconds: float = DAY) -> None:
    """Make all files of a log older by some seconds, keeping their order."""
    for file in (folder / "_delta_log").rglob("*"):
        if file.is_file():
            then = file.stat().st_mtime - seconds
            os.utime(file, (then, then))


def operations(table: lakescan.Table) -> list[str]:
    return [row["operation"] for row in table.refresh().history().to_pylist()]


def as_old_readers_do(folder: Path) -> pa.Table:
    """Read all live files under the table's own names and types, which requires no feature."""
    _, metadata, files = state(folder)
    schema = metadata.schema().arrow() if hasattr(metadata.schema(), "arrow") else None
    tables = []
    for file in files:
        assert file["vector"]["storageType"] is None
        own = pq.ParquetFile(folder / file["path"].removeprefix(f"{folder}/")).read()
        for name, value in file["partition"].items():
            own = own.append_column(name, pa.array([value] * own.num_rows, pa.string()))
        tables.append(own)
    assert schema is None or all(each.schema == schema for each in tables)
    return pa.concat_tables(tables)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_dropped_feature_is_no_longer_needed(tmp_path: Path, feature: str) -> None:
    table = made(tmp_path, feature)
    before, last = table.to_arrow(), newest_version(tmp_path)
    table.alter().drop_feature(feature).commit()
    protocol, metadata, _ = state(tmp_path)
    assert protocol.features == {*LEFT, "checkpointProtection"}
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert differences(table.refresh().to_arrow(), before) == ""
    assert differences(as_old_readers_do(tmp_path).select(before.column_names), before) == ""
    assert differences(lakescan.table(tmp_path).scan().as_of(version=last).to_arrow(), before) == ""
    assert feature not in str(metadata.configuration) + metadata.schema_string
    lakescan.table(tmp_path).append(before.slice(0, 1))
    assert lakescan.table(tmp_path).count() == before.num_rows + 1


@pytest.mark.parametrize("feature", FEATURES)
def test_barrier_checkpoints_hide_the_history(tmp_path: Path, feature: str) -> None:
    table = made(tmp_path, feature)
    table.alter().drop_feature(feature).commit()
    last = newest_version(tmp_path)
    assert table.refresh().properties[PROTECTED] == str(last)
    names = [(tmp_path / "_delta_log" / f"{last - back:020d}.checkpoint.parquet").exists() for back in range(4)]
    assert names == [True] * 4
    assert operations(table)[-4:] == ["Empty Commit"] * 3 + ["DROP FEATURE"]


@pytest.mark.parametrize("feature", [each for each in FEATURES if each != "vacuumProtocolCheck"])
def test_truncating_the_history_waits_until_versions_that_use_the_feature_have_expired(
    tmp_path: Path, feature: str
) -> None:
    table = made(tmp_path, feature)
    before = table.to_arrow()
    drop = table.alter().drop_feature(feature, truncate_history=True)
    with pytest.raises(lakescan.FeatureInUse, match=r"kept for 24 hours .* Repeat the statement at 20\d\d-"):
        drop.commit()
    assert feature in state(tmp_path)[0].features
    assert differences(table.refresh().to_arrow(), before) == ""
    with pytest.raises(lakescan.FeatureInUse) as error:
        lakescan.table(tmp_path).alter().drop_feature(feature, truncate_history=True).commit()
    used = int(re.findall(r"versions up to (\d+) in its history", str(error.value))[0])
    assert used < newest_version(tmp_path) - 1
    age(tmp_path)
    lakescan.table(tmp_path).alter().drop_feature(feature, truncate_history=True).commit()
    assert state(tmp_path)[0].features == LEFT
    assert state(tmp_path)[0].min_writer_version == 2
    assert differences(lakescan.table(tmp_path).to_arrow(), before) == ""
    with pytest.raises(lakescan.NoSuchSnapshot):
        lakescan.table(tmp_path).scan().as_of(version=used).to_arrow()


def test_a_feature_without_traces_is_dropped_with_its_history_at_once(tmp_path: Path) -> None:
    table = made(tmp_path, "vacuumProtocolCheck")
    table.alter().drop_feature("vacuumProtocolCheck", truncate_history=True).commit()
    assert state(tmp_path)[0].features == LEFT


def test_waiting_until_the_named_time_is_enough(tmp_path: Path) -> None:
    table = made(
        tmp_path, "deletionVectors", {"delta.dropFeatureTruncateHistory.retentionDuration": "interval 2 hours"}
    )
    with pytest.raises(lakescan.FeatureInUse, match="kept for 2 hours") as error:
        table.alter().drop_feature("deletionVectors", truncate_history=True).commit()
    said = str(error.value).split("Repeat the statement at ")[1].split(" UTC")[0]
    then = datetime.strptime(said, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    minutes = math.ceil((then - datetime.now(UTC)) / timedelta(minutes=1))  # whole ones: times are compared by minutes
    age(tmp_path, 60 * minutes)
    lakescan.table(tmp_path).alter().drop_feature("deletionVectors", truncate_history=True).commit()
    assert state(tmp_path)[0].features == LEFT


def test_the_protection_is_removed_with_the_protected_versions(tmp_path: Path) -> None:
    table = made(tmp_path, "columnMapping")
    table.alter().drop_feature("columnMapping").commit()
    with pytest.raises(lakescan.InvalidOption, match="TRUNCATE HISTORY"):
        table.refresh().alter().drop_feature("checkpointProtection").commit()
    drop = lakescan.table(tmp_path).alter().drop_feature("checkpointProtection", truncate_history=True)
    with pytest.raises(lakescan.FeatureInUse, match="Repeat the statement at"):
        drop.commit()
    assert PROTECTED in lakescan.table(tmp_path).properties
    age(tmp_path)
    lakescan.table(tmp_path).alter().drop_feature("checkpointProtection", truncate_history=True).commit()
    assert PROTECTED not in lakescan.table(tmp_path).properties
    assert state(tmp_path)[0].features == LEFT
    assert differences(lakescan.table(tmp_path).to_arrow(), as_old_readers_do(tmp_path)) == ""


def test_versions_are_protected_as_the_log_is_cleaned(tmp_path: Path) -> None:
    table = made(tmp_path, "deletionVectors", {"delta.logRetentionDuration": "interval 1 day"})
    table.alter().drop_feature("deletionVectors").commit()
    last = newest_version(tmp_path)
    commits = sorted((tmp_path / "_delta_log").glob("*.json"))
    for file in (tmp_path / "_delta_log").glob("*"):
        if not file.name.startswith(f"{last:020d}"):
            os.utime(file, (time.time() - 9 * DAY,) * 2)
    assert clean_up(str(tmp_path), Storage()).first is None  # only up to the last barrier, which is before the drop
    assert sorted((tmp_path / "_delta_log").glob("*.json")) == commits
    age(tmp_path, 9 * DAY)
    assert clean_up(str(tmp_path), Storage()).first == last
    assert lakescan.table(tmp_path).count() == 2


# Other writers


def while_putting(monkeypatch: pytest.MonkeyPatch, operation: str, act: Callable[[], object]) -> None:
    """Let another writer act just before a commit of an operation is put."""
    real, done = put.put_if_absent, []

    def first(storage: Storage, file: str, data: bytes) -> Any:
        if f'"operation":"{operation}"'.encode() in data.replace(b'": "', b'":"') and not done:
            done.append(operation)
            act()
        return real(storage, file, data)

    monkeypatch.setattr(put, "put_if_absent", first)


def test_concurrently_appended_rows_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, "deletionVectors")
    while_putting(monkeypatch, "DROP FEATURE", lambda: lakescan.table(tmp_path).append(ROWS.slice(0, 1)))
    table.alter().drop_feature("deletionVectors").commit()
    last = newest_version(tmp_path)
    assert operations(table)[-2:] == ["WRITE", "DROP FEATURE"]
    assert table.refresh().properties[PROTECTED] == str(last)  # the row ids of the version that the commit got
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 4]


@pytest.mark.parametrize(
    ("feature", "operation"), [("columnMapping", "REMOVE COLUMN MAPPING"), ("typeWidening", "REORG")]
)
def test_files_are_rewritten_after_concurrent_row_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str, operation: str
) -> None:
    table = made(tmp_path, feature)
    while_putting(monkeypatch, operation, lambda: lakescan.table(tmp_path).delete("id = 4"))
    table.alter().drop_feature(feature).commit()
    found = table.refresh().to_arrow()
    assert 4 not in found["id"].to_pylist()
    assert found.num_rows
    assert differences(as_old_readers_do(tmp_path).select(found.column_names), found) == ""


def test_a_concurrent_new_use_of_the_feature_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path, "deletionVectors")

    def again() -> None:
        other = lakescan.table(tmp_path)
        other.alter().set_properties({"delta.enableDeletionVectors": True}).commit()
        other.refresh().delete("id = 2")

    while_putting(monkeypatch, "DROP FEATURE", again)
    with pytest.raises(lakescan.FeatureInUse, match="a concurrent commit uses it again"):
        table.alter().drop_feature("deletionVectors").commit()
    assert "deletionVectors" in state(tmp_path)[0].features
    assert table.refresh().to_arrow()["id"].to_pylist() == [4]


def test_a_concurrent_vector_without_the_property_keeps_the_feature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, "deletionVectors")
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }

    def put_vector() -> None:
        add = added("part=x/a.parquet", {"part": "x"}, deletionVector=vector)
        commit(tmp_path, {"commitInfo": {"isBlindAppend": True}}, {"add": {**add["add"], "dataChange": False}})

    while_putting(monkeypatch, "DROP FEATURE", put_vector)
    with pytest.raises(lakescan.FeatureInUse, match="a concurrent commit uses it again"):
        table.alter().drop_feature("deletionVectors").commit()
    assert "deletionVectors" in state(tmp_path)[0].features


# Files of vectors


def test_vectors_of_removed_files_are_named_for_writers_that_do_not_know_them(tmp_path: Path) -> None:
    table = made(tmp_path, "deletionVectors")
    vectors = {file.name for file in tmp_path.glob("*.bin")}
    table.alter().drop_feature("deletionVectors").commit()
    last = newest_version(tmp_path)
    log = "".join(file.read_text() for file in (tmp_path / "_delta_log").glob("*.json"))
    assert len(vectors) >= 1
    assert all(f'"remove":{{"path":"{name}","deletionTimestamp":' in log for name in vectors)
    table.refresh().alter().set_properties({"delta.feature.deletionVectors": "supported"}).commit()
    lakescan.table(tmp_path).alter().drop_feature("deletionVectors").commit()
    assert operations(table)[last + 1 :] == ["SET TBLPROPERTIES", *["Empty Commit"] * 3, "DROP FEATURE"]  # none again
    old = to_millis(datetime.now(UTC) - timedelta(days=9)) / 1000
    for file in tmp_path.rglob("*.*"):
        if "_delta_log" not in file.parts:
            os.utime(file, (old, old))
    lakescan.table(tmp_path).remove_orphans()
    assert {file.name for file in tmp_path.glob("*.bin")} == vectors


# The history's requirements remain


def test_restoring_a_version_restores_the_feature_and_keeps_the_protection(tmp_path: Path) -> None:
    table = made(tmp_path, "columnMapping")
    before, last = table.to_arrow(), newest_version(tmp_path)
    table.alter().drop_feature("columnMapping").commit()
    protected = table.refresh().properties[PROTECTED]
    table.append(before.slice(0, 1))
    table.restore(last)
    assert differences(lakescan.table(tmp_path).to_arrow(), before) == ""
    assert {"columnMapping", "checkpointProtection"} <= state(tmp_path)[0].features
    assert lakescan.table(tmp_path).properties[PROTECTED] == protected
    lakescan.table(tmp_path).alter().drop_feature("columnMapping").commit()
    assert differences(as_old_readers_do(tmp_path).select(before.column_names), before) == ""
    assert int(lakescan.table(tmp_path).properties[PROTECTED]) == newest_version(tmp_path)


def test_a_replaced_table_keeps_the_protection_and_a_clone_has_nothing_to_protect(
    local: lakescan.Catalog, tmp_path: Path
) -> None:
    lakescan.sql("CREATE TABLE local.db.t (n INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lakescan.sql("ALTER TABLE local.db.t DROP FEATURE deletionVectors")
    table = lakescan.table("local.db.t")
    table.clone(tmp_path / "c")
    assert PROTECTED not in lakescan.table(tmp_path / "c").properties
    protected = table.properties[PROTECTED]
    for text in ("(m INT) USING delta", "USING delta AS SELECT 1 AS n"):
        lakescan.sql(f"CREATE OR REPLACE TABLE local.db.t {text}")
        assert lakescan.table("local.db.t").properties[PROTECTED] == protected


@pytest.mark.parametrize("change", ["SET TBLPROPERTIES ('{}' = '0')", "UNSET TBLPROPERTIES ('{}')"])
def test_the_protection_cannot_be_set_as_a_property(tmp_path: Path, change: str) -> None:
    table = made(tmp_path, "vacuumProtocolCheck")
    table.alter().drop_feature("vacuumProtocolCheck").commit()
    before = newest_version(tmp_path)
    with pytest.raises(lakescan.LakescanError, match=PROTECTED):
        lakescan.sql(f"ALTER TABLE delta.`{tmp_path}` {change.format(PROTECTED)}")
    assert newest_version(tmp_path) == before


# Mapping and clustering, row ids


def test_clustering_columns_are_recorded_by_their_own_names(tmp_path: Path) -> None:
    lakescan.sql(
        f"CREATE TABLE delta.`{tmp_path}` (id INT, s STRUCT<a: INT>) USING delta CLUSTER BY (s.a, id) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true')"
    )
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "s": [{"a": 5}, {"a": 6}]})
    lakescan.table(tmp_path).append(rows)
    lakescan.table(tmp_path).alter().rename_column("s.a", "b").commit()
    ids = lakescan.table(tmp_path).scan().select("id", "_row_id").to_arrow().to_pylist()
    lakescan.table(tmp_path).alter().drop_feature("columnMapping").commit()
    table = lakescan.table(tmp_path)
    assert table.scan().select("id", "_row_id").to_arrow().to_pylist() == ids
    log = "".join(file.read_text() for file in sorted((tmp_path / "_delta_log").glob("*.json"))[-6:])
    assert r"""{\"clusteringColumns\": [[\"s\", \"b\"], [\"id\"]]""" in log
    table.append(table.to_arrow())
    assert table.refresh().count() == 4


def test_a_name_that_files_cannot_have_keeps_the_mapping(tmp_path: Path) -> None:
    table = made(tmp_path, "columnMapping")
    table.alter().rename_column("text", "two words").commit()
    before = newest_version(tmp_path)
    with pytest.raises(lakescan.UnsupportedFeature, match=r"two words.*Rename it first"):
        lakescan.table(tmp_path).alter().drop_feature("columnMapping").commit()
    assert newest_version(tmp_path) == before


def test_files_with_the_current_types_are_kept(tmp_path: Path) -> None:
    table = made(tmp_path, "typeWidening")
    before = {row["path"] for row in state(tmp_path)[2]}
    table.alter().drop_feature("typeWidening").commit()
    after = {row["path"] for row in state(tmp_path)[2]}
    assert len(before & after) == 1  # of the rows that were appended with the wider type
    assert "delta.typeChanges" not in state(tmp_path)[1].schema_string


def test_files_with_earlier_nested_types_are_rewritten(tmp_path: Path) -> None:
    rows = (
        pa.table(
            {"s": [{"a": 1}], "l": [[1, None]], "m": [{"k": 1.5}], "same": [1]},
            pa.schema(
                [
                    ("s", pa.struct([("a", pa.int32())])),
                    ("l", pa.list_(pa.int16())),
                    ("m", pa.map_(pa.string(), pa.float32())),
                    ("same", pa.int64()),
                ]
            ),
        )
        if False
        else pa.table(
            {
                "s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())])),
                "l": pa.array([[1, None]], pa.list_(pa.int16())),
                "m": pa.array([[("k", 1.5)]], pa.map_(pa.string(), pa.float32())),
                "same": pa.array([1]),
            }
        )
    )
    for name, change in {"s.a": "DECIMAL(12, 2)", "l.element": "INT", "m.value": "DOUBLE"}.items():
        folder = tmp_path / name
        lakescan.save(rows, folder, format="delta", properties={"delta.enableTypeWidening": "true"})
        table = lakescan.table(folder)
        table.alter().change_column(name, type=change).commit()
        before = table.refresh().to_arrow()
        table.alter().drop_feature("typeWidening").commit()
        [file] = state(folder)[2]
        assert (
            pq.read_schema(file["path"]).field(name.split(".")[0]).type == before.schema.field(name.split(".")[0]).type
        )
        assert differences(lakescan.table(folder).to_arrow(), before) == ""


def test_partitions_of_dates_become_those_of_timestamps(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "day": pa.array([date(2026, 1, 31), None])})
    lakescan.save(rows, tmp_path, format="delta", partition_by="day", properties={"delta.enableTypeWidening": "true"})
    table = lakescan.table(tmp_path)
    table.alter().change_column("day", type="TIMESTAMP_NTZ").commit()
    before = table.refresh().to_arrow()
    table.alter().drop_feature("typeWidening").commit()
    values = {file["partition"]["day"] for file in state(tmp_path)[2]}
    assert values == {"2026-01-31 00:00:00.000000", None}
    assert differences(lakescan.table(tmp_path).to_arrow(), before) == ""


# Refusals


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DROP FEATURE appendOnly", "it cannot be dropped"),
        ("DROP FEATURE timestampNtz", "no feature 'timestampNtz'"),
        ("DROP FEATURE `delta.enableDeletionVectors`", "no feature"),
        ("DROP FEATURE checkpointProtection", "no feature"),
    ],
)
def test_features_that_cannot_be_dropped_are_refused_by_name(tmp_path: Path, statement: str, says: str) -> None:
    made(tmp_path, "deletionVectors")
    before = newest_version(tmp_path)
    with pytest.raises(lakescan.LakescanError, match=says):
        lakescan.sql(f"ALTER TABLE delta.`{tmp_path}` {statement}")
    assert newest_version(tmp_path) == before


def test_a_feature_that_needs_several_commits_is_dropped_on_its_own(tmp_path: Path) -> None:
    table = made(tmp_path, "deletionVectors")
    before = newest_version(tmp_path)
    with pytest.raises(lakescan.UnsupportedFeature, match="a statement of its own"):
        table.alter().set_properties({"a": "b"}).drop_feature("deletionvectors").commit()
    assert newest_version(tmp_path) == before
    lakescan.sql(f"ALTER TABLE delta.`{tmp_path}` DROP FEATURE deletionvectors")
    assert "deletionVectors" not in state(tmp_path)[0].features
