"""The history comparison of the JVM oracle reports every row that only one side has or that differs. Needs no JVM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

pytest.importorskip("pyspark")
from interop.histories.__main__ import exit_code
from interop.histories.canonical import difference
from interop.histories.history import Difference, History, Tally

ROWS = pa.table({"a": [1]})


def raising(error: Exception) -> Callable[[], pa.Table]:
    def read() -> pa.Table:
        raise error

    return read


def compared(what: str, ours: Callable[[], pa.Table], theirs: Callable[[], pa.Table]) -> Tally:
    tally = Tally()
    History(None, "delta", 0, Path(), tally)._same(what, "it", (ours, theirs))
    return tally


def test_a_listed_state_that_cannot_be_read_is_a_difference() -> None:
    gone = raising(lakescan.NoSuchSnapshot("no version 3"))
    with pytest.raises(Difference, match="only the JVM has it"):
        compared("states", gone, lambda: ROWS)
    assert compared("states", gone, raising(ValueError("nor here"))).counts["states"] == 0


def test_a_refusal_by_name_does_not_count_as_a_comparison() -> None:
    tally = compared("rows", raising(lakescan.UnsupportedFeature("x")), lambda: ROWS)
    assert (tally.counts["rows"], tally.counts["refused: rows"]) == (0, 1)


def test_an_error_without_a_name_is_a_difference_if_the_jvm_reads() -> None:
    with pytest.raises(Difference, match="only the JVM reads it"):
        compared("rows", raising(KeyError("x")), lambda: ROWS)


@pytest.mark.parametrize(("failed", "rows", "code"), [(0, 5, 0), (1, 5, 1), (0, 0, 1)])
def test_a_run_that_compared_no_rows_shows_nothing(failed: int, rows: int, code: int) -> None:
    tally = Tally()
    tally.counts["rows"] = rows
    assert exit_code(failed, tally) == code


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (pa.table({"a": [0.0]}), pa.table({"a": [-0.0]})),
        (pa.table({"a": [1, 1]}), pa.table({"a": [1]})),
        (pa.table({"a": ["x", None]}), pa.table({"a": ["x", "None"]})),
        (pa.table({"a": [b"a"]}), pa.table({"a": ["61"]})),
        (pa.table({"a": ["x' | 'y"], "b": ["z"]}), pa.table({"a": ["x"], "b": ["y' | 'z"]})),
        (
            pa.table({"a": [[]]}, pa.schema([("a", pa.list_(pa.int64()))])),
            pa.table({"a": pa.array([None], pa.list_(pa.int64()))}),
        ),
    ],
    ids=["the sign of zero", "how often", "null or a text", "a type", "where a text ends", "empty or null"],
)
def test_other_rows_are_a_difference(ours: pa.Table, theirs: Any) -> None:
    assert difference(ours, theirs) != ""
    with pytest.raises(Difference):
        compared("rows", lambda: ours, lambda: theirs)
