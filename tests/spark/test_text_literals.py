"""`tests/expressions/text_literals.json` has the answers of the installed Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scripts.text_literals import ANSWERS, answers, quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = json.loads(Path(ANSWERS).read_text())
CASES = [(name, zone) for name in FILE for zone in FILE[name]["zones"]]


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A separate session: its zone and types change."""
    own = spark.newSession()
    own.conf.set("spark.sql.timeType.enabled", "true")
    return own


@pytest.mark.parametrize(("name", "zone"), CASES)
def test_texts_compare_with_the_values_of_a_column_as_recorded(session: SparkSession, name: str, zone: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    recorded = {text: signs for text, signs in FILE[name]["zones"][zone].items() if signs is not None}
    listed = " UNION ALL ".join(f"SELECT {n} AS n, {value} AS v" for n, value in enumerate(FILE[name]["values"]))
    signs = ", ".join(
        f"CASE WHEN v < {quoted(text)} THEN '<' WHEN v = {quoted(text)} THEN '=' ELSE '>' END" for text in recorded
    )
    rows = sorted(session.sql(f"SELECT n, array({signs}) FROM ({listed})").collect())
    assert dict(zip(recorded, map("".join, zip(*(row[1] for row in rows), strict=True)), strict=True)) == recorded


@pytest.mark.slow
def test_texts_that_are_refused_are_recorded_as_such(session: SparkSession) -> None:
    assert answers(session) == FILE
