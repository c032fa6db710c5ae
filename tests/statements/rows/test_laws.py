"""After any sequence of deletes, updates, merges and upserts, the table has the rows of a list model."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.errors import AmbiguousMerge
from tests.tables.support import maker, now

Row = tuple[int | None, str | None, int | None]  # k, part, n
Three = bool | None
TABLE = pa.schema([("k", pa.int64()), ("part", pa.string()), ("n", pa.int32())])
KINDS = {
    "iceberg version 1": {},
    "iceberg": {},
    "iceberg, merge-on-read": {"mode": "merge-on-read"},
    "iceberg, a delete file for each partition": {"mode": "merge-on-read", "write.delete.granularity": "partition"},
    "iceberg version 3": {},
    "iceberg version 3, merge-on-read": {"mode": "merge-on-read"},
    "delta": {},
    "delta, vectors": {"delta.enableDeletionVectors": "true"},
    "delta, vectors and feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "delta, feed": {"delta.enableChangeDataFeed": "true"},
    "delta, vectors and row tracking": {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
}


BOTH_MODES = {kind for kind in KINDS if "iceberg" in kind or "vectors" in kind} - {"iceberg version 1"}


def _and(left: Three, right: Three) -> Three:
    return False if left is False or right is False else None if left is None or right is None else True


def _less(left: int | None, right: int | None) -> Three:
    return None if left is None or right is None else left < right


def _equal(left: Any, right: Any) -> Three:
    return None if left is None or right is None else left == right


@dataclass(frozen=True)
class Said:
    """A condition or a value as SQL, and as a function of a row."""

    text: str
    of: Callable[[Row], Any]


CONDITIONS = [
    Said("part = 'a'", lambda r: _equal(r[1], "a")),
    Said("part IS NULL", lambda r: r[1] is None),
    Said("n < 3", lambda r: _less(r[2], 3)),
    Said("k < 4 AND part = 'b'", lambda r: _and(_less(r[0], 4), _equal(r[1], "b"))),
    Said("k IN (SELECT 3 UNION ALL SELECT 5)", lambda r: None if r[0] is None else r[0] in (3, 5)),
    Said(
        "upper(part) = 'A' AND abs(n) >= 2", lambda r: _and(_equal(r[1], "a"), None if r[2] is None else abs(r[2]) >= 2)
    ),
    Said("true", lambda r: True),
    Said("n > 100", lambda r: _less(100, r[2])),
]
VALUES = {
    "n": [
        Said("n + 1", lambda r: None if r[2] is None else r[2] + 1),
        Said("CASE WHEN n < 2 THEN k ELSE 7 END", lambda r: r[0] if _less(r[2], 2) else 7),
        Said("NULL", lambda r: None),
    ],
    "part": [Said("'b'", lambda r: "b"), Said("coalesce(part, 'c')", lambda r: "c" if r[1] is None else r[1])],
}
PART = st.sampled_from(["a", "b", None])
NUMBER = st.one_of(st.none(), st.integers(-3, 6))
CONDITION = st.sampled_from(CONDITIONS)
UPDATES = st.fixed_dictionaries({}, optional={name: st.sampled_from(said) for name, said in VALUES.items()}).filter(
    bool
)
NEW = st.lists(st.tuples(st.one_of(st.integers(0, 9), st.none()), PART, NUMBER), max_size=5)
CLAUSES = st.lists(
    st.one_of(
        st.tuples(st.just("matched delete"), CONDITION),
        st.tuples(st.just("matched update"), CONDITION),
        st.tuples(st.just("matched update all"), CONDITION),
        st.tuples(st.just("insert all"), CONDITION),
        st.tuples(st.just("insert"), CONDITION),
        st.tuples(st.just("by source delete"), CONDITION),
        st.tuples(st.just("by source update"), CONDITION),
    ),
    min_size=1,
    max_size=4,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NEW),
        st.tuples(st.just("delete"), CONDITION),
        st.tuples(st.just("update"), CONDITION, UPDATES),
        st.tuples(st.just("merge"), NEW, CLAUSES),
        st.tuples(st.just("upsert"), NEW),
        st.tuples(st.just("overwrite"), st.sampled_from(CONDITIONS[:4]), NEW),
        st.tuples(st.just("compact")),
    ),
    min_size=1,
    max_size=6,
)


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(TABLE.names, row, strict=True)) for row in rows], schema=TABLE)


def source_of(rows: list[Row]) -> Any:
    """Return new rows in the form that a statement receives."""
    return table_of(rows)


def by_value(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row])


def rows_now() -> list[Row]:
    return by_value([tuple(row.values()) for row in now().scan().to_arrow().to_pylist()])


class Model:
    """The expected rows of a table."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def follow(self, step: tuple[Any, ...]) -> None:
        """Apply a step to the list."""
        match step:
            case ("append", new):
                self.rows += new
            case ("delete", condition):
                self.rows = [row for row in self.rows if condition.of(row) is not True]
            case ("update", condition, values):
                self.rows = [self._updated(row, values) if condition.of(row) is True else row for row in self.rows]
            case ("merge", new, clauses):
                self._merge(new, clauses)
            case ("overwrite", condition, new):
                kept = [row for row in self.rows if condition.of(row) is not True]
                self.rows = kept + [row for row in new if condition.of(row) is True]
            case ("upsert", new):
                keys = [row[0] for row in new if row[0] is not None]
                if len(set(keys)) < len(keys):
                    raise AmbiguousMerge("keys")
                self._merge(new, [("matched update all", CONDITIONS[6]), ("insert all", CONDITIONS[6])])

    @staticmethod
    def _updated(row: Row, values: dict[str, Said]) -> Row:
        return row[0], *(values[name].of(row) if name in values else row[n] for n, name in ((1, "part"), (2, "n")))

    def _merge(self, new: list[Row], clauses: list[tuple[str, Said]]) -> None:
        matched = [each for each in clauses if each[0].startswith("matched")]
        counted = bool(matched) and not (
            len(matched) == 1 and matched[0][0] == "matched delete" and matched[0][1].text == "true"
        )
        kept: list[Row] = []
        for row in self.rows:
            matches = [other for other in new if row[0] is not None and other[0] == row[0]]
            if len(matches) > 1 and counted:
                raise AmbiguousMerge("twice")
            kind = "matched" if matches else "by source"
            done = next((c for c in clauses if c[0].startswith(kind) and c[1].of(row) is True), None)
            match done:
                case None:
                    kept.append(row)
                case ("matched update all", _):
                    kept.append(matches[0])
                case ("matched update" | "by source update", _):
                    kept.append((row[0], "b", row[2]))
        known = {row[0] for row in self.rows if row[0] is not None}
        for row in new:
            if row[0] in known:
                continue
            done = next((c for c in clauses if c[0].startswith("insert") and c[1].of(row) is True), None)
            if done is not None:
                kept.append(row if done[0] == "insert all" else (row[0], None, 9))
        self.rows = kept


