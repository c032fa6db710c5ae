"""Benchmark figures: read from the document, drawn, and checked for regressions."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.picture import draw, ratios
from benchmarks.quick import COMMITTED, worse

DOCUMENT = """# Benchmarks

## Planning an Iceberg table

| task | lakescan | seconds | peer | seconds | ratio | aim |
|---|---|---|---|---|---|---|
| everything | open | 0.24 | Java 1.12 | 0.34 | 0.72 | <= 1 |
| more | open | 0.24 | Java 1.12 | not measured | | |

## Reading in process

| task | table | reader | seconds | ratio to Polars | MB |
|---|---|---|---|---|---|
| all | Delta | **to_arrow** | 1.1 | 1.28 | |
| all | Delta | polars | 0.9 | 1.00 | |
"""


def test_ratios_are_read_from_a_document() -> None:
    found = list(ratios(DOCUMENT))
    assert found == [("Planning an Iceberg table", "Java", 0.72), ("Reading in process", "Polars", 1.28)]


def test_the_picture_has_a_dot_for_each_ratio() -> None:
    picture = ElementTree.fromstring(draw(DOCUMENT))
    dots = picture.findall("{http://www.w3.org/2000/svg}circle")
    assert [dot.get("class") for dot in dots] == ["faster", "slower"]


def test_the_picture_matches_the_document() -> None:
    document = Path("docs/benchmarks.md").read_text()
    assert Path("docs/benchmarks.svg").read_text() == draw(document)
    assert len(list(ratios(document))) > 50


def test_a_ratio_is_worse_from_20_percent_more() -> None:
    committed = {"read": 0.5, "plan": 1.0}
    assert worse({"read": 0.59, "plan": 1.2, "new": 9.0}, committed) == ["plan"]


def test_committed_ratios_belong_to_tasks() -> None:
    ratios = json.loads(COMMITTED.read_text())
    assert len(ratios) > 20
    assert all(isinstance(ratio, float) and ratio > 0 for ratio in ratios.values())
