"""The JVM's writers and errors, which enabled sessions imitate (`tests/spark/drop_in/test_errors.py`, `test_writers.py`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from tests.spark.drop_in.test_errors import STATEMENTS


@pytest.fixture(scope="module")
def folder(jvm: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables that the statements are about."""
    found = tmp_path_factory.mktemp("delta")
    jvm.sql("CREATE NAMESPACE ice.e")
    jvm.sql("CREATE TABLE ice.e.t (id BIGINT, d STRING) USING iceberg")
    jvm.sql("CREATE TABLE ice.e.n (a INT NOT NULL, b STRING) USING iceberg")
    jvm.sql(f"CREATE TABLE delta.`{found}/t` (id BIGINT, d STRING) USING delta")
    jvm.sql(f"INSERT INTO delta.`{found}/t` VALUES (1, 'a')")
    return found


@pytest.mark.parametrize(("text", "name", "condition"), STATEMENTS)
def test_errors_of_statements(jvm: Any, folder: Path, text: str, name: str, condition: str | None) -> None:
    with pytest.raises(Exception) as found:
        jvm.sql(text.replace("lake.", "ice.").format(folder)).collect()
    error: Any = found.value
    assert type(error).__name__ == name
    assert getattr(error, "getCondition", lambda: None)() == condition


def test_overwrite_does_not_check_the_rows_of_an_iceberg_table(jvm: Any, folder: Path) -> None:
    rows = jvm.createDataFrame([(1, "a"), (2, "b")], "id long, d string")
    rows.writeTo("ice.e.overwritten").partitionedBy(F.col("d")).createOrReplace()
    rows.where("id = 1").writeTo("ice.e.overwritten").overwrite(F.col("d") == "b")
    assert sorted(each.id for each in jvm.table("ice.e.overwritten").collect()) == [1, 1]
    operations = jvm.sql("SELECT operation FROM ice.e.overwritten.snapshots ORDER BY committed_at").collect()
    assert [each[0] for each in operations] == ["overwrite", "overwrite"]


def test_save_records_its_mode_in_the_history_of_a_delta_table(jvm: Any, folder: Path) -> None:
    rows, path = jvm.range(2), folder / "saved"
    rows.write.format("delta").save(str(path))
    rows.write.format("delta").mode("Append").save(str(path))
    history = jvm.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version").collect()
    found = [(each.operation, each.operationParameters["mode"]) for each in history]
    assert found == [("WRITE", "ErrorIfExists"), ("WRITE", "Append")]
    assert all(each.nullable for each in jvm.read.format("delta").load(str(path)).schema)


def test_a_path_append_to_delta_takes_fewer_columns_but_no_wider_ones(jvm: Any, folder: Path) -> None:
    path = str(folder / "columns")
    jvm.sql("SELECT 1 i, 'a' d").write.format("delta").save(path)
    jvm.sql("SELECT 2 i").write.format("delta").mode("append").save(path)
    assert sorted(each.i for each in jvm.read.format("delta").load(path).collect()) == [1, 2]
    with pytest.raises(AnalysisException, match="DELTA_FAILED_TO_MERGE_FIELDS"):
        jvm.sql("SELECT 2L i").write.format("delta").mode("append").save(path)