def run(step: tuple[Any, ...], **options: Any) -> None:
    """Apply a step to the table, with options of statements that change rows."""
    match step:
        case ("append", new):
            now().append(table_of(new))
        case ("delete", condition):
            now().delete(condition.text, **options)
        case ("update", condition, values):
            now().update({name: said.text for name, said in values.items()}, condition.text, **options)
        case ("merge", new, clauses):
            merge = now().merge(source_of(new), on="t.k = s.k", **options)
            for kind, condition in clauses:
                merge = _with(merge, kind, condition.text)
            merge.execute()
        case ("upsert", new):
            now().upsert(source_of(new), keys="k", **options)
        case ("overwrite", condition, new):
            now().overwrite(table_of([row for row in new if condition.of(row) is True]), where=condition.text)
        case ("compact",):
            now().compact()


def _with(merge: Any, kind: str, condition: str) -> Any:
    of_source = kind.startswith("insert")
    said = _qualified(condition, "s" if of_source else "t")
    if condition == "true":
        said = None
    match kind:
        case "matched delete":
            return merge.when_matched_delete(said)
        case "matched update":
            return merge.when_matched_update({"part": "'b'"}, said)
        case "matched update all":
            return merge.when_matched_update_all(said)
        case "insert all":
            return merge.when_not_matched_insert_all(said)
        case "insert":
            return merge.when_not_matched_insert({"k": "s.k", "n": "9"}, said)
        case "by source delete":
            return merge.when_not_matched_by_source_delete(said)
    return merge.when_not_matched_by_source_update({"part": "'b'"}, said)


