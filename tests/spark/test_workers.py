"""Workers of a local session run this interpreter, without configuration by the user."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

_SCRIPT = """
import sys
import lakescan, lakescan.spark
from tests.support.session import local_session
spark = local_session("workers", {})
scan = lakescan.table(sys.argv[1]).scan()
assert scan.options(lane=sys.argv[2], data_planning_mode="distributed").to_spark(spark).count() == scan.count()
spark.stop()
print("fine")
"""


@pytest.mark.parametrize("lane", ["arrow", "native"])
def test_workers_find_the_packages_of_the_driver(shop, lane: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PATH": "/usr/bin:/bin:" + environment.get("PATH", "")}
    found = subprocess.run(
        [sys.executable, "-c", _SCRIPT, shop.customers, lane],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
        check=False,
    )
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]
