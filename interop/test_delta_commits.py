"""Delta on Spark reads checkpoints, checksums and deletion vectors that lakescan writes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64
from tests.support.delta_state import leave_only, newest_version
from tests.support.rows import differences

import lakescan
from interop.crowd import written_by_many
from interop.test_delta import CASES, ROWS, TYPES, VECTORS, written
from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.delta.maintenance.log_cleanup import clean_up
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.tables.row_changes import RowChanges, RowLevelCommand

KINDS = [
    "types",
    "copy on write",
    "deletion vectors and checkpoints",
    "checkpoints v2",
    "struct statistics only",
    "column mapping by name",
    "type widening",
    "odd names and partitions",
    "clustered",
    "optimized and restored",
    "row tracking",
    "in-commit timestamps",
    "nothing in it",
]


def forget(jvm: Any) -> None:
    """Drop Delta's cache of tables."""
    jvm._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def only_checkpoint(jvm: Any, location: str) -> None:
    """Checkpoint the newest version and remove the rest of the log except its commit, as clean-up does."""
    table, version = Path(location), newest_version(Path(location))
    last = table / "_delta_log" / f"{version:020d}.json"
    text = last.read_bytes()
    result = checkpoint_version(location, version, Storage())
    leave_only(table, result.location)
    last.write_bytes(text)
    forget(jvm)


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize("name", KINDS)
def test_a_table_is_continued_from_only_a_checkpoint(jvm, warehouse: Path, name: str, policy: str) -> None:
    identifier, location = written(jvm, warehouse, f"{name} from {policy}", CASES[name])
    jvm.sql(f"ALTER TABLE {identifier} SET TBLPROPERTIES ('delta.checkpointPolicy'='{policy}')")
    expected = jvm.sql(f"SELECT * FROM {identifier}").toArrow()
    only_checkpoint(jvm, location)
    assert differences(jvm.sql(f"SELECT * FROM {identifier}").toArrow(), expected) == ""
    assert differences(lakescan.table(location).scan().to_arrow(), expected) == ""
    jvm.sql(f"INSERT INTO {identifier} SELECT * FROM {identifier}")
    jvm.sql(f"DELETE FROM {identifier} WHERE true")
    assert jvm.sql(f"SELECT * FROM {identifier}").count() == 0


def files_of(jvm: Any, file: str, *members: str) -> dict[str, Any]:
    """Return members of a checkpoint's adds as Spark reads them, by path."""
    adds = jvm.read.parquet(file).where("add IS NOT NULL")
    columns = ", ".join(f"add.{each}" for each in members)
    return {
        row.path: json.loads(row.node)
        for row in adds.selectExpr("add.path", f"to_json(struct({columns})) AS node").collect()
    }


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (day, b)", "PARTITIONED BY (text, small)"])
def test_parsed_statistics_equal_those_of_delta(jvm, warehouse: Path, by: str) -> None:
    properties = "TBLPROPERTIES ('delta.checkpoint.writeStatsAsStruct'='true', 'delta.checkpointInterval'='1')"
    statements = [f"CREATE TABLE {{t}} USING delta {by} {properties} AS {TYPES}", "DELETE FROM {t} WHERE id = 3"]
    _, location = written(jvm, warehouse, f"statistics {by}", statements)
    theirs = Path(location) / "_delta_log" / f"{1:020d}.checkpoint.parquet"
    members = ["stats_parsed", "partitionValues", *(["partitionValues_parsed"] if by else [])]
    expected = files_of(jvm, str(theirs), *members)
    theirs.unlink()
    mine = files_of(jvm, checkpoint_version(location, 1, Storage()).location, *members)
    for node in expected.values():
        for name in ("list", "map"):  # null counts, which lakescan does not record
            node["stats_parsed"]["nullCount"].pop(name, None)
            node["stats_parsed"]["nullCount"].get("s", {}).pop("y", None)
    assert mine == expected


