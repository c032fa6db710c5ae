"""Declarative pipelines: the project of examples/pipelines, run by Spark's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from examples.pipelines import tables

import lakescan

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROJECT = Path(__file__).parents[2] / "examples" / "pipelines"


def _orders(*ids: int) -> pa.Table:
    numbers = pa.array(ids, pa.int64())
    return pa.table({"id": numbers, "country": pa.array(["FR"] * len(ids), pa.string()), "quantity": numbers})


def _run(folder: Path) -> str:
    """Run once and return the output. PySpark 4.3 may exit with 1 after success: see docs/guides/pipelines.md."""
    project = folder / "project"
    if not project.exists():
        shutil.copytree(PROJECT, project)
        spec = project / "spark-pipeline.yml"
        spec.write_text(spec.read_text().replace("/tmp/lakescan-pipeline", str(folder)))
    scripts = Path(sys.executable).parent
    environment = {
        **os.environ,
        "LAKESCAN_PIPELINE": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        [scripts / "spark-pipelines", "run", "--conf", "spark.sql.catalogImplementation=hive"],
        cwd=project,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    return done.stdout


def test_each_run_of_a_pipeline_writes_new_rows_once_through_its_sink(tmp_path: Path) -> None:
    orders, copied = str(tmp_path / "orders"), str(tmp_path / "copied")
    lakescan.save(_orders(1, 2), orders, format="delta")
    lakescan.save(_orders(), copied, format="delta")
    for more in ((), (3, 4)):
        if more:
            lakescan.table(orders).append(_orders(*more))
        output = _run(tmp_path)
        assert "Run is COMPLETED" in output, output[-5000:]
        assert (
            lakescan.table(copied)
            .scan()
            .to_arrow()
            .sort_by("id")
            .equals(lakescan.table(orders).scan().to_arrow().sort_by("id"))
        )


def test_the_tables_of_the_example_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESCAN_PIPELINE", str(tmp_path))
    for _ in range(2):
        tables.main()
    assert lakescan.table(tmp_path / "orders").count() == 3
    assert lakescan.table(tmp_path / "copied").count() == 0
