"""Deletion vectors that are written delete the rows that they are asked to, and those that were deleted before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.delta.commit import vector_files
from lakescan.delta.commit.vector_files import WrittenVectors, write_vectors
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.scan.deletion_vectors import decode_z85, encode_z85
from lakescan.errors import CorruptData, StorageError
from lakescan.storage import Storage
from tests.support.delta_state import added, commit, created, removed

ROWS = 20


def table(folder: Path, names: tuple[str, ...] = ("a", "b")) -> Path:
    """A table of files with `ROWS` rows each, numbered on."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, name in enumerate(names):
        rows = pa.table({"n": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
        pq.write_table(rows, folder / name)
        size = (folder / name).stat().st_size
        files.append(added(name, size=size, stats=f'{{"numRecords":{ROWS}}}'))
    commit(folder, *created({"n": "long"}, (), {"delta.enableDeletionVectors": "true"}, ["deletionVectors"]), *files)
    return folder


def write(
    folder: Path, positions: dict[str, list[int]], vectors: dict[str, Any] | None = None, **options: Any
) -> WrittenVectors:
    """Write vectors, and commit them."""
    old = [(vectors or {}).get(name) for name in positions]
    columns = {"path": list(positions), "rows": [ROWS] * len(positions), "vector": pa.array(old, VECTOR)}
    written = write_vectors(str(folder), pa.table(columns), [np.array(p) for p in positions.values()], **options)
    actions = []
    for name, before, after in zip(positions, old, written.descriptors.to_pylist(), strict=True):
        members = {"size": (folder / name).stat().st_size, "stats": f'{{"numRecords":{ROWS}}}'}
        actions.append(removed(name, 1, **({"deletionVector": before} if before else {})))
        actions.append(added(name, **members, deletionVector=after))
    commit(folder, *actions)
    return written


def numbers(folder: Path) -> list[int]:
    found: list[int] = sorted(lakescan.table(folder).scan().to_arrow()["n"].to_pylist())
    return found


def test_rows_are_deleted_by_a_vector(tmp_path: Path) -> None:
    written = write(table(tmp_path), {"a": [19, 3, 3], "b": [0]}, storage=Storage())
    assert numbers(tmp_path) == [n for n in range(40) if n not in (3, 19, 20)]
    assert written.deleted.tolist() == [2, 1]
    assert [each["cardinality"] for each in written.descriptors.to_pylist()] == [2, 1]


def test_a_vector_keeps_what_the_one_before_deleted(tmp_path: Path) -> None:
    first = write(table(tmp_path), {"a": [1, 2]}, storage=Storage())
    old = dict(zip(["a"], first.descriptors.to_pylist(), strict=True))
    second = write(tmp_path, {"a": [2, 3], "b": [0]}, old, storage=Storage())
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 2, 3, 20)]
    assert second.deleted.tolist() == [1, 1]
    assert second.descriptors[0].as_py()["cardinality"] == 3


def test_other_readers_read_them(tmp_path: Path) -> None:
    write(table(tmp_path), {"a": list(range(19)), "b": [5]}, storage=Storage())
    found = pa.table(DeltaTable(tmp_path).deletion_vectors().read_all()).to_pylist()
    kept = {each["filepath"].rsplit("/", 1)[-1]: each["selection_vector"] for each in found}
    assert [n for n, is_kept in enumerate(kept["a"]) if not is_kept] == list(range(19))
    assert [n for n, is_kept in enumerate(kept["b"]) if not is_kept] == [5]


def test_all_vectors_are_in_one_file_below_the_prefix(tmp_path: Path) -> None:
    written = write(table(tmp_path), {"a": [1], "b": [2]}, storage=Storage(), prefix="xy")
    name = r".*/xy/deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin"
    assert [re.fullmatch(name, each) is not None for each in written.locations] == [True]
    assert Path(written.locations[0]).read_bytes()[0] == 1
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 22)]


def test_vectors_that_are_too_large_for_a_file_are_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "_MOST", 1)
    written = write(table(tmp_path), {"a": [1], "b": [2]}, storage=Storage())
    assert len(written.locations) == 2
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 22)]


def test_a_file_without_deleted_rows_gets_no_vector(tmp_path: Path) -> None:
    files = pa.table({"path": ["a", "b"], "rows": [ROWS] * 2, "vector": pa.nulls(2, VECTOR)})
    written = write_vectors(str(tmp_path), files, [np.array([]), np.array([7])], Storage())
    assert [each and each["cardinality"] for each in written.descriptors.to_pylist()] == [None, 1]
    assert write_vectors(str(tmp_path), files, [np.array([])] * 2, Storage()).locations == []


def test_a_row_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CorruptData, match="row 20"):
        write(table(tmp_path), {"a": [1], "b": [ROWS]}, storage=Storage())
    assert not list(tmp_path.glob("*.bin"))


def test_nothing_is_left_of_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "_MOST", 1)
    table(tmp_path)
    storage, create, made = Storage(), Storage.create, []

    def second_fails(self: Storage, location: str) -> Any:
        made.append(location)
        if len(made) > 1:
            raise StorageError("no space")
        return create(self, location)

    monkeypatch.setattr(Storage, "create", second_fails)
    with pytest.raises(StorageError, match="no space"):
        write(tmp_path, {"a": [1], "b": [2]}, storage=storage)
    assert not list(tmp_path.glob("*.bin"))


def test_the_base85_of_a_uuid_is_that_of_the_protocol() -> None:
    text, identity = "ab^-aqEH.-t@S}K{vb[*k^", "d2c639aa8816431aaaf6d3fe2512ff61"
    assert encode_z85(bytes.fromhex(identity)) == text[2:]


@given(words=st.lists(st.binary(min_size=4, max_size=4)))
def test_base85_is_read_back(words: list[bytes]) -> None:
    assert decode_z85(encode_z85(b"".join(words)).encode()) == b"".join(words)


@settings(max_examples=25)
@given(steps=st.lists(st.sets(st.integers(0, ROWS - 1)), min_size=1, max_size=4))
def test_deletes_add_up(tmp_path_factory: pytest.TempPathFactory, steps: list[set[int]]) -> None:
    folder = table(tmp_path_factory.mktemp("t"), ("a",))
    old: dict[str, Any] = {}
    gone: set[int] = set()
    for step in steps:
        written = write(folder, {"a": sorted(step)}, old, storage=Storage())
        assert written.deleted.tolist() == [len(step - gone)]
        old, gone = {"a": written.descriptors[0].as_py()}, gone | step
    assert numbers(folder) == [n for n in range(ROWS) if n not in gone]
