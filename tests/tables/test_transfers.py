"""Eight processes transfer money between accounts by MERGE: the total is the same in every version of the table."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import CommitConflict
from tests.support.row_changes import MERGE_ON_READ
from tests.tables.support import maker

KINDS = {
    "iceberg": {},
    "iceberg, merge-on-read": MERGE_ON_READ,
    "iceberg version 3, merge-on-read": MERGE_ON_READ,
    "delta": {},
    "delta, vectors": {"delta.enableDeletionVectors": "true"},
}
ACCOUNTS, MONEY, WRITERS, TRANSFERS = 12, 100, 8, 2
Transfer = tuple[int, int, int]  # from, to, amount


def transfers_of(writer: int) -> list[Transfer]:
    chosen = Random(writer)
    return [(*chosen.sample(range(ACCOUNTS), 2), chosen.randint(1, 50)) for _ in range(TRANSFERS)]


def accounts(folder: Path) -> lakescan.Table:
    return lakescan.catalog("local", warehouse=folder).load_table("db.t")


def move_all(folder: Path, writer: int) -> None:
    """Make a writer's transfers, in a separate process."""
    for transfer in transfers_of(writer):
        while not move(accounts(folder), transfer):
            pass  # another writer was first


def move(table: lakescan.Table, transfer: Transfer) -> bool:
    """Transfer money, unless another writer changed an account concurrently."""
    giver, taker, amount = transfer
    moved = pa.table({"id": [giver, taker], "amount": [-amount, amount]})
    merge = table.merge(moved, on="t.id = s.id").when_matched_update({"balance": "t.balance + s.amount"})
    try:
        result = merge.execute()
    except CommitConflict:
        return False
    assert result.updated == 2
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_transfers_neither_create_nor_lose_money(kind: str, tmp_path: Path) -> None:
    local = lakescan.catalog("local", warehouse=tmp_path)
    local.create_namespace("db")
    make = maker(kind.split(",")[0], local)
    table = make("id BIGINT, balance BIGINT", partition_by=(), properties=KINDS[kind])
    half = ACCOUNTS // 2
    for ids in (range(half), range(half, ACCOUNTS)):  # two files
        table.append(pa.table({"id": list(ids), "balance": [MONEY] * half}))
    first = table.version
    with ProcessPoolExecutor(WRITERS, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(move_all, [tmp_path] * WRITERS, range(WRITERS)))
    expected = Counter(dict.fromkeys(range(ACCOUNTS), MONEY))
    for giver, taker, amount in (each for writer in range(WRITERS) for each in transfers_of(writer)):
        expected[giver] -= amount
        expected[taker] += amount
    table = accounts(tmp_path)
    assert {row["id"]: row["balance"] for row in table.to_arrow().to_pylist()} == expected
    versions = table.history()["version" if table.format == "delta" else "snapshot_id"].to_pylist()
    since = versions[versions.index(first) :]
    assert len(since) == 1 + WRITERS * TRANSFERS
    for version in since:
        state = table.scan().as_of(version=version).to_arrow()
        assert (state.num_rows, sum(state["balance"].to_pylist())) == (ACCOUNTS, ACCOUNTS * MONEY)
