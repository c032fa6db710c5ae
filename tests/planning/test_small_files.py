"""Streams read many small files: one task for every few files would cost more than reading them."""

from __future__ import annotations

from dataclasses import replace

from lakescan.planning.plan import PackingOptions

MIB = 2**20
PACKING = PackingOptions(target_size=128 * MIB, open_cost=4 * MIB, parallelism=2, weighs_opening=True)


def test_opening_small_files_makes_no_more_tasks_than_there_are_readers() -> None:
    size = PACKING.size_for(1 * MIB, 100)
    assert -(-100 * 4 * MIB // size) == 2


def test_files_that_keep_all_readers_busy_are_split_as_usual() -> None:
    assert PACKING.size_for(300 * MIB, 100) == 128 * MIB
    assert PACKING.size_for(40 * MIB, 2) == replace(PACKING, weighs_opening=False).size_for(48 * MIB, 2)


def test_an_explicit_split_size_is_kept() -> None:
    assert replace(PACKING, split_size=64 * MIB).size_for(1 * MIB, 100) == 64 * MIB
