"""Script for a separate process: interrupts, forks, a lost callback server and restarted sessions.

Its argument is a folder. Prints 'fine' when all is well.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.spark.native import read_rule as rule
from tests.support.session import local_session

FORMATS = ("iceberg", "delta")


def main(folder: str) -> None:
    spark = local_session("process", {})
    lakescan.catalog("processes", warehouse=f"{folder}/lake").create_namespace("n")
    for name in FORMATS:
        lakescan.save(pa.table({"id": range(10)}), f"processes.n.{name}", format=name)
    lakescan.spark.register(spark)
    for name in FORMATS:
        interrupted_while_planning(spark, name)
    forked(spark)
    without_callbacks(spark)
    restarted(spark)
    print("fine")


def load(spark: Any, name: str) -> Any:
    return spark.read.format(name).load(f"processes.n.{name}")


def check_reads(spark: Any) -> None:
    """Check that Spark's own reader reads both tables."""
    for name in FORMATS:
        some = load(spark, name).where("id > 5")
        assert "FileScan parquet lakescan" in str(some._jdf.queryExecution().toString())
        assert some.count() == 4


@contextmanager
def planning(work: Callable[[], None]) -> Iterator[None]:
    """Run some work whenever a read is planned."""
    original = rule.plan_read

    def worked(*arguments: Any, **named: Any) -> Any:
        work()
        return original(*arguments, **named)

    rule.plan_read = worked
    try:
        yield
    finally:
        rule.plan_read = original


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def interrupted_while_planning(spark: Any, name: str) -> None:
    """Check that an interrupt ends the query, and that the next query returns its rows."""
    frame, ends = load(spark, name), threading.Event()

    def work() -> None:
        interrupt()
        ends.wait(30)

    with planning(work), pytest.raises(KeyboardInterrupt):
        frame.collect()
    ends.set()
    assert frame.where("id > 5").count() == 4
    check_reads(spark)


def in_child() -> None:
    """The work of a forked process: it reads in process and registers a catalog that the parent does not see."""
    assert lakescan.table("processes.n.delta").scan().count() == 10
    lakescan.catalog("of_the_child", warehouse=os.environ["CHILD"]).create_namespace("n")
    lakescan.save(pa.table({"id": range(3)}), "of_the_child.n.t", format="iceberg")
    assert lakescan.table("of_the_child.n.t").scan().count() == 3


def forked(spark: Any) -> None:
    """Check that a child reads in process without waiting for the parent's Spark, which stays usable."""
    frame = load(spark, "iceberg")
    os.environ["CHILD"] = os.path.join(sys.argv[1], "child")
    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    assert frame.count() == 10
    child.join(120)
    assert child.exitcode == 0, child.exitcode
    check_reads(spark)
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    check_reads(spark)


def without_callbacks(spark: Any) -> None:
    """Check that reads use the data source, with the same rows, if Java no longer reaches Python."""
    frame = load(spark, "delta")
    gateway = spark.sparkContext._gateway
    server = gateway._callback_server
    server.server_socket.close()
    for each in list(server.connections):
        each.socket.shutdown(socket.SHUT_RDWR)
    assert counts_of(frame) == [10, 4, 2]


def counts_of(frame: Any) -> list[int]:
    """Count all rows, some rows, and some in another thread."""
    found = [frame.count(), frame.where("id > 5").count()]
    thread = threading.Thread(target=lambda: found.append(frame.where("id > 7").count()))
    thread.start()
    thread.join()
    return found


def restarted(spark: Any) -> None:
    """Check that a session started after another one ended has no state of it."""
    spark.stop()
    again = local_session("again", {})
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        load(again, "delta")
    lakescan.spark.register(again)
    assert [load(again, name).where("id > 5").count() for name in FORMATS] == [4, 4]
    lakescan.catalog("afterwards", warehouse=sys.argv[1] + "/afterwards")
    again.stop()


if __name__ == "__main__":
    main(sys.argv[1])
