"""Inputs found by the guided fuzzer stay fixed: each gives an answer or a lakescan error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.guided.targets import TARGETS, failure

FOUND = Path(__file__).parent / "corpus"
INPUTS = sorted(path for path in FOUND.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_found_input_gives_an_answer_or_a_lakescan_error(path: Path) -> None:
    assert failure(TARGETS[path.parent.name], path.read_bytes()) is None


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_handles_its_seeds_and_empty_input(name: str) -> None:
    for data in (*TARGETS[name].seeds(), b"", b"\xff" * 9, b"{}", b"[" * 20_000):
        assert failure(TARGETS[name], data) is None, data[:60]


def test_every_found_input_is_small_and_belongs_to_a_target() -> None:
    assert [p for p in INPUTS if p.parent.name not in TARGETS or p.stat().st_size > 20_000] == []
