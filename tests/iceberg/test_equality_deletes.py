"""Equality deletes remove the rows that had a deleted key when the delete was committed, but no later rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.iceberg_deletes import DeleteFile, commit_deletes, local, write_equality_deletes
from samples.iceberg_table import write_table

import lakescan
from lakescan.reading.deletes.equality_deletes import DeletedKeyMap
from tests.support.catalog import local_catalog

NAN = float("nan")
KEYS = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from([NAN, 0.0, -0.0, 1.0]))


def key(row: tuple[int | None, float | None]) -> tuple[Any, Any]:
    """Return a row's key in a form that Python compares as the reference does."""
    number, value = row
    return number, value if value is None else str(value)  # NaN equals NaN, and -0.0 differs from 0.0


@pytest.mark.slow
@settings(max_examples=200)
@given(rows=st.lists(KEYS, max_size=12), deletes=st.lists(st.tuples(KEYS, st.integers(1, 5)), max_size=12))
def test_the_map_has_the_newest_delete_of_every_key(rows: list[Any], deletes: list[Any]) -> None:
    def columns(values: list[Any]) -> list[pa.Array]:
        return [pa.array([v[0] for v in values], pa.int64()), pa.array([v[1] for v in values], pa.float64())]

    found = DeletedKeyMap.build(
        (1, 2), columns([d for d, _ in deletes]), np.array([s for _, s in deletes], dtype=np.int64)
    )
    data = columns(rows)
    newest = found.newest_delete(lambda field_id: data[field_id - 1], len(rows))
    expected = [max((s for d, s in deletes if key(d) == key(r)), default=-1) for r in rows]
    assert newest.tolist() == expected


@pytest.fixture(autouse=True, params=["all keys at once", "key by key"])
def keys_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test also with more keys than are held at once."""
    if request.param == "key by key":
        monkeypatch.setattr("lakescan.reading.deletes.equality_deletes.KEYS_AT_ONCE", 0)
        monkeypatch.setattr("lakescan.reading.deletes.equality_deletes._BATCH", 1)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Make an empty pyiceberg table of (id, name)."""
    catalog = local_catalog(tmp_path)
    return catalog.create_table("n.t", pa.schema([("id", pa.int32()), ("name", pa.string())]))


def rows(ids: list[int | None], names: list[str | None]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32()), "name": names})


def committed(table: Any, *deletes: Callable[[str], DeleteFile]) -> Any:
    """Commit the delete files and return the table, reopened in pyiceberg."""
    from pyiceberg.table import StaticTable

    base = f"{table.location()}/data/eq-{len(list(local(table.location()).glob('data/eq-*')))}"
    location = commit_deletes(table.metadata_location, [make(f"{base}-{n}.parquet") for n, make in enumerate(deletes)])
    return StaticTable.from_metadata(location)


def by(columns: pa.Table, **ids: int) -> Callable[[str], DeleteFile]:
    return lambda path: write_equality_deletes(path, columns, ids)


def ids(table: Any) -> list[Any]:
    return sorted(lakescan.table(table.metadata_location).scan().to_arrow()["id"].to_pylist(), key=str)


def test_rows_with_a_deleted_key_are_removed(table: Any) -> None:
    table.append(rows([1, 2, 3, 4], ["a", "b", "c", None]))
    assert ids(committed(table, by(pa.table({"id": pa.array([2, 9], pa.int32())}), id=1))) == [1, 3, 4]
    assert ids(committed(table, by(pa.table({"name": ["a"]}), name=2))) == [2, 3, 4]


def test_a_null_key_deletes_null(table: Any) -> None:
    table.append(rows([1, 2], ["a", None]))
    assert ids(committed(table, by(pa.table({"name": pa.array([None], pa.string())}), name=2))) == [1]


@pytest.mark.parametrize(("compared", "left"), [({"u": 2}, []), ({"id": 1, "u": 2}, [1, 3])])
def test_the_key_of_an_unknown_typed_column_is_null(tmp_path: Path, compared: dict[str, int], left: list[int]) -> None:
    kinds = {"id": "long", "u": "unknown"}
    fields = [{"id": n, "name": name, "required": False, "type": kinds[name]} for n, name in enumerate(kinds, 1)]
    written = local(write_table(tmp_path / "t", fields, [pa.table({"id": [1, 2, 3]})]))
    metadata = written.rename(written.with_name("00001-a.metadata.json"))
    deleted = pa.table({"id": [2], "u": pa.nulls(1)}).select(list(compared))
    delete = write_equality_deletes(f"file://{tmp_path}/t/data/eq.parquet", deleted, compared)
    found = lakescan.table(commit_deletes(str(metadata), [delete])).scan().to_arrow()
    assert found["id"].to_pylist() == left


