"""Check the features of one extra in an environment with only that extra.

`python -m tests.support.extras EXTRA SHOP FOLDER` runs in an environment that has the built wheel with EXTRA (`core`
for none) and nothing else of this project. SHOP holds the sample tables, made elsewhere; FOLDER is scratch.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa

import lakescan
from lakescan import col
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import put_if_absent

_ROWS = pa.table({"id": pa.array(range(100), pa.int64()), "name": [f"n{i % 7}" for i in range(100)]})


def core(orders: str, customers: str, folder: Path) -> None:
    """Check reading, planning and explaining in both formats, and writing local Delta tables."""
    for path, column in ((orders, "quantity"), (customers, "customer_id")):
        scan = lakescan.table(path).scan().where(col(column) > 1)
        rows = scan.to_arrow()
        assert rows.num_rows == scan.count() > 0
        assert scan.min(column) > 1
        assert str(scan.explain())
    _write_delta(str(folder / "local"))
    assert "pip install 'lakescan[iceberg]'" in _refusal(lambda: _catalog(folder))
    to_s3 = partial(put_if_absent, Storage(), "s3://bucket/t/_delta_log/0.json", b"{}")
    assert "pip install 'lakescan[delta]'" in _refusal(to_s3)


def fast(orders: str, customers: str, folder: Path) -> None:
    """Check that manifests are decoded by column."""
    import polars_avro  # noqa: F401

    core(orders, customers, folder)


def sql(orders: str, customers: str, folder: Path) -> None:
    """Check filters written as SQL text."""
    assert lakescan.table(orders).scan().where("quantity in (1, 2) and ordered_at >= '2026-02-01'").count() > 0


def iceberg(orders: str, customers: str, folder: Path) -> None:
    """Check catalogs, tables with partition transforms, writing and maintenance."""
    lake = _catalog(folder)
    lake.create_namespace("s")
    for transform in ("bucket(4, id)", "truncate(2, name)", "id"):
        name = f"extras.s.t{len(transform)}"
        lake.create_table(name.removeprefix("extras."), _ROWS.schema, partition_by=[transform])
        lakescan.table(name).append(_ROWS)
        lakescan.table(name).overwrite(_ROWS.slice(0, 0), where=col("id") < 10)
        lakescan.table(name).compact()
        assert lakescan.table(name).scan().count() == 90


def delta(orders: str, customers: str, folder: Path) -> None:
    """Check put-if-absent commits to object stores."""
    from obstore.store import from_url

    assert from_url("s3://bucket", config={"aws_region": "eu-west-1"})


def _write_delta(path: str) -> None:
    lakescan.save(_ROWS, path, format="delta", partition_by=["name"])
    lakescan.table(path).append(_ROWS)
    lakescan.table(path).overwrite(_ROWS.slice(0, 0), where=col("name") == "n1")
    lakescan.table(path).compact()
    lakescan.table(path).checkpoint()
    assert lakescan.table(path).scan().where(col("name") == "n2").count() == 28


def frames(orders: str, customers: str, folder: Path) -> None:
    """Check that pandas, Polars and DuckDB receive rows."""
    scan = lakescan.table(orders).scan().select("order_id", "price")
    assert len(scan.to_pandas()) == scan.to_polars().height == scan.count()
    assert len(scan.to_duckdb().fetchall()) == scan.count()


def encryption(orders: str, customers: str, folder: Path) -> None:
    """Check writing and reading AES GCM streams."""
    from lakescan.storage.encryption import FileKey
    from lakescan.storage.encryption.gcm_stream import decrypt_stream, encrypt_stream

    data = encrypt_stream(b"rows", FileKey(bytes(16)))
    assert decrypt_stream(data, FileKey(bytes(16), file_length=len(data)), "f") == b"rows"


def cli(orders: str, customers: str, folder: Path) -> None:
    """Check that the command line works."""
    program = str(Path(sys.executable).parent / "lakescan")
    for arguments in (["--help"], ["doctor"], ["history", orders], ["head", customers], ["explain", orders]):
        subprocess.run([program, *arguments], check=True, stdout=subprocess.DEVNULL)


def spark(orders: str, customers: str, folder: Path) -> None:
    """Check reading both formats on Spark, by its own reader and by name."""
    from tests.support.session import local_session

    session = local_session("extras", {"spark.sql.warehouse.dir": str(folder / "warehouse")})
    lakescan.spark.register(session)
    for path, name in ((orders, "iceberg"), (customers, "delta")):
        scan = lakescan.table(path).scan()
        assert scan.to_spark(session).count() == session.read.format(name).load(path).count() == scan.count()
    session.stop()


def ray(orders: str, customers: str, folder: Path) -> None:
    """Check that Ray's workers read scans."""
    import ray as library

    library.init(num_cpus=2, include_dashboard=False, logging_level="error")
    scan = lakescan.table(orders).scan().where(col("quantity") > 1)
    assert sorted(row["order_id"] for row in scan.to_ray().iter_rows()) == _ids(scan)
    library.shutdown()


def dask(orders: str, customers: str, folder: Path) -> None:
    """Check that Dask frames have the rows of scans."""
    scan = lakescan.table(orders).scan().where(col("quantity") > 1)
    assert sorted(scan.to_dask()["order_id"].compute(scheduler="sync")) == _ids(scan)


def daft(orders: str, customers: str, folder: Path) -> None:
    """Check that Daft frames have the rows of scans, and only the columns that a query needs."""
    import daft as library

    scan = lakescan.table(orders).scan().where(col("quantity") > 1)
    frame = scan.to_daft()
    assert sorted(frame.select("order_id").to_pydict()["order_id"]) == _ids(scan)
    few = frame.where(library.col("order_id") < 100).select("price").count_rows()
    assert few == scan.where(col("order_id") < 100).count() > 0


def _ids(scan: lakescan.Scan) -> list[int]:
    return sorted(scan.to_arrow()["order_id"].to_pylist())


def _refusal(call: Callable[[], object]) -> str:
    """Return the error of a call that needs a library of another extra."""
    try:
        call()
    except lakescan.MissingDependency as error:
        return str(error)
    raise AssertionError("a library of another extra is installed")


def _catalog(folder: Path) -> lakescan.Catalog:
    return lakescan.catalog("extras", warehouse=str(folder / "lake"))


PROMISES: dict[str, Callable[[str, str, Path], None]] = {
    f.__name__: f for f in (core, fast, sql, iceberg, delta, frames, cli, encryption, spark, ray, dask, daft)
}


def main(extra: str, shop: Path, folder: Path) -> None:
    """Check one extra; raise if a feature does not work."""
    orders = max((shop / "iceberg").glob("**/*.metadata.json"), key=lambda path: path.name)
    PROMISES[extra](str(orders), str(shop / "delta" / "customers"), folder)
    print(f"lakescan[{extra}] alone does what it promises")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
