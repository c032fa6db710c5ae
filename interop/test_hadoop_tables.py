"""Iceberg tables without a catalog: Java's hadoop catalog and lakescan write them in turn and concurrently."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

import lakescan

COLUMNS = "id BIGINT NOT NULL, part STRING"


@pytest.fixture
def bare(jvm: Any, warehouse: Path) -> Any:
    """Java's catalog, whose tables every statement reloads."""
    jvm.conf.set("spark.sql.catalog.bare", "org.apache.iceberg.spark.SparkCatalog")
    jvm.conf.set("spark.sql.catalog.bare.type", "hadoop")
    jvm.conf.set("spark.sql.catalog.bare.warehouse", f"{warehouse}/bare")
    jvm.conf.set("spark.sql.catalog.bare.cache-enabled", "false")
    jvm.sql("CREATE NAMESPACE IF NOT EXISTS bare.db")
    jvm.sql("DROP TABLE IF EXISTS bare.db.t")
    return jvm


@pytest.fixture
def folder(bare: Any, warehouse: Path) -> Path:
    return warehouse / "bare/db/t"


def rows(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [part] * len(ids)})


def created(jvm: Any, properties: str = "", clauses: str = "PARTITIONED BY (part)") -> None:
    given = ", ".join(each for each in ("'commit.retry.num-retries'='50'", properties) if each)
    jvm.sql(f"CREATE TABLE bare.db.t ({COLUMNS}) USING iceberg {clauses} TBLPROPERTIES ({given})")


def ids_of(jvm: Any, folder: Path) -> list[int]:
    """Return the ids in the table, after checking that both sides agree."""
    theirs = sorted(row.id for row in jvm.sql("SELECT id FROM bare.db.t").collect())
    assert sorted(lakescan.table(folder).to_arrow()["id"].to_pylist()) == theirs
    return theirs


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_both_write_in_turn(bare: Any, folder: Path, version: int, codec: str) -> None:
    created(bare, f"'format-version'='{version}', 'write.metadata.compression-codec'='{codec}'")
    mine = lakescan.table(folder)
    bare.sql("INSERT INTO bare.db.t VALUES (1, 'a'), (2, 'b')")
    mine.refresh().append(rows(3, 4))
    bare.sql("DELETE FROM bare.db.t WHERE id = 1")
    mine.refresh().delete("id = 2")
    bare.sql("INSERT INTO bare.db.t VALUES (5, 'c')")
    mine.refresh().update({"part": "'z'"}, "id = 5")
    mine.alter().add_column("more", "INT").commit()
    bare.sql("INSERT INTO bare.db.t VALUES (6, 'd', 7)")
    bare.sql("ALTER TABLE bare.db.t ADD PARTITION FIELD bucket(4, id)")
    mine.refresh().append(rows(7))
    mine.alter().set_properties({"owner": "us"}).commit()
    bare.sql("ALTER TABLE bare.db.t CREATE TAG kept")
    mine.refresh().create_branch("audit")
    mine.compact()
    bare.sql("CALL bare.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))")
    mine.refresh().expire_snapshots(older_than=datetime.now().astimezone() + timedelta(minutes=1))
    bare.sql("INSERT INTO bare.db.t VALUES (8, 'e', 9)")
    assert ids_of(bare, folder) == [3, 4, 5, 6, 7, 8]
    assert {row.name for row in bare.sql("SELECT name FROM bare.db.t.refs").collect()} == {"main", "kept", "audit"}
    names = sorted(each.name for each in (folder / "metadata").glob("v*.metadata.json"))
    assert all((".gz." in name) == (codec == "gzip") for name in names)
    assert (folder / "metadata/version-hint.text").read_text() == str(len(names))


def test_java_writes_to_a_table_that_lakescan_made(bare: Any, warehouse: Path, folder: Path) -> None:
    lake = lakescan.catalog("bare_here", type="hadoop", warehouse=warehouse / "bare")
    lake.create_table("db.t", COLUMNS, partition_by="part", properties={"format-version": "3"}).append(rows(1, 2))
    bare.sql("INSERT INTO bare.db.t VALUES (3, 'b')")
    bare.sql("DELETE FROM bare.db.t WHERE id = 2")
    assert ids_of(bare, folder) == [1, 3]
    assert lake.list_tables("db") == ["db.t"]
    lake.drop_table("db.t")
    assert bare.sql("SHOW TABLES IN bare.db").collect() == []