def _qualified(condition: str, alias: str) -> str:
    import re

    return re.sub(r"\b(k|n|part)\b", rf"{alias}.\1", condition)


def _valid(steps: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the steps without clauses after an unconditional one, which are refused."""
    found = []
    for step in steps:
        if step[0] == "merge":
            ended: set[str] = set()
            clauses = []
            for kind, condition in step[2]:
                group = "insert" if kind.startswith("insert") else kind.split()[0]
                if group not in ended:
                    clauses.append((kind, condition))
                if condition.text == "true":
                    ended.add(group)
            step = (step[0], step[1], clauses)
        found.append(step)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_a_table_has_the_rows_of_a_list_model(kind: str, partition_by: tuple[str, ...]) -> None:
    check_law(kind, partition_by, 15)


@pytest.mark.parametrize("kind", ["iceberg, merge-on-read", "iceberg version 3", "delta, vectors and feed"])
def test_a_few_histories_equal_a_list_model(kind: str) -> None:
    check_law(kind, ("part",), 3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "iceberg" in kind or "feed" in kind])
def test_changes_lead_from_each_state_to_the_next(kind: str) -> None:
    check_law(kind, ("part",), 15, checks_changes=True)


@pytest.mark.parametrize("kind", ["iceberg", "delta, vectors and feed"])
def test_changes_lead_from_a_few_states_to_the_next(kind: str) -> None:
    check_law(kind, ("part",), 3, checks_changes=True)


def check_law(kind: str, partition_by: tuple[str, ...], examples: int, *, checks_changes: bool = False) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS.map(_valid), st.booleans() if kind in BOTH_MODES else st.just(False))
    def check(steps: list[tuple[Any, ...]], changes_modes: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            new_table(kind, partition_by, folder)
            follow(steps, changes_modes=changes_modes, checks_changes=checks_changes)

    check()


def new_table(kind: str, partition_by: tuple[str, ...], folder: str) -> None:
    """Make the empty table of a kind."""
    local = lakescan.catalog("local", warehouse=folder)
    local.create_namespace("db")
    properties = dict(KINDS[kind])
    if mode := properties.pop("mode", None):
        properties |= {f"write.{each}.mode": mode for each in ("delete", "update", "merge")}
    make = maker(kind.split(",")[0], local)
    make("k BIGINT, part STRING, n INT", partition_by=partition_by, properties=properties)


def follow(steps: list[tuple[Any, ...]], *, changes_modes: bool = False, checks_changes: bool = False) -> None:
    """Apply the steps to the table and the model, and check that every state equals the model's.

    With `changes_modes`, statements are merge-on-read and copy-on-write in turn. With `checks_changes`, the table's
    changes must turn each state into the next.
    """
    model = Model()
    for number, step in enumerate(steps):
        before, version = list(model.rows), now().version
        modes = {"row_change_mode": ("merge-on-read", "copy-on-write")[number % 2]} if changes_modes else {}
        try:
            model.follow(step)
        except AmbiguousMerge:
            with pytest.raises(AmbiguousMerge):
                run(step, **modes)
            model.rows = before
        else:
            run(step, **modes)
        assert rows_now() == by_value(model.rows), (number, step)
        assert now().count() == len(model.rows)
        if checks_changes and version is not None and now().version != version:
            assert with_changes(before, version) == Counter(model.rows), (number, step)


def with_changes(before: list[Row], version: int) -> Counter[Row]:
    """Count each row, given the rows of a version and the changes since."""
    found = Counter(before)
    for change in now().changes(start=version).to_arrow().to_pylist():
        is_new = change["_change_type"].lower() in ("insert", "update_postimage")
        found[change["k"], change["part"], change["n"]] += 1 if is_new else -1
    return found
