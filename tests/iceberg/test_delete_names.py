"""A position delete finds its data file however the path is spelled; an ambiguous path is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile
from samples.iceberg_deletes import commit_deletes, write_deletion_vectors, write_position_deletes

import lakescan
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.reading.deletes.deletion_vectors import bitmap_of
from lakescan.reading.deletes.positions_by_file import PositionsByFile
from lakescan.storage.locations import LocationMatcher
from tests.iceberg.test_delete_index import SCHEMA, bounds, positions, row, vector
from tests.support.catalog import local_catalog

SPELLINGS: dict[str, Callable[[str], str]] = {
    "a scheme": lambda path: f"file:{path}",
    "a scheme and a host": lambda path: f"file://localhost{path}",
    "a scheme in capitals": lambda path: f"FILE:{path}",
    "two slashes": lambda path: path.replace("/data/", "//data//"),
    "dots": lambda path: path.replace("/data/", "/./data/x/../"),
}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Make two files of five numbers each: 0 to 4, 10 to 14. Their paths in manifests begin with `file://`."""
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    for start in (0, 10):
        made.append(pa.table({"n": range(start, start + 5)}))
    return made


def first_file(table: Any) -> str:
    """Return the data file of the numbers from 0, as a plain path."""
    tasks = table.scan(row_filter="n < 5").plan_files()
    return str(next(iter(tasks)).file.file_path).removeprefix("file://")


def with_positions(table: Any, named: list[tuple[str, int]], **entry: Any) -> str:
    folder = table.location().removeprefix("file://")
    return commit_deletes(table.metadata_location, [write_position_deletes(f"{folder}/data/d.parquet", named, **entry)])


def numbers(scan: lakescan.Scan) -> list[int]:
    return sorted(scan.to_arrow()["n"].to_pylist())


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("is_referenced", [True, False])
def test_a_delete_in_another_spelling_applies(table: Any, spelling: str, is_referenced: bool) -> None:
    name = SPELLINGS[spelling](first_file(table))
    more = {"referenced_data_file": name} if is_referenced else {}
    scan = lakescan.table(with_positions(table, [(name, 0), (name, 3)], **more)).scan()
    assert numbers(scan) == [1, 2, 4, 10, 11, 12, 13, 14]
    assert numbers(scan.where("n < 3")) == [1, 2]
    assert scan.count() == 8
    assert "by another spelling" in scan.explain()


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_vector_in_another_spelling_applies(table: Any, spelling: str) -> None:
    name = SPELLINGS[spelling](first_file(table))
    folder = table.location().removeprefix("file://")
    made = write_deletion_vectors(f"{folder}/data/v.puffin", {name: [1]})
    scan = lakescan.table(commit_deletes(table.metadata_location, made, format_version=3)).scan()
    assert numbers(scan) == [0, 2, 3, 4, 10, 11, 12, 13, 14]
    assert scan.plan().report.metrics.respelled_delete_files == 1


def test_relocation_maps_names_of_other_hosts_to_the_same_location(table: Any) -> None:
    folder = table.location().removeprefix("file://")
    location = with_positions(table, [(f"hdfs://host:20500/old{first_file(table).removeprefix(folder)}", 2)])
    assert len(numbers(lakescan.table(location).scan())) == 10
    assert numbers(lakescan.table(location, relocate={"hdfs://host:20500/old": folder}).scan()) == [
        0,
        1,
        3,
        4,
        *range(10, 15),
    ]


def test_a_delete_of_an_unknown_file_is_counted(table: Any) -> None:
    location = with_positions(table, [("/gone.parquet", 0)], referenced_data_file="/gone.parquet")
    scan = lakescan.table(location).scan()
    assert len(numbers(scan)) == 10
    assert scan.plan().report.metrics.dangling_delete_files == 1
    assert "refer to no data file" in scan.explain()
    assert scan.where("n < 5").plan().report.metrics.dangling_delete_files == 0


def test_delete_rows_of_unknown_files_are_counted_in_the_explanation(table: Any) -> None:
    location = with_positions(table, [(f"file://{first_file(table)}", 0), ("/gone.parquet", 0), ("/gone.parquet", 1)])
    assert "2 rows refer to no data file of the table" in lakescan.table(location).scan().explain()


def also_listed_as(table: Any, name: str) -> None:
    """List the first data file a second time, under another name."""
    known = next(iter(table.scan(row_filter="n < 5").plan_files())).file
    again = DataFile.from_args(
        content=known.content,
        file_path=name,
        file_format=known.file_format,
        partition=known.partition,
        record_count=known.record_count,
        file_size_in_bytes=known.file_size_in_bytes,
    )
    with table.transaction() as changes, changes.update_snapshot().fast_append() as files:
        files.append_data_file(again)