def test_each_removes_old_metadata_files_of_both(bare: Any, folder: Path) -> None:
    created(bare, "'write.metadata.delete-after-commit.enabled'='true', 'write.metadata.previous-versions-max'='2'")
    mine = lakescan.table(folder)
    for number in range(4):
        bare.sql(f"INSERT INTO bare.db.t VALUES ({number}, 'a')")
        mine.append(rows(10 + number))
    assert ids_of(bare, folder) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert {each.name for each in (folder / "metadata").glob("*.json")} == {f"v{n}.metadata.json" for n in (7, 8, 9)}


@pytest.mark.parametrize("properties", ["", "'write.metadata.delete-after-commit.enabled'='true'"])
def test_concurrent_writers_lose_nothing(bare: Any, folder: Path, properties: str) -> None:
    created(bare, properties, clauses="")
    bare.conf.set("spark.sql.shuffle.partitions", "1")

    def theirs(first: int) -> None:
        for number in range(first, first + 8):
            bare.sql(f"INSERT INTO bare.db.t VALUES ({number}, 'jvm')")

    def mine(first: int) -> None:
        table = lakescan.table(folder)
        for number in range(first, first + 25):
            table.append(rows(number, part="here"))

    run = [(theirs, 0), (theirs, 100), (mine, 1000), (mine, 2000)]
    with ThreadPoolExecutor(len(run)) as pool:
        for done in [pool.submit(work, first) for work, first in run]:
            done.result()
    wanted = [*range(8), *range(100, 108), *range(1000, 1025), *range(2000, 2025)]
    assert ids_of(bare, folder) == wanted


def test_maintenance_during_a_job_of_java_loses_nothing(bare: Any, folder: Path) -> None:
    created(bare, clauses="")
    done = threading.Event()

    def job() -> None:
        try:
            for number in range(25):
                bare.sql(f"INSERT INTO bare.db.t VALUES ({number}, 'jvm')")
        finally:
            done.set()

    with ThreadPoolExecutor(1) as pool:
        running, rounds = pool.submit(job), 0
        while not done.is_set() or rounds < 3:
            mine = lakescan.table(folder)
            mine.compact(min_input_files=2)
            mine.refresh().expire_snapshots(older_than=datetime.now().astimezone(), retain_last=2)
            rounds += 1
        running.result()
    assert ids_of(bare, folder) == list(range(25))


def test_java_cannot_rename_a_draft_that_a_commit_removed(bare: Any, folder: Path) -> None:
    """This prevents a local rename from replacing the new version."""
    created(bare)
    hadoop = bare.sparkContext._jvm.org.apache.hadoop.fs
    files = hadoop.Path(f"file://{folder}").getFileSystem(bare.sparkContext._jsc.hadoopConfiguration())
    draft = f"{folder}/metadata/{uuid4()}.metadata.json"
    stream = files.create(hadoop.Path(draft))
    stream.write(b"{}")
    stream.close()
    lakescan.table(folder).append(rows(1))
    try:
        is_renamed = files.rename(hadoop.Path(draft), hadoop.Path(f"{folder}/metadata/v2.metadata.json"))
    except Py4JJavaError:  # FileNotFoundException: Java's commit treats it, like False, as a conflict
        is_renamed = False
    assert not is_renamed
    assert ids_of(bare, folder) == [1]


@pytest.mark.parametrize("change", ["append", "compact", "alter"])
def test_java_continues_after_each_kind_of_commit(bare: Any, folder: Path, change: str) -> None:
    created(bare, clauses="")
    bare.sql("INSERT INTO bare.db.t VALUES (1, 'a')")
    bare.sql("INSERT INTO bare.db.t VALUES (2, 'a')")
    mine = lakescan.table(folder)
    changes: dict[str, Callable[[], Any]] = {
        "append": lambda: mine.append(rows(3)),
        "compact": lambda: mine.compact(min_input_files=2),
        "alter": lambda: mine.alter().set_comment("which").commit(),
    }
    changes[change]()
    bare.sql("INSERT INTO bare.db.t VALUES (9, 'a')")
    assert 9 in ids_of(bare, folder)