def test_all_compared_columns_must_match(table: Any) -> None:
    table.append(rows([1, 1, 2], ["a", "b", "a"]))
    deleted = rows([1, 2], ["a", "b"])
    found = lakescan.table(committed(table, by(deleted, id=1, name=2)).metadata_location).scan().to_arrow()
    assert sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == [(1, "b"), (2, "a")]


def test_delete_files_by_different_columns_apply_together(table: Any) -> None:
    table.append(rows([1, 2, 3], ["a", "b", "c"]))
    deletes = [by(pa.table({"id": pa.array([1], pa.int32())}), id=1), by(pa.table({"name": ["c"]}), name=2)]
    assert ids(committed(table, *deletes)) == [2]


def test_rows_written_with_or_after_the_delete_stay(table: Any) -> None:
    table.append(rows([1, 2], ["a", "b"]))
    static = committed(table, by(pa.table({"id": pa.array([1], pa.int32())}), id=1))
    folder = local(table.location()).parents[1]
    catalog = local_catalog(folder, "again")
    again = catalog.register_table("n.t", static.metadata_location)
    again.append(rows([1], ["new"]))
    assert ids(again) == [1, 2]


def test_compared_columns_need_not_be_selected(table: Any) -> None:
    table.append(rows([1, 2], ["a", "b"]))
    location = committed(table, by(pa.table({"id": pa.array([1], pa.int32())}), id=1)).metadata_location
    scan = lakescan.table(location).scan()
    assert scan.select("name").to_arrow()["name"].to_pylist() == ["b"]
    assert scan.where("name >= 'a'").select("name").to_arrow()["name"].to_pylist() == ["b"]


def test_a_filter_on_another_column_loses_no_delete(table: Any) -> None:
    table.append(rows([1, 2], ["a", "b"]))
    location = committed(table, by(pa.table({"id": pa.array([1], pa.int32())}), id=1)).metadata_location
    assert lakescan.table(location).scan().where("name = 'a'").to_arrow().num_rows == 0


def test_compared_columns_may_be_renamed_promoted_and_dropped_later(table: Any) -> None:
    from pyiceberg.types import LongType

    table.append(rows([1, 2, 3], ["a", "b", "c"]))
    deletes = [by(pa.table({"id": pa.array([1], pa.int32())}), id=1), by(pa.table({"name": ["c"]}), name=2)]
    static = committed(table, *deletes)
    folder = local(table.location()).parents[1]
    catalog = local_catalog(folder, "again")
    again = catalog.register_table("n.t", static.metadata_location)
    with again.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", LongType())
        update.rename_column("id", "key")
        update.delete_column("name")
    found = lakescan.table(again.metadata_location).scan().to_arrow()
    assert found.to_pydict() == {"key": [2]}


def test_a_delete_file_without_its_column_is_refused(table: Any) -> None:
    table.append(rows([1], ["a"]))

    def broken(path: str) -> DeleteFile:
        found = write_equality_deletes(path, pa.table({"id": pa.array([1], pa.int32())}), {"id": 1})
        pq.write_table(
            pa.table(
                {"other": [1]}, schema=pa.schema([pa.field("other", pa.int64(), metadata={"PARQUET:field_id": "9"})])
            ),
            local(path),
        )
        return found

    with pytest.raises(lakescan.CorruptMetadata, match="lacks the column 'id'"):
        ids(committed(table, broken))


def test_deletes_of_a_partition_do_not_apply_to_others(tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int32()), ("name", pa.string())]))
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    table.append(rows([1, 1, 2], ["a", "b", "a"]))

    def in_partition(path: str) -> DeleteFile:
        columns = pa.table({"id": pa.array([1], pa.int32())})
        return write_equality_deletes(path, columns, {"id": 1}, partition={"name": "a"}, spec_id=table.spec().spec_id)

    found = lakescan.table(committed(table, in_partition).metadata_location).scan().to_arrow()
    assert sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True)) == [(1, "b"), (2, "a")]


