"""Tables named by a relative path are read on Spark, whose own paths are URIs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

pytestmark = pytest.mark.spark


def test_a_relative_path_is_read_in_every_way(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b", "b"]})
    lakescan.save(rows, "delta", format="delta", partition_by="part")
    lake = lakescan.catalog("rellake", warehouse="./lake")
    lake.create_namespace("db")
    lakescan.save(rows, "rellake.db.t")
    shutil.copytree("lake/db/t", "copies/t")
    shutil.rmtree("lake/db/t/data")
    moved = {f"file://{tmp_path}/lake/db/t": "copies/t"}
    newest = max(Path("copies/t/metadata").glob("*.metadata.json"))
    for path, format, relocate in (("delta", "delta", {}), (str(newest), "iceberg", moved)):
        options = {"relocate": relocate} if relocate else {}
        assert lakescan.spark.table(spark, path, **options).count() == 3
        assert lakescan.spark.read(spark, path, **options).where("id > 1").count() == 2
        assert len(lakescan.table(path, **options).scan().to_spark(spark).collect()) == 3
        if not relocate:
            found = lakescan.spark.sql(spark, f"SELECT id FROM {format}.`{path}` WHERE part = 'b'").collect()
            assert sorted(row.id for row in found) == [2, 3]
