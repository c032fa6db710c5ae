"""Random histories of a few seeds, with steps by lakescan and by the JVM: both read the same after each step.

`make oracle` runs many.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from interop.histories.__main__ import run
from interop.histories.canonical import difference
from interop.histories.history import Tally
from interop.histories.shrinking import shortened
from interop.histories.sides import opened, without_carried
from interop.histories.steps import Step


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_both_read_the_same_after_each_step(jvm: Any, warehouse: Path, format: str, seed: int) -> None:
    tally = Tally()
    assert run(opened(jvm, warehouse / "histories"), format, seed, warehouse / "histories", tally) == ""
    assert tally.counts["rows"] > 0
    assert tally.counts["filters"] > 0


def test_a_history_is_shortened_to_the_steps_that_fail() -> None:
    steps = [Step("jvm", str(number)) for number in range(12)]
    fails = {"0", "4", "9"}
    found = shortened(steps, lambda some: "fails" if fails <= {step.text for step in some} else None)
    assert [step.text for step in found] == ["0", "4", "9"]


def test_rows_differ_by_the_sign_of_zero_and_by_how_often_they_occur() -> None:
    assert difference(pa.table({"d": [0.0, 1.0]}), pa.table({"d": [1.0, 0.0]})) == ""
    assert difference(pa.table({"d": [float("nan")]}), pa.table({"d": [-float("nan")]})) == ""
    assert "-0.0" in difference(pa.table({"d": [0.0]}), pa.table({"d": [-0.0]}))
    assert difference(pa.table({"d": [1.0, 1.0]}), pa.table({"d": [1.0]})) != ""
    assert "types" in difference(pa.table({"d": [1]}), pa.table({"d": pa.array([1], pa.int32())}))


def test_rows_with_bytes_deleted_and_inserted_unchanged_are_not_changes() -> None:
    kinds = ["DELETE", "INSERT", "INSERT", "INSERT"]
    found = pa.table({"b": [b"a", b"a", b"a", b"b"], "_change_type": kinds, "_change_ordinal": [0, 0, 0, 0]})
    assert sorted(without_carried(found)["b"].to_pylist()) == [b"a", b"b"]
