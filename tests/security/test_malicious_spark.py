"""Malicious tables, views and servers on Spark: the driver and the Python workers obey the catalog's limits.

The requirements are those of `test_malicious`: no foreign code, no requests to foreign hosts, no access outside.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import lakescan
import lakescan.spark
from lakescan.catalogs.registry import connection
from lakescan.errors import LakescanError
from tests.security import test_malicious
from tests.security.test_malicious import (
    DELTA,
    ICEBERG,
    OUTSIDE,
    OWN,
    ROWS,
    SERVERS,
    SETTINGS,
    VIEWS,
    World,
    limited_catalog,
    planted_view,
    trap,
)
from tests.support.rest_server import rest_server
from tests.support.unity_server import TOKEN, unity_server

pytestmark = pytest.mark.spark
world, server = test_malicious.world, test_malicious.server
NAME = "limited.db.t"


@pytest.fixture(scope="module")
def notes(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trap's log file for workers; workers can import the trap."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "lakescan_trap.py").write_text(trap(folder / "sprung"))
    spark.sparkContext.addPyFile(str(folder / "lakescan_trap.py"))
    return folder / "sprung"


@pytest.fixture(autouse=True)
def _nothing_runs_in_workers(notes: Path) -> Iterator[None]:
    yield
    assert not notes.exists()


@pytest.fixture(autouse=True)
def _hadoop_s_client_keeps_its_settings(spark: Any) -> Iterator[None]:
    """Check that no setting of a server or table reaches Spark's Hadoop client."""

    def settings() -> tuple[str, dict[str, str]]:
        of_hadoop = spark.sparkContext._jsc.hadoopConfiguration().getPropsWithPrefix("fs.")
        of_session = {name: value for name, value in spark.conf.getAll.items() if "fs." in name or "hadoop" in name}
        return str(of_hadoop), of_session

    before = settings()
    yield
    assert settings() == before


def test_the_trap_works_in_workers(spark: Any, notes: Path) -> None:
    def imported(_: Any) -> list[str]:
        import lakescan_trap  # type: ignore[import-not-found]

        return [lakescan_trap.NOTES]

    assert spark.sparkContext.parallelize([1], 1).mapPartitions(imported).collect() == [str(notes)]
    notes.unlink()


def attempt(what: str, work: Callable[[], Any]) -> Any:
    """Return the result of an operation, or None if it raises an error of lakescan or Spark."""
    try:
        return work()
    except (LakescanError, PySparkException):
        return None
    except Exception as error:
        if "org.apache.spark.SparkException" in str(error):  # the error of a failed worker, as py4j reports it
            return None
        pytest.fail(f"{what}: {type(error).__name__}: {error}")


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def stream(spark: Any, world: World, format: str) -> None:
    writer = spark.readStream.format(format).load(NAME).select("id").writeStream.format("delta")
    checkpoint = world.lake / "checkpoint"
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(f"{NAME}_sink")
    query.awaitTermination()


def attack(spark: Any, format: str) -> None:
    """Read, write and change a table: each returns the table's own rows or raises an error."""
    for what, read in {
        "load": lambda: ids(spark.read.format(format).load(NAME)),
        "sql": lambda: ids(lakescan.spark.sql(spark, f"SELECT id FROM {NAME} WHERE id > 0")),
    }.items():
        found = attempt(what, read)
        assert found is None or found == OWN, what
    attempt("save", lambda: spark.createDataFrame([(7,)], "id long").write.format(format).mode("append").save(NAME))
    attempt("update", lambda: lakescan.spark.sql(spark, f"UPDATE {NAME} SET id = 8 WHERE id = 7"))
    found = attempt("at last", lambda: ids(spark.read.format(format).load(NAME)))
    assert found is None or OUTSIDE not in found


def of_all(kinds: dict[str, Callable[[Any, World], Any]], *names: str) -> Callable[[Any, World], Any]:
    """Combine all of these attacks; none of them prevents reading the table."""
    return lambda node, w: [kinds[each](node, w) for each in names]


def with_sink(lake: lakescan.Catalog) -> lakescan.Catalog:
    lake.create_table("db.t_sink", "id BIGINT", format="delta")
    return lake


PROPERTIES = [f"properties: {each}" for each in SETTINGS]
OF_ICEBERG = {
    "properties": of_all(ICEBERG, *PROPERTIES),
    **{each: ICEBERG[each] for each in ("location", "write.data.path outside", "manifest list")},
}
OF_DELTA = {
    "configuration": of_all(DELTA, *(f"configuration: {each}" for each in SETTINGS)),
    **{each: DELTA[each] for each in ("add", "add by dots", "vector")},
    "constraint": DELTA["constraint: reflect('java.lang.Runtime', 'getRuntime') IS NOT NULL"],
    "generated": DELTA["generated: java_method('java.lang.Runtime', 'getRuntime') IS NOT NULL"],
}


