"""Flink writes changelogs, one checkpoint after the other; lakescan reads each state and each change, and streams them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

import lakescan

from .session import FlinkSession, in_order, rows_of

Row = tuple[str, str, str | None]
CONVERTED = "CAST(id AS BIGINT), part, v"


class Ledger:
    """Random changes of keyed rows, and the rows after each commit."""

    def __init__(self, seed: int, *, upserts: bool) -> None:
        self._random, self._upserts = random.Random(seed), upserts
        self._rows: dict[str, Row] = {}
        self.states: list[list[tuple[int, str, str | None]]] = []

    def commit(self, changes: int) -> list[Sequence[str | None]]:
        """Return the changes of the next commit; several may have the same key."""
        found: list[Sequence[str | None]] = []
        for n in range(changes):
            key = str(self._random.randrange(8))
            before = self._rows.get(key)
            if before is not None and self._random.random() < 0.3:
                found.append(("-D", *self._rows.pop(key)))
                continue
            after: Row = (key, f"p{int(key) % 3}", self._random.choice([None, "", f"é{len(self.states)}.{n}"]))
            if before is not None and not self._upserts:
                found.append(("-U", *before))
            found.append(("+I" if before is None else "+U", *after))
            self._rows[key] = after
        self.states.append([(int(key), part, value) for key, part, value in self._rows.values()])
        return found


def tagged(rows: list[tuple[int, str, str | None]]) -> list[tuple[object, ...]]:
    return in_order((n, f"s{part}", None if value is None else f"s{value}") for n, part, value in rows)


@pytest.mark.parametrize("upserts", [True, False], ids=["upserts", "changelog"])
@pytest.mark.parametrize(
    ("version", "file_format", "key"),
    [(2, "parquet", "id"), (2, "orc", "id"), (2, "avro", "id, part"), (3, "parquet", "id, part")],
)
def test_each_state_and_each_change_is_read(
    lake: lakescan.Catalog, flink: FlinkSession, version: int, file_format: str, key: str, upserts: bool
) -> None:
    name = f"changes_{version}_{file_format}_{'u' if upserts else 'c'}"
    partitioned = "PARTITIONED BY (part)" if "part" in key else ""
    flink.sql(
        f"CREATE TABLE lake.db.{name} (id BIGINT NOT NULL, part STRING NOT NULL, v STRING, PRIMARY KEY ({key}) NOT "
        f"ENFORCED) {partitioned} WITH ('format-version'='{version}', 'write.format.default'='{file_format}', "
        f"'write.upsert.enabled'='{str(upserts).lower()}')"
    )
    ledger = Ledger(version, upserts=upserts)
    for _ in range(4):
        flink.change(f"lake.db.{name}", ("id", "part", "v"), CONVERTED, ledger.commit(9))
    table = lakescan.table(f"lake.db.{name}")
    snapshots = table.history()["snapshot_id"].to_pylist()
    assert len(snapshots) == len(ledger.states)
    for snapshot, state in zip(snapshots, ledger.states, strict=True):
        assert in_order(rows_of(table.scan().as_of(version=snapshot).to_arrow())) == tagged(state)
    assert in_order(rows_of(table.scan().to_arrow())) == in_order(flink.sql(f"SELECT * FROM lake.db.{name}"))
    replica: set[tuple[object, ...]] = set()
    for batch in table.stream(
        wait=False, on_change="changelog", starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT"
    ):
        kinds = batch["_change_type"].to_pylist()
        rows = rows_of(pa.Table.from_batches([batch]).select(["id", "part", "v"]))
        replica -= {row for kind, row in zip(kinds, rows, strict=True) if kind in ("DELETE", "UPDATE_BEFORE")}
        replica |= {row for kind, row in zip(kinds, rows, strict=True) if kind in ("INSERT", "UPDATE_AFTER")}
    assert in_order(replica) == tagged(ledger.states[-1])


def test_a_stream_begins_where_the_stream_of_flink_begins(lake: lakescan.Catalog, flink: FlinkSession) -> None:
    flink.sql(
        "CREATE TABLE lake.db.starts (id BIGINT)", *(f"INSERT INTO lake.db.starts VALUES ({n})" for n in range(4))
    )
    table = lakescan.table("lake.db.starts")
    third = str(table.history()["snapshot_id"].to_pylist()[2])
    starts = {
        "TABLE_SCAN_THEN_INCREMENTAL": {},
        "INCREMENTAL_FROM_EARLIEST_SNAPSHOT": {},
        "INCREMENTAL_FROM_LATEST_SNAPSHOT": {},
        "INCREMENTAL_FROM_SNAPSHOT_ID": {"start-snapshot-id": third},
    }
    for strategy, more in starts.items():
        options = {"starting-strategy": strategy, **more}
        ours = in_order(
            row for batch in table.stream(wait=False, **options) for row in rows_of(pa.Table.from_batches([batch]))
        )
        hints = {"streaming": "true", "monitor-interval": "200ms", **options}
        hint = ", ".join(f"'{name}'='{value}'" for name, value in hints.items())
        job = flink.start(f"SELECT * FROM lake.db.starts /*+ OPTIONS({hint}) */")
        assert in_order(flink.drained(job, len(ours))) == ours, strategy
