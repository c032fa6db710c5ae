"""The JVM's libraries return the columns that `tests/spark/drop_in/test_results.py` requires of enabled sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.spark.drop_in.test_results import STATEMENTS, columns_of


def test_the_jvm_returns_the_same_columns(jvm: Any, warehouse: Path) -> None:
    session = jvm.newSession()
    session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.lake.type", "hadoop")
    session.conf.set("spark.sql.catalog.lake.warehouse", f"{warehouse}/lake_of_results")
    table = f"delta.`{warehouse}/results_of_delta`"
    found = {text: columns_of(session.sql(text.replace("{d}", table))) for text, _ in STATEMENTS}
    assert found == dict(STATEMENTS)
