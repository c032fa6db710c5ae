"""A SQL catalog in a PostgreSQL server that the tests start; skipped if PostgreSQL is not installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan

_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_PATH = os.pathsep.join([os.environ["PATH"], *map(str, _PLACES)])


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a PostgreSQL server and return the URI of a database on it."""
    programs = [shutil.which(name, path=_PATH) for name in ("initdb", "postgres")]
    if None in programs:
        pytest.skip("PostgreSQL (initdb, postgres) is not installed")
    initdb, server = map(str, programs)
    folder = tmp_path_factory.mktemp("postgres")
    user = _server_user()
    if user:
        shutil.chown(folder, user)
        shared = Path(tempfile.gettempdir()).resolve()
        for parent in [folder, *folder.resolve().parents]:
            if parent == shared or shared not in parent.parents:
                break
            parent.chmod(0o755)
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    run = ["runuser", "-u", user, "--"] if user else []
    subprocess.run([*run, initdb, "-D", f"{folder}/data", "-U", "lake", "-A", "trust"], check=True, capture_output=True)
    where = ["-D", f"{folder}/data", "-p", str(port), "-k", str(folder), "-h", "127.0.0.1"]
    process = subprocess.Popen([*run, server, *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(port)
        yield f"postgresql+psycopg2://lake@127.0.0.1:{port}/postgres"
    finally:
        process.terminate()
        process.wait(30)


def _server_user() -> str | None:
    """Return the user to run the server as: None, or PostgreSQL's package user if the tests run as root."""
    if os.getuid() != 0:
        return None
    if subprocess.run(["id", "postgres"], capture_output=True, check=False).returncode:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return "postgres"


def _wait(port: int) -> None:
    import psycopg2

    for _ in range(150):
        try:
            psycopg2.connect(f"host=127.0.0.1 port={port} user=lake dbname=postgres").close()
            return
        except psycopg2.OperationalError:
            import time

            time.sleep(0.2)
    raise RuntimeError("PostgreSQL did not start")


def test_tables_of_both_formats_live_in_postgres(postgres: str, tmp_path: Path) -> None:
    catalog = lakescan.catalog("pg", type="sql", uri=postgres, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    for format in ("iceberg", "delta"):
        catalog.create_table(f"db.{format}", "id BIGINT", format=format).append(pa.table({"id": [1]}))
        assert lakescan.table(f"pg.db.{format}").scan().count() == 1
    assert catalog.list_tables("db") == ["db.delta", "db.iceberg"]
    with pytest.raises(lakescan.TableExists):
        catalog.rename_table("db.delta", "db.iceberg")


@pytest.mark.slow
def test_eight_writers_lose_nothing(postgres: str, tmp_path: Path) -> None:
    catalog = lakescan.catalog("pg", type="sql", uri=postgres, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("crowd")
    catalog.create_table("crowd.t", "id BIGINT")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: lakescan.table("pg.crowd.t").append(pa.table({"id": [n]})), range(24)))
    assert sorted(lakescan.table("pg.crowd.t").scan().to_arrow()["id"].to_pylist()) == list(range(24))


def test_views_live_in_postgres(postgres: str, tmp_path: Path) -> None:
    catalog = lakescan.catalog("pg_views", type="sql", uri=postgres, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("views")
    catalog.create_table("views.t", "id BIGINT").append(pa.table({"id": [1, 2]}))
    catalog.create_view("views.v", "SELECT id FROM t WHERE id > 1")
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(lambda n: catalog.create_view("views.v", f"SELECT id + {n} AS id FROM t", replace=True), range(4))
        )
    assert len(catalog.load_view("views.v").versions) == 5
    catalog.create_view("views.v", "SELECT max(id) AS id FROM t", replace=True)
    catalog.rename_view("views.v", "views.w")
    assert lakescan.sql("SELECT * FROM pg_views.views.w").to_arrow().to_pylist() == [{"id": 2}]
    with pytest.raises(lakescan.TableExists):
        catalog.create_view("views.t", "SELECT 1 AS n")
    catalog.drop_view("views.w")
    assert catalog.list_views("views") == []
    assert catalog.list_tables("views") == ["views.t"]


def test_a_flink_create_table_with_a_primary_key_works_in_postgres(postgres: str, tmp_path: Path) -> None:
    catalog = lakescan.catalog("pg_founding", type="sql", uri=postgres, warehouse=f"file://{tmp_path}")
    catalog.create_namespace("founding")
    text = (
        "CREATE TABLE IF NOT EXISTS pg_founding.founding.sink6 (order_id INTEGER COMMENT 'unique id', order_date DATE, "
        "order_time TIMESTAMP(3), quantity INT, product_id INT, purchaser STRING, PRIMARY KEY (order_id) NOT ENFORCED) "
        "WITH ('format-version' = '2')"
    )
    made = lakescan.sql(text)
    for buyer in ("a", "b"):
        made.upsert(pa.Table.from_pylist([{"order_id": 1, "purchaser": buyer}], schema=made.schema))
    assert lakescan.sql(text).scan().select("order_id", "purchaser").to_arrow().to_pylist() == [
        {"order_id": 1, "purchaser": "b"}
    ]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_only_one_of_several_concurrent_creators_with_rows_succeeds(postgres: str, tmp_path: Path, format: str) -> None:
    name = f"pg_race_{format}"
    lakescan.catalog(name, type="sql", uri=postgres, warehouse=f"file://{tmp_path}").create_namespace("race")

    def create(n: int) -> bool:
        try:
            lakescan.sql(f"CREATE TABLE {name}.race.t USING {format} AS SELECT {n} AS id")
        except lakescan.TableExists:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(create, range(6))) == 1
    assert lakescan.table(f"{name}.race.t").count() == 1
    assert len(list(tmp_path.rglob("*.parquet"))) == 1
