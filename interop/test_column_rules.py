"""lakescan obeys column rules declared by Delta on Spark, which reads, checks and continues the written tables."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.rows import differences

import lakescan
from interop.test_delta import written
from interop.test_delta_commits import forget

COLUMNS = """
    id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5),
    at TIMESTAMP,
    day DATE GENERATED ALWAYS AS (CAST(at AS DATE)),
    code CHAR(3),
    names ARRAY<VARCHAR(5)>,
    n INT DEFAULT 7,
    v INT NOT NULL
"""
STATEMENTS = [
    f"CREATE TABLE {{t}} ({COLUMNS}) USING delta PARTITIONED BY (day) "
    "TBLPROPERTIES ('delta.feature.allowColumnDefaults'='supported')",
    "ALTER TABLE {t} ADD CONSTRAINT even CHECK (v % 2 = 0 AND length(code) < 3 OR n IS NULL)",
    "INSERT INTO {t} (at, code, names, v) VALUES (TIMESTAMP'2024-02-29 10:00:00', 'a', array('b'), 2)",
]


def rows(*values: int) -> pa.Table:
    at = pa.array([datetime(2024, 3, 1, 23, 59, tzinfo=UTC)] * len(values), pa.timestamp("us", "UTC"))
    columns = {"at": at, "code": ["xy"] * len(values), "names": [["n", None]] * len(values)}
    return pa.table({**columns, "v": pa.array(values, pa.int32())})


def test_rules_are_obeyed_by_both(jvm: Any, warehouse: Path) -> None:
    identifier, location = written(jvm, warehouse, "rules of columns", STATEMENTS)
    lakescan.table(location).append(rows(4, 6))
    with pytest.raises(lakescan.SchemaMismatch, match=r"'even'.*v = 3"):
        lakescan.table(location).append(rows(3))
    forget(jvm)
    theirs = jvm.sql(f"SELECT * FROM {identifier}").toArrow()
    assert differences(lakescan.table(location).scan().to_arrow(), theirs) == ""
    assert sorted(zip(theirs["id"].to_pylist(), theirs["n"].to_pylist(), strict=True)) == [(10, 7), (15, 7), (20, 7)]
    assert sorted(set(theirs["day"].to_pylist())) == [date(2024, 2, 29), date(2024, 3, 1)]
    assert sorted(set(theirs["code"].to_pylist())) == ["a  ", "xy "]
    jvm.sql(f"INSERT INTO {identifier} (at, code, names, v) VALUES (TIMESTAMP'2024-03-02', 'z', null, 8)")
    lakescan.table(location).append(rows(10))
    forget(jvm)
    assert sorted(row.id for row in jvm.sql(f"SELECT id FROM {identifier}").collect()) == [10, 15, 20, 25, 30]
    for refused in ("TIMESTAMP'2024-03-02', 'z', null, 1", "TIMESTAMP'2024-03-02', 'long', null, 2"):
        with pytest.raises(Exception, match=r"CHECK constraint|EXCEED|exceed"):
            jvm.sql(f"INSERT INTO {identifier} (at, code, names, v) VALUES ({refused})")
    jvm.sql(f"DELETE FROM {identifier} WHERE v > 2")
    forget(jvm)
    assert lakescan.table(location).scan().to_arrow()["id"].to_pylist() == [10]