@pytest.mark.parametrize("planted", OF_ICEBERG)
def test_a_malicious_iceberg_table_does_no_harm_on_spark(spark: Any, world: World, planted: str) -> None:
    made = world.free.create_table("db.t", "id BIGINT")
    made.append(ROWS)
    file = Path(connection("free").load_table("db.t").metadata_location.removeprefix("file://"))
    node = json.loads(file.read_text())
    OF_ICEBERG[planted](node, world)
    hostile = file.with_name("00009-11111111-1111-1111-1111-111111111111.metadata.json")
    hostile.write_text(json.dumps(node))
    limits = {"allowed-locations": str(world.lake)}
    uri = f"sqlite:///{world.lake.parent}/limited.db"
    limited = lakescan.catalog("limited", type="sql", uri=uri, warehouse=str(world.lake), **limits)
    limited.create_namespace("db")
    with_sink(limited)
    if attempt("register", lambda: limited.register_table("db.t", str(hostile))) is not None:
        lakescan.spark.register(spark)
        attack(spark, "iceberg")
        if planted == "properties":
            attempt("stream", lambda: stream(spark, world, "iceberg"))


@pytest.mark.parametrize("planted", OF_DELTA)
def test_a_malicious_delta_table_does_no_harm_on_spark(spark: Any, world: World, planted: str) -> None:
    limited = with_sink(limited_catalog(world))
    limited.drop_table("db.t")
    folder = test_malicious.delta_table(world)
    commit = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    OF_DELTA[planted](actions, world)
    commit.write_text("\n".join(map(json.dumps, actions)))
    if attempt("register", lambda: limited.register_table("db.t", str(folder))) is None:
        return
    lakescan.spark.register(spark)
    attack(spark, "delta")
    if planted == "add":
        attempt("stream", lambda: stream(spark, world, "delta"))
        assert not list((world.lake / "db" / "t_sink").glob("*.parquet"))
        by_path = spark.read.format("delta").option("allowed-locations", str(world.lake)).load(str(folder))
        assert attempt("by its path", lambda: ids(by_path)) is None


def test_limits_hold_in_workers_wherever_the_driver_works(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan names a file outside for a worker to open."""
    monkeypatch.chdir(world.lake.parent)
    uri = f"sqlite:///{world.lake.parent}/limited.db"
    limits = {"allowed-locations": "lake"}
    limited = lakescan.catalog("limited", type="sql", uri=uri, warehouse=str(world.lake), **limits)
    limited.create_namespace("db")
    folder = test_malicious.delta_table(world)
    limited.register_table("db.t", str(folder))
    lakescan.spark.register(spark)
    assert ids(spark.read.format("delta").load(NAME)) == OWN
    monkeypatch.chdir(world.outside)
    commit = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    DELTA["add"](actions, world)
    commit.write_text("\n".join(map(json.dumps, actions)))
    limited.create_namespace("again")
    limited.register_table("again.t", str(folder))
    with pytest.raises((LakescanError, PySparkException), match="allowed-locations"):
        ids(spark.read.format("delta").load("limited.again.t"))


@pytest.mark.parametrize("query", [VIEWS[0], VIEWS[3], VIEWS[-4]])
def test_a_malicious_view_does_no_harm_on_spark(spark: Any, world: World, query: str) -> None:
    planted_view(world, query.format(outside=world.outside, lake=world.lake, host=world.address))
    lakescan.spark.register(spark)
    text = "SELECT id FROM limited.db.v"
    assert attempt(text, lambda: lakescan.spark.sql(spark, text).collect()) is None


def test_a_malicious_server_does_no_harm_on_spark(spark: Any, world: World, tmp_path: Path) -> None:
    with rest_server(tmp_path / "rest", {"warehouse": f"file://{world.lake}"}) as (served, uri):
        served.catalog.create_namespace("db")
        served.catalog.create_table("db.t", schema=ROWS.schema).append(ROWS)
        for each in ("defaults", "table config with keys", "credentials without a prefix", "signer"):
            SERVERS[each](served, world)
        limits = {"allowed-locations": str(world.lake)}
        lakescan.catalog("limited", type="rest", uri=uri, token="SECRET-OF-ALL", **limits)
        lakescan.spark.register(spark)
        attack(spark, "iceberg")


def test_a_malicious_unity_catalog_does_no_harm_on_spark(spark: Any, world: World) -> None:
    with unity_server(f"file://{world.lake}") as served:
        limits = {"allowed-locations": str(world.lake)}
        lake = lakescan.catalog("limited", type="unity", uri=served.uri, token=TOKEN, **limits)
        lake.create_namespace("db")
        lake.create_table("db.t", "id BIGINT", format="delta").append(ROWS)
        lakescan.spark.register(spark)
        table = served.tables[NAME]
        own = table.location
        table.properties.update(test_malicious.every_setting(world))
        attack(spark, "delta")
        places = (str(world.outside / "delta"), f"{own}/../../outside/delta", f"{world.address}/t")
        for place in (*places, world.address.replace("http:", "hdfs:") + "/t"):
            table.location = place
            assert attempt(place, lambda: ids(spark.read.format("delta").load(NAME))) is None