def test_deletes_of_an_older_spec_apply_only_to_files_of_that_spec(table: Any) -> None:
    """A global delete applies to every spec. A partition's delete does not apply to files of a later spec."""
    from pyiceberg.transforms import IdentityTransform

    table.append(rows([1, 2], ["a", "b"]))
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    table.append(rows([1, 2, 3], ["a", "b", "a"]))
    everywhere = by(pa.table({"id": pa.array([1], pa.int32())}), id=1)
    assert ids(committed(table, everywhere)) == [2, 2, 3]

    def inside(path: str) -> DeleteFile:
        key = pa.table({"id": pa.array([1, 2], pa.int32())})
        return write_equality_deletes(path, key, {"id": 1}, partition={"name": "b"}, spec_id=1)

    assert ids(committed(table, inside)) == [1, 1, 2, 3]


def test_deletes_that_cannot_touch_a_file_are_not_planned_for_it(table: Any) -> None:
    table.append(rows([1, 2], ["a", "b"]))
    table.append(rows([8, 9], ["y", "z"]))
    low, high = (number.to_bytes(4, "little") for number in (8, 8))

    def bounded(path: str) -> DeleteFile:
        key = pa.table({"id": pa.array([8], pa.int32())})
        return write_equality_deletes(path, key, {"id": 1}, bounds={1: (low, high)})

    location = committed(table, bounded).metadata_location
    plan = lakescan.table(location).scan().plan()
    assert sorted(plan.table.references.counts.tolist()) == [0, 1]
    assert sorted(lakescan.table(location).scan().to_arrow()["id"].to_pylist()) == [1, 2, 9]


