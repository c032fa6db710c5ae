"""Script for a separate process: Hadoop's S3 client, from Maven, reads the files that lakescan wrote to a server.

Prints 'fine' when all is well.
"""

from __future__ import annotations

import json
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import lakescan
import lakescan.spark
from lakescan.common.cache import set_cache_limit
from lakescan.options.write import WriteOptions
from lakescan.spark.native import filesystems, lanes
from lakescan.writing.table_writes import WrittenFile
from tests.support.rows import differences
from tests.support.s3 import KEY, REGION, SECRET, s3_server
from tests.support.s3a import s3a_session

BUCKET = "lake"


def native(spark: Any, scan: lakescan.Scan) -> pa.Table:
    """Return the rows of the native lane, after comparing them with the Arrow lane's and with in-process rows."""
    frame = scan.options(lane="native").to_spark(spark)
    plan = frame._jdf.queryExecution().toString()
    assert f"s3a://{BUCKET}" in plan
    assert SECRET not in plan
    found = frame.toArrow()
    assert differences(found, scan.to_arrow()) == ""
    assert differences(found, scan.options(lane="arrow").to_spark(spark).toArrow()) == ""
    return found


def changed(spark: Any, catalog: lakescan.Catalog, format: str) -> None:
    """Check a table whose rows all statements changed on Spark, with file names of all kinds."""
    name = f"store.n.{format}"
    modes = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
    modes |= {"format-version": "3" if format == "iceberg" else "2"}
    catalog.create_table(
        f"n.{format}",
        "n BIGINT, s STRING",
        format=format,
        partition_by="s",
        properties={"delta.enableDeletionVectors": "true"} if format == "delta" else modes,
    )
    table = catalog.load_table(f"n.{format}")
    texts = ["a b", "50%20", "+ö", "x=y", "\U0001f600"]
    for start in (0, 100, 200):
        table.append(pa.table({"n": range(start, start + 100), "s": [texts[n % len(texts)] for n in range(100)]}))
    assert native(spark, catalog.load_table(f"n.{format}").scan()).num_rows == 300
    source = spark.range(290, 310).selectExpr("id AS n", "'a b' AS s")
    for text in (
        f"DELETE FROM {name} WHERE n % 10 = 3",
        f"UPDATE {name} SET n = n + 1000 WHERE n % 10 = 4",
        f"MERGE INTO {name} t USING src ON t.n = src.n WHEN MATCHED THEN UPDATE SET s = 'merged' "
        "WHEN NOT MATCHED THEN INSERT *",
    ):
        lakescan.spark.sql(spark, text, src=source)
    scan = catalog.load_table(f"n.{format}").scan()
    found = native(spark, scan)
    gone = [n for n in range(300) if n % 10 in (3, 4)]
    numbers = set(range(310)) - set(gone) | {n + 1000 for n in gone if n % 10 == 4}
    numbers |= {n for n in gone if n >= 290}  # the source brings them again
    assert sorted(found["n"].to_pylist()) == sorted(numbers)
    assert native(spark, scan.where("n > 150 and s = 'a b'").select("n", "_file", "_pos")).num_rows > 0


def upserted(spark: Any, catalog: lakescan.Catalog) -> None:
    """Check equality deletes, and position deletes of format version 2."""
    modes = {"format-version": "2", "write.delete.mode": "merge-on-read"}
    catalog.create_table("n.upserts", "n BIGINT, s STRING", properties=modes)
    table = catalog.load_table("n.upserts")
    table.append(pa.table({"n": range(100), "s": ["old"] * 100}))
    sink = lakescan.spark.upsert_sink("store.n.upserts", "n", query="q", **{"upsert-mode": "equality"})
    sink(spark.range(90, 110).selectExpr("id AS n", "'new' AS s"), 0)
    lakescan.spark.sql(spark, "DELETE FROM store.n.upserts WHERE n < 5")
    found = native(spark, catalog.load_table("n.upserts").scan())
    assert sorted(found["n"].to_pylist()) == list(range(5, 110))
    assert found["s"].to_pylist().count("new") == 20


def other_settings(spark: Any, endpoint: str) -> None:
    """Check that storage options that Spark lacks appear in no plan, and that the Arrow lane reads."""
    options = {"s3.endpoint": endpoint, "s3.region": REGION, "s3.access-key-id": "vended"}
    options["s3.secret-access-key"] = "vended-secret"
    scan = lakescan.table(f"s3://{BUCKET}/plain", storage_options=options).scan()
    text = lakescan.spark.explain(scan.options(lane="native"))
    assert "the setting access_key is not known to be the same in the session's Spark" in text
    assert "vended" not in text
    frame = scan.to_spark(spark)
    assert frame.count() == 3
    assert "vended" not in frame._jdf.queryExecution().toString()


FILES = 100_000
KEY_OF_ROW = 777_777


