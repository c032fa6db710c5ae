"""A catalog on a Nessie server, with tables on S3. Needs the programs that `scripts/stores.sh` downloads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import lakescan
from tests.support.nessie import nessie_server
from tests.support.s3 import KEY, SECRET, s3_server

KEYS = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
SIGNED = {"header.X-Iceberg-Access-Delegation": "remote-signing"}  # the server has the keys, and signs each request


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        s3_server("lake") as endpoint,
        nessie_server(endpoint, "lake", tmp_path_factory.mktemp("nessie") / "log") as found,
    ):
        yield found


@pytest.fixture(params=[KEYS, SIGNED], ids=["keys", "signed"])
def lake(uri: str, request: pytest.FixtureRequest) -> Iterator[lakescan.Catalog]:
    found = lakescan.catalog("nessie", type="rest", uri=uri, **request.param)
    found.create_namespace("db", exist_ok=True)
    yield found
    for name in found.list_tables("db"):
        found.drop_table(name)


def rows(name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lakescan.table(name).scan().to_arrow().to_pylist())


def test_a_table_is_created_written_and_dropped_in_nessie(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    table.append(pa.table({"id": [1, 2, 3], "part": ["a", "b", "b"]}))
    with pytest.raises(lakescan.TableExists):
        lake.create_table("db.t", "id BIGINT")
    lake.load_table("db.t").overwrite(pa.table({"id": [9], "part": ["a"]}), where="part = 'a'")
    lakescan.sql("DELETE FROM nessie.db.t WHERE id = 2")
    lakescan.sql(
        "MERGE INTO nessie.db.t t USING (SELECT 3L AS id, 'c' AS part UNION ALL SELECT 10L, 'n') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET part = s.part WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows("nessie.db.t") == [(3, "c"), (9, "a"), (10, "n")]
    lake.load_table("db.t").compact()
    lakescan.sql("ALTER TABLE nessie.db.t ADD COLUMN note STRING")
    assert rows("nessie.db.t") == [(3, "c", None), (9, "a", None), (10, "n", None)]
    lakescan.sql("CREATE TABLE nessie.db.u USING iceberg AS SELECT id FROM nessie.db.t")
    lake.rename_table("db.u", "db.w")
    assert lake.list_tables("db") == ["db.t", "db.w"]
    assert rows("nessie.db.w") == [(3,), (9,), (10,)]
    with pytest.raises(lakescan.NoSuchTable):
        lake.load_table("db.u")


def test_several_tables_are_changed_by_one_commit(lake: lakescan.Catalog) -> None:
    lake.create_table("db.one", "id BIGINT")
    lake.create_table("db.two", "id BIGINT")
    with lake.transaction() as tx:
        tx.load_table("db.one").append(pa.table({"id": [1]}))
        tx.load_table("db.two").append(pa.table({"id": [2]}))
    assert (rows("nessie.db.one"), rows("nessie.db.two")) == ([(1,)], [(2,)])
    tx = lake.transaction()
    tx.load_table("db.one").append(pa.table({"id": [3]}))
    tx.rollback()
    assert rows("nessie.db.one") == [(1,)]


def test_concurrent_writers_lose_nothing(lake: lakescan.Catalog) -> None:
    # Write the first rows before that: Nessie 0.99 accepts several first snapshots of one table and keeps the last.
    lake.create_table("db.many", "id BIGINT").append(pa.table({"id": [0]}))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: lake.load_table("db.many").append(pa.table({"id": [number]})), range(1, 12)))
    assert rows("nessie.db.many") == [(number,) for number in range(12)]


def test_operations_that_nessie_lacks_or_forbids_are_refused_by_name(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.kept", "id BIGINT")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"gc\.enabled is not true"):
        table.expire_snapshots(retain_last=1)
    with pytest.raises(lakescan.UnsupportedFeature, match="views in catalog 'nessie'"):
        lake.create_view("db.v", "SELECT 1 AS n")