def test_shared_keys_of_groups_are_decoded_once_per_process(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakescan.reading.deletes import equality_deletes as equality

    table.append(rows([1, 2], ["a", "b"]))
    location = committed(table, by(pa.table({"id": pa.array([2, 9], pa.int32())}), id=1)).metadata_location
    opened: list[str] = []

    def read(context: Any, file: lakescan.DeleteFile, schema: Any) -> Any:
        opened.append(file.location)
        return read_deleted_keys(context, file, schema)

    read_deleted_keys = equality.read_deleted_keys
    monkeypatch.setattr(equality, "read_deleted_keys", read)
    kept = equality.KEYS_AT_ONCE > 0
    for _ in range(3):
        assert lakescan.table(location).scan().to_arrow()["id"].to_pylist() == [1]
    assert len(opened) == (1 if kept else 3)


def test_keys_deleted_repeatedly_take_no_more_memory(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many commits that delete the same keys take one piece."""
    from lakescan.reading.deletes import equality_deletes as equality

    table.append(rows([1, 2, 3], ["a", "b", "c"]))
    again = by(pa.table({"id": pa.array([1, 2], pa.int32())}), id=1)
    location = committed(table, *[again] * 9).metadata_location
    monkeypatch.setattr(equality, "KEYS_AT_ONCE", 4)
    made: list[int] = []
    keys = equality._KeyBuffer.keys
    monkeypatch.setattr(equality._KeyBuffer, "keys", lambda self: made.append(self.rows) or keys(self))
    assert lakescan.table(location).scan().to_arrow()["id"].to_pylist() == [3]
    assert len(made) == 1
    assert made[0] <= 4


def test_the_memory_of_wide_keys_is_limited_by_bytes(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few long keys take as many pieces as many short keys."""
    from lakescan.reading.deletes import equality_deletes as equality

    names = [letter * 1000 for letter in "abcdefgh"]
    table.append(rows(list(range(8)), names))
    deletes = [by(pa.table({"name": [name, name]}), name=2) for name in names[:6]]
    location = committed(table, *deletes, deletes[0]).metadata_location
    monkeypatch.setattr(equality, "KEYS_AT_ONCE", 1 << 21)
    monkeypatch.setattr(equality, "BYTES_AT_ONCE", 4500)
    sizes: list[int] = []
    numbered = equality.DeletedKeyMap.build_index

    def measured(columns: Any, keys: Any, sequence: Any) -> Any:
        sizes.append(sum(each.nbytes for each in keys))
        return numbered(columns, keys, sequence)

    monkeypatch.setattr(equality.DeletedKeyMap, "build_index", measured)
    assert lakescan.table(location).scan().to_arrow()["id"].to_pylist() == [6, 7]
    assert len(sizes) > 2
    assert max(sizes) < 2 * 4500


def test_deletes_of_filtered_rows_are_skipped_only_while_reading(table: Any) -> None:
    table.append(rows([1, 2, 8, 9, None], ["a", "b", "y", "z", "n"]))

    def bounded(path: str) -> DeleteFile:
        ends = (number.to_bytes(4, "little") for number in (2, 2))
        return write_equality_deletes(
            path, pa.table({"id": pa.array([2], pa.int32())}), {"id": 1}, bounds={1: (*ends,)}
        )

    of_all_else = by(pa.table({"id": pa.array([8], pa.int32()), "name": ["y"]}), id=1, name=2)
    location = committed(table, bounded, of_all_else).metadata_location
    scan = lakescan.table(location).scan()

    def counts(scan: lakescan.Scan) -> list[int]:
        return [spec.plan().deletes.num_rows for spec in (scan.spec, scan.spec.prune_deletes())]

    assert counts(scan) == [2, 2]
    assert counts(scan.where("id > 5")) == [2, 1]
    assert counts(scan.where("id < 5")) == [2, 2]
    assert counts(scan.where("name = 'a'")) == [2, 2]
    assert counts(scan.where("id IS NULL")) == [2, 2]  # the file does not count its null keys
    assert counts(scan.where("id > 5").ignore_residuals()) == [2, 2]
    assert counts(scan.where("id > 5").select("id", "_deleted")) == [2, 2]
    assert scan.where("id > 5").to_arrow()["id"].to_pylist() == [9]
    assert scan.where("id < 5").to_arrow()["id"].to_pylist() == [1]
    assert scan.where("id > 5").count() == 1
    assert (scan.where("id > 5").min("id"), scan.where("id > 5").max("id")) == (9, 9)


def test_plans_report_the_deletes_that_the_filter_excludes(table: Any) -> None:
    """The deletes have the keys 0 to 9, 30 to 39 and 60 to 69."""
    table.append(rows(list(range(100)), ["a"] * 100))

    def keys(first: int) -> Callable[[str], DeleteFile]:
        ends = tuple(number.to_bytes(4, "little") for number in (first, first + 9))
        ids = pa.table({"id": pa.array(range(first, first + 10), pa.int32())})
        return lambda path: write_equality_deletes(path, ids, {"id": 1}, bounds={1: ends})

    scan = lakescan.table(committed(table, keys(0), keys(30), keys(60)).metadata_location).scan()
    for condition, planned in {
        "id = 35": 1,
        "id = 15": 0,
        "id < 5 or id > 65": 2,
        "id in (3, 33, 63)": 3,
        "name = 'a'": 3,
    }.items():
        metrics = scan.where(condition).plan().report.metrics
        assert (metrics.result_delete_files, metrics.skipped_delete_files) == (planned, 3 - planned), condition
        parts = list(scan.where(condition).plan_parts())
        assert sum(part.report.metrics.result_delete_files for part in parts) == planned


@settings(max_examples=12)
@given(
    files=st.lists(
        st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 3)), max_size=4), min_size=1, max_size=3
    ),
    deletes=st.lists(
        st.tuples(st.lists(st.none() | st.integers(0, 9), min_size=1, max_size=3), st.booleans()), max_size=3
    ),
    condition=st.sampled_from(
        ["id > 4", "id = 3", "id IS NULL", "id IS NOT NULL", "n < 2", "id > 4 AND n = 1", "id IN (1, 7)", "NOT id = 3"]
    ),
)
def test_a_filter_gives_what_it_gives_after_a_full_scan(
    files: list[Any], deletes: list[Any], condition: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    import duckdb

    catalog = local_catalog(tmp_path_factory.mktemp("law"))
    table = catalog.create_table("n.t", pa.schema([("id", pa.int32()), ("n", pa.int32())]))
    for some in files:
        columns = [pa.array([row[n] for row in some], pa.int32()) for n in (0, 1)]
        table.append(pa.table(columns, names=["id", "n"]))
    location = table.metadata_location
    for number, (keys, recorded) in enumerate(deletes):
        known = [key for key in keys if key is not None]
        more: dict[str, Any] = {}
        if recorded and known:
            more["bounds"] = {1: tuple(end.to_bytes(4, "little") for end in (min(known), max(known)))}
        path = f"{table.location()}/data/eq-{number}.parquet"
        found = write_equality_deletes(path, pa.table({"id": pa.array(keys, pa.int32())}), {"id": 1}, **more)
        location = commit_deletes(location, [found])
    scan = lakescan.table(location).scan()
    expected = duckdb.from_arrow(scan.to_arrow()).filter(condition).to_arrow_table()
    found, wanted = (sorted(map(str, each.to_pylist())) for each in (scan.where(condition).to_arrow(), expected))
    assert found == wanted