def add_names(table: lakescan.Table, format: str) -> None:
    """Commit files that exist only in metadata, with one key each, in several commits."""
    for first in range(0, FILES, FILES // 4):
        files = []
        for n in range(first, first + FILES // 4):
            bound = {1: struct.pack("<q", n)}
            stats = {"numRecords": 1, "minValues": {"id": n}, "maxValues": {"id": n}, "nullCount": {"id": 0, "s": 0}}
            details = {"spec_id": 0, "lower_bounds": bound, "upper_bounds": bound}
            of_format = details if format == "iceberg" else {"stats": json.dumps(stats)}
            location = f"s3://{BUCKET}/warehouse/n/many_{format}/f{n}.parquet"
            files.append(WrittenFile(location, (), 1, 500, of_format))
        table._target(WriteOptions()).append(files)
    if format == "delta":
        table.checkpoint()


def counted(spark: Any, catalog: lakescan.Catalog, requests: list[str]) -> None:
    """Check that a point query on 100,000 files makes at most 20 requests, with metadata, and lists nothing.

    The session has not read from the bucket, and nothing of the table is cached. Only the file that is hit exists.
    """
    lakescan.spark.register(spark)
    for format in ("iceberg", "delta"):
        table = catalog.create_table(f"n.many_{format}", "id BIGINT, s STRING", format=format)
        add_names(table, format)
        catalog.load_table(f"n.many_{format}").append(pa.table({"id": [KEY_OF_ROW], "s": ["here"]}))
        point_query(spark, requests, format, lambda name, kind=format: spark.read.format(kind).load(name))
        point_query(spark, requests, format, lambda name: lakescan.spark.table(spark, name))
        point_query(spark, requests, format, lambda name: lakescan.table(name).scan().to_spark(spark))


def point_query(spark: Any, requests: list[str], format: str, read: Callable[[str], Any]) -> None:
    """Count the requests of a point query in a fresh session and of its repetition; `read` returns the table."""
    set_cache_limit(0)  # nothing is known of the table
    set_cache_limit(2**28)
    filesystems.forget(spark)
    requests.clear()
    frame = read(f"store.n.many_{format}").where(f"id = {KEY_OF_ROW}")
    assert [tuple(row) for row in frame.collect()] == [(KEY_OF_ROW, "here")]
    found = list(requests)
    print(format, f"one of {FILES + 1:,} files:", len(found), *found, sep="\n")
    plan = str(frame._jdf.queryExecution().toString())
    assert "FileScan parquet lakescan" in plan
    assert SECRET not in plan
    assert len(found) <= 20, "\n".join(found)
    assert not any("list-type" in each and "_delta_log" not in each for each in found)
    of_file = [each for each in found if ".parquet" in each and "checkpoint" not in each]
    assert sum(each.startswith("HEAD") for each in of_file) <= 3
    requests.clear()
    assert frame.collect()[0].s == "here"
    again = list(requests)
    print(format, "the same again:", len(again), *again, sep="\n")
    assert len(again) <= 2, "\n".join(again)  # by Spark's reader


def all_files(spark: Any, catalog: lakescan.Catalog, requests: list[str]) -> None:
    """Check that Spark's reader looks up each file when opening it, and that lakescan reads footers of a sample."""
    for format in ("iceberg", "delta"):
        table = catalog.create_table(f"n.all_{format}", "n BIGINT, s STRING", format=format, partition_by="n")
        table.append(pa.table({"n": range(300), "s": [f"s{n}" for n in range(300)]}))
        requests.clear()
        assert spark.read.format(format).load(f"store.n.all_{format}").where("s > 'r'").toArrow().num_rows == 300
        of_files = [each for each in requests if "_delta_log" not in each]
        kinds = Counter(("LIST" if "list-type" in each else each.split()[0]) for each in of_files)
        print(format, "300 files:", kinds)
        assert kinds["LIST"] == 0
        assert kinds["HEAD"] <= 300 + 32


def main() -> None:
    requests: list[str] = []
    lanes.LEAST_IN_STORES = 0  # statements read small tables in the native lane, too
    with (
        s3_server(BUCKET, requests) as endpoint,
        tempfile.TemporaryDirectory() as folder,
        s3a_session(endpoint, KEY, SECRET) as spark,
    ):
        options = {"s3.endpoint": endpoint, "s3.region": REGION}
        options |= {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
        warehouse = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"s3://{BUCKET}/warehouse"}
        catalog = lakescan.catalog("store", type="sql", **warehouse, **options)
        catalog.create_namespace("n")
        lakescan.save(pa.table({"n": [1, 2, 3]}), f"s3://{BUCKET}/plain", format="delta", storage_options=options)
        plain = lakescan.table(f"s3://{BUCKET}/plain", storage_options=options).scan()
        assert native(spark, plain).num_rows == 3
        for format in ("iceberg", "delta"):
            changed(spark, catalog, format)
        upserted(spark, catalog)
        other_settings(spark, endpoint)
        counted(spark, catalog, requests)
        all_files(spark, catalog, requests)
    print("fine")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
