"""After any sequence of appends, replacements and compactions, the table has the rows of a list model."""

from __future__ import annotations

import tempfile
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from tests.tables.support import maker, now, rows

Row = tuple[int, str | None]
PARTS = st.sampled_from(["a", "b", None])
FILTERS: dict[str, Any] = {
    "part = 'a'": lambda row: row[1] == "a",
    "part is null": lambda row: row[1] is None,
    "id < 6": lambda row: row[0] < 6,
    "part = 'b' and id >= 4": lambda row: row[1] == "b" and row[0] >= 4,
    "id in (1, 2, 3, 9, 12) or part is null": lambda row: row[0] in (1, 2, 3, 9, 12) or row[1] is None,
}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(PARTS, max_size=4)),
        st.tuples(st.just("replace"), st.sampled_from(list(FILTERS))),
        st.tuples(st.just("partitions"), st.lists(PARTS, max_size=3)),
        st.tuples(st.just("all"), st.lists(PARTS, max_size=3)),
        st.tuples(st.just("compact"), st.none()),
    ),
    min_size=1,
    max_size=7,
)


# Manifests are merged as soon as there are two, and written with one entry each.
MERGES = {"commit.manifest.min-count-to-merge": "2"}
SPLITS = {"commit.manifest.target-size-bytes": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iceberg version 1", "iceberg", "iceberg version 3", "delta"])
@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_a_table_has_the_rows_of_a_list_model(kind: str, partition_by: tuple[str, ...]) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, st.sampled_from([{}, MERGES, SPLITS]))
    def check(steps: list[tuple[str, Any]], manifests: dict[str, str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            maker(kind, local)(partition_by=partition_by, properties={} if kind == "delta" else manifests)
            # Without rows, a dynamic overwrite keeps an unpartitioned Iceberg table as it is, but empties a Delta one.
            all_at_once = not partition_by and kind == "delta"
            _follow(steps, bool(partition_by), all_at_once=all_at_once, has_lineage=kind.endswith("3"))

    check()


def _follow(steps: list[tuple[str, Any]], is_partitioned: bool, *, all_at_once: bool, has_lineage: bool) -> None:
    numbers, expected, row_ids = count(), [], {}
    for step, what in steps:
        new: list[Row] = [(next(numbers), part) for part in what] if isinstance(what, list) else []
        match step:
            case "append":
                now().append(rows(*new))
                expected = expected + new
            case "replace":
                matches = FILTERS[what]
                number = next(numbers)
                new = [row for row in ((number, part) for part in ("a", "b", None)) if matches(row)][:1]
                now().overwrite(rows(*new), where=what)
                expected = [row for row in expected if not matches(row)] + new
            case "partitions":
                now().overwrite(rows(*new), overwrite_mode="dynamic")
                whole = {"a", "b", None} if new or all_at_once else set()
                gone = {part for _, part in new} if is_partitioned else whole
                expected = [row for row in expected if row[1] not in gone] + new
            case "all":
                now().overwrite(rows(*new))
                expected = new
            case "compact":
                now().compact()
        found = now().scan().select("id", "part", *(["_row_id"] if has_lineage else [])).to_arrow().to_pylist()
        assert sorted((row["id"], row["part"] or "") for row in found) == sorted((n, p or "") for n, p in expected)
        if has_lineage:
            mine = {row["id"]: row["_row_id"] for row in found}
            assert len(set(mine.values())) == len(found)
            assert all(row_ids[number] == row_id for number, row_id in mine.items() if number in row_ids)
            row_ids = mine