def test_a_file_that_is_listed_twice_loses_its_deleted_rows_twice(table: Any) -> None:
    name = f"file://{first_file(table)}"
    also_listed_as(table, name)
    for more in ({}, {"referenced_data_file": name}):
        scan = lakescan.table(with_positions(table, [(name, 0)], **more)).scan()
        assert numbers(scan) == [1, 1, 2, 2, 3, 3, 4, 4, 10, 11, 12, 13, 14]
        assert scan.count() == 13


def test_a_delete_applies_to_the_exactly_named_file_of_two_at_one_location(table: Any) -> None:
    plain = first_file(table)
    also_listed_as(table, plain)
    for more in ({}, {"referenced_data_file": plain}):
        scan = lakescan.table(with_positions(table, [(plain, 0)], **more)).scan()
        assert numbers(scan) == [0, 1, 1, 2, 2, 3, 3, 4, 4, 10, 11, 12, 13, 14]


def test_an_ambiguous_delete_is_refused(table: Any) -> None:
    plain = first_file(table)
    also_listed_as(table, plain)
    for more in ({}, {"referenced_data_file": f"file:{plain}"}):
        with pytest.raises(UnsupportedFeature, match="may mean"):
            lakescan.table(with_positions(table, [(f"file:{plain}", 0)], **more)).scan().to_arrow()


def test_two_names_of_one_location_in_separate_plans_are_refused(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    also_listed_as(table, first_file(table))
    monkeypatch.setattr("lakescan.iceberg.scan.snapshot_scan._NAMED_TOGETHER", 1)
    monkeypatch.setattr("lakescan.iceberg.manifests.manifest_reader._BATCH_MANIFESTS", 1)
    with pytest.raises(UnsupportedFeature, match="two names"):
        lakescan.table(with_positions(table, [("/gone.parquet", 0)])).scan().to_arrow()


def test_changes_are_found_with_another_spelling(table: Any) -> None:
    known = table.current_snapshot().snapshot_id
    location = with_positions(table, [(f"file:{first_file(table)}", 4)])
    scan = lakescan.table(location).changes(known)
    assert scan.to_arrow().select(["n", "_change_type"]).to_pylist() == [{"n": 4, "_change_type": "DELETE"}]


names = st.sampled_from(["/t/a", "file:/t/a", "/t//a", "s3://b/x", "s3a://b/x", "s3n://b//x", "/t/c", "hdfs://h/t/c"])


@given(st.lists(names, min_size=1, max_size=4), names, st.sampled_from(["referenced", "bounds", "vector", "several"]))
def test_the_index_follows_the_rule_for_names(files: list[str], name: str, how: str) -> None:
    """Files with exactly that name; else files at the same path with one name. Several names exclude none."""
    places = LocationMatcher(home="hdfs://h/t")
    where = {each: places.canonicalize(pa.array([each]))[0].as_py() for each in {*files, name}}
    delete = {
        "referenced": positions("d", 2, referenced_data_file=name),
        "bounds": positions("d", 2, stats=bounds(name, name)),
        "vector": vector("d", 2, of=name),
        "several": positions("d", 2, stats=bounds(min(name, "/zz"), max(name, "/zz"))),
    }[how]
    index = DeleteIndex.build(pa.Table.from_pylist([delete], schema=SCHEMA), frozenset(), {}, places)
    data = pa.Table.from_pylist([row(path, 1) for path in files], schema=SCHEMA)
    alike = {path for path in files if where[path] == where[name]}
    expected = {name} if name in files else alike
    if how == "several":
        found = (index.match(data).counts > 0).tolist()
        assert all(hit for path, hit in zip(files, found, strict=True) if path in expected)
    elif len(expected) > 1:
        with pytest.raises(UnsupportedFeature, match="may mean"):
            index.match(data)
    else:
        assert (index.match(data).counts > 0).tolist() == [path in expected for path in files]
        assert index.dangling == (not expected)


@given(st.dictionaries(names, st.integers(0, 50), max_size=5), st.lists(names, min_size=1, max_size=3, unique=True))
def test_positions_of_all_names_of_a_location_are_combined(deleted: dict[str, int], files: list[str]) -> None:
    places = LocationMatcher()
    where = {each: places.canonicalize(pa.array([each]))[0].as_py() for each in {*files, *deleted}}
    found = PositionsByFile({n: bitmap_of(pa.array([p]).to_numpy()) for n, p in deleted.items()}, places)
    for path in files:
        others = [f for f in files if f != path and where[f] == where[path]]
        alike = [n for n in deleted if n not in files and where[n] == where[path]]
        if alike and others:
            with pytest.raises(UnsupportedFeature, match="may mean"):
                found.other_spellings(path, where[path], others)
            continue
        expected = {deleted[n] for n in [path, *alike] if n in deleted}
        assert set(found.positions_of([path, *found.other_spellings(path, where[path], others)])) == expected
