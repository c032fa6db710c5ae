"""An enabled session reads and writes lakescan's tables by Spark's own methods."""

from __future__ import annotations

from typing import Any


def test_sql_of_an_enabled_session_reaches_its_catalogs(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.db.numbers (n BIGINT)")
    enabled.sql("INSERT INTO lake.db.numbers VALUES (1), (2)")
    assert enabled.table("lake.db.numbers").count() == 2
