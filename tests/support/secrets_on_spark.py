"""Run reads, writes and streams with planted secrets on a separate Spark, and print the content of its UI.

Argument: a folder, which then contains the files of the event log and of checkpoints.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import lakescan
import lakescan.spark
from tests.support.session import local_session

SECRET = "PLANTED-s3cr3t"
OPTIONS = {
    "s3.access-key-id": "AKIA",
    "s3.secret-access-key": f"{SECRET}-key",
    "s3.session-token": f"{SECRET}-session",
    "adls.account-name": "mine",
    "adls.account-key": f"{SECRET}-account",
    "adls.sas-token": f"sv=1&sig={SECRET}-sig",
    "gcs.oauth2.token": f"{SECRET}-oauth",
}
# Spark hides options whose names or values have words such as `secret` and `token`. These have none.
ACCOUNT = {"adls.account-name": "mine", "adls.account-key": f"{SECRET}-account"}
GIVEN = {"storage-options": json.dumps(ACCOUNT)}


def run(folder: Path) -> None:
    (folder / "events").mkdir()
    settings = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
    }
    spark = local_session("secrets", settings)
    uri = f"sqlite:///{folder}/c.db"
    lake = lakescan.catalog("lake", type="sql", uri=uri, warehouse=str(folder / "w"), **OPTIONS)
    lake.create_namespace("n")
    lake.create_table("n.t", "id BIGINT")
    lake.create_table("n.d", "id BIGINT", format="delta")
    lakescan.spark.register(spark)
    rows = spark.range(3)
    path = str(folder / "delta")
    for what in (
        lambda: rows.write.format("delta").options(**GIVEN).mode("append").save(path),
        lambda: rows.write.format("iceberg").mode("append").save("lake.n.t"),
        lambda: lakescan.spark.write_to(rows, "lake.n.d").append(),
        lambda: lakescan.spark.sql(spark, "UPDATE lake.n.t SET id = id + 1"),
        lambda: lakescan.table(path, storage_options=ACCOUNT).append(rows),
        partial(stream, spark, path, folder),
    ):
        attempt(what)
    for frame in (
        lambda: spark.read.format("delta").options(**GIVEN).load(path),
        lambda: spark.read.format("iceberg").load("lake.n.t"),
        lambda: lakescan.spark.table(spark, "lake.n.d"),
        lambda: lakescan.spark.sql(spark, "SELECT id FROM lake.n.t WHERE id > 0"),
        lambda: lakescan.table(path, storage_options=ACCOUNT).scan().to_spark(spark),
        lambda: lakescan.spark.read(spark, path, storage_options=ACCOUNT),
        # Requests without an answer: the failures are reported.
        lambda: (
            spark.read.format("delta")
            .options(**{"storage-options": json.dumps({**ACCOUNT, "s3.endpoint": "http://127.0.0.1:1"})})
            .load("s3://b/t")
        ),
        lambda: (
            rows.write.format("delta").options(**GIVEN).mode("append").save("abfss://c@other.dfs.core.windows.net/t")
        ),
    ):
        attempt(partial(explain, frame))
    text = f"SELECT id FROM delta.`{path}` WITH ('storage-options' = '{json.dumps(ACCOUNT)}')"
    attempt(partial(explain, lambda: lakescan.spark.sql(spark, text)))  # refused
    attempt(lambda: lakescan.spark.create_view(spark, "v", "lake.n.t"))
    attempt(partial(explain, lambda: lakescan.spark.sql(spark, "SELECT id FROM v")))
    attempt(lambda: print(spark.sql("SHOW VIEWS").collect(), spark.sql("DESCRIBE EXTENDED v").collect()))
    attempt(lambda: print(spark.sql("SET -v").count(), dict(spark.conf.getAll)))
    show_ui(spark)
    spark.stop()


def stream(spark: Any, path: str, folder: Path) -> None:
    frame = spark.readStream.format("delta").options(**GIVEN).load(path)
    writer = frame.writeStream.format("delta").options(**GIVEN).option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "sink"))
    query.awaitTermination()
    print(query.recentProgress, query.lastProgress, query.status)
    query.explain(True)


def explain(frame: Callable[[], Any]) -> None:
    found = frame()
    if found is not None:
        found.explain(True)
        found.explain("formatted")
        print(found.collect(), found._jdf.queryExecution().toString())


def attempt(work: Callable[[], Any]) -> None:
    try:
        work()
    except Exception as error:
        traceback.print_exception(error)
        print(repr(error), error.args)


def show_ui(spark: Any) -> None:
    """Print the content of the UI."""
    address = f"{spark.sparkContext.uiWebUrl}/api/v1/applications"
    (application,) = json.loads(urlopen(address).read())
    of_it = f"{address}/{application['id']}"
    for page in ("environment", "sql?details=true&length=1000", "jobs", "stages?details=true", "executors"):
        print(page, urlopen(f"{of_it}/{page}").read().decode())
    for page in ("SQL/", "environment/", "jobs/"):
        print(page, urlopen(f"{spark.sparkContext.uiWebUrl}/{page}").read().decode())
    for number in range(40):
        try:
            print(urlopen(f"{spark.sparkContext.uiWebUrl}/SQL/execution/?id={number}").read().decode())
        except OSError:
            break


if __name__ == "__main__":
    run(Path(sys.argv[1]))