def checked(jvm: Any, location: str) -> bool:
    """Return whether the newest version has a checksum; raise if it differs from the state that Delta reads."""
    forget(jvm)
    log = jvm._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(jvm._jsparkSession, location)
    snapshot = log.unsafeVolatileSnapshot()
    nothing = getattr(jvm._jvm.scala.collection.immutable, "Map$").__getattr__("MODULE$").empty()
    assert snapshot.validateChecksum(nothing)
    return bool(snapshot.checksumOpt().isDefined())


@pytest.mark.parametrize("name", ["types", "deletion vectors", "row tracking", "in-commit timestamps", "clustered"])
def test_the_checksum_of_a_checkpoint_matches_the_state(jvm, warehouse: Path, name: str) -> None:
    _, location = written(jvm, warehouse, f"checksum {name}", CASES[name])
    version = newest_version(Path(location))
    for file in (Path(location) / "_delta_log").glob("*.crc"):
        file.unlink()
    checkpoint_version(location, version, Storage())
    assert (Path(location) / "_delta_log" / f"{version:020d}.crc").exists()
    assert checked(jvm, location)


def test_vectors_and_their_checksum_are_read_and_added_to(jvm, warehouse: Path) -> None:
    statements = [f"CREATE TABLE {{t}} USING delta {VECTORS} AS {ROWS}", "DELETE FROM {t} WHERE id % 10 = 3"]
    identifier, location = written(jvm, warehouse, "our vectors", statements)
    before = lakescan.table(location).scan().to_arrow()["id"].to_pylist()
    target = lakescan.table(location)._target(WriteOptions())
    files = target.scan.plan().table
    deletes = target.delete_writer("own").write(files, [BitMap64(range(5))] * len(files))
    target.change(RowChanges(RowLevelCommand.DELETE, None, deletes=deletes))
    assert checked(jvm, location)
    mine = lakescan.table(location).scan().to_arrow()["id"].to_pylist()
    assert len(mine) == len(before) - sum(each.rows for each in deletes)
    assert sorted(row.id for row in jvm.sql(f"SELECT id FROM {identifier}").collect()) == sorted(mine)
    jvm.sql(f"DELETE FROM {identifier} WHERE id % 10 = 7")
    left = sorted(each for each in mine if each % 10 != 7)
    assert sorted(row.id for row in jvm.sql(f"SELECT id FROM {identifier}").collect()) == left
    assert sorted(lakescan.table(location).scan().to_arrow()["id"].to_pylist()) == left


def test_a_cleaned_up_log_is_read_and_continued(jvm, warehouse: Path) -> None:
    statements = [f"CREATE TABLE {{t}} USING delta AS {ROWS}", *(f"DELETE FROM {{t}} WHERE id = {n}" for n in range(4))]
    identifier, location = written(jvm, warehouse, "cleaned up", statements)
    expected = jvm.sql(f"SELECT * FROM {identifier}").toArrow()
    checkpoint_version(location, 3, Storage())
    assert clean_up(location, Storage(), now=datetime.now(UTC) + timedelta(days=40)).first == 3
    forget(jvm)
    assert differences(jvm.sql(f"SELECT * FROM {identifier}").toArrow(), expected) == ""
    jvm.sql(f"DELETE FROM {identifier} WHERE id = 9")
    assert (
        differences(lakescan.table(location).scan().to_arrow(), jvm.sql(f"SELECT * FROM {identifier}").toArrow()) == ""
    )


def test_concurrent_writers_in_lakescan_and_the_jvm_lose_and_double_nothing(jvm: Any, warehouse: Path) -> None:
    location = warehouse / "delta" / "crowd"
    lakescan.save(pa.table({"id": pa.array([], pa.int64())}), location, format="delta")
    expected = written_by_many(
        lambda number: lakescan.table(location).append(pa.table({"id": [number]})),
        lambda number: jvm.sql(f"INSERT INTO delta.`{location}` VALUES ({number})"),
    )
    forget(jvm)
    found = [row[0] for row in jvm.read.format("delta").load(str(location)).orderBy("id").collect()]
    assert found == expected
    assert sorted(lakescan.table(location).scan().to_arrow()["id"].to_pylist()) == expected
