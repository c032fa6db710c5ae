"""Written deletion vectors delete the requested rows, and the rows that were already deleted."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64
from samples.delta_deletes import commit_vectors, inline_vector, stored_vector

import lakescan
from lakescan.delta.data_files import deletion_vector_writer as vector_files
from lakescan.delta.data_files.deletion_vector_writer import VectorWriter
from lakescan.delta.scan.deletion_vectors import decode_z85, encode_z85
from lakescan.errors import CorruptData, StorageError
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage
from lakescan.tables.row_changes import RowChanges, RowLevelCommand
from lakescan.writing.table_writes import WrittenDeletes
from tests.support.delta_state import added, commit, first_actions

ROWS = 20


def table(folder: Path, names: tuple[str, ...] = ("a", "b")) -> Path:
    """Make a table of files with `ROWS` rows each, numbered consecutively."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, name in enumerate(names):
        rows = pa.table({"n": pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())})
        pq.write_table(rows, folder / name)
        size = (folder / name).stat().st_size
        files.append(added(name, size=size, stats=f'{{"numRecords":{ROWS}}}'))
    commit(
        folder, *first_actions({"n": "long"}, (), {"delta.enableDeletionVectors": "true"}, ["deletionVectors"]), *files
    )
    return folder


def write(
    folder: Path, positions: dict[str, list[int]], storage: Storage | None = None, **options: Any
) -> list[WrittenDeletes]:
    """Write vectors for files of the newest version, and commit them."""
    files, rows = base(folder, positions)
    writer = VectorWriter(str(folder), storage or Storage(), "write", **options)
    written = writer.write(files, rows)
    target = lakescan.table(folder)._target(WriteOptions())
    target.change(RowChanges(RowLevelCommand.DELETE, None, deletes=written))
    return written


def base(folder: Path, positions: dict[str, list[int]]) -> tuple[FileTable, list[BitMap64]]:
    """Return the files with these names, and the positions for each."""
    table = lakescan.table(folder).scan().plan().table
    names = [path.rsplit("/", 1)[-1] for path in table.files["path"].to_pylist()]
    return table.take(pa.array([names.index(name) for name in positions])), [BitMap64(p) for p in positions.values()]


def cardinalities(written: list[WrittenDeletes]) -> list[int]:
    return [each.details["vector"]["cardinality"] for each in written]


def numbers(folder: Path) -> list[int]:
    found: list[int] = sorted(lakescan.table(folder).scan().to_arrow()["n"].to_pylist())
    return found


def test_rows_are_deleted_by_a_vector(tmp_path: Path) -> None:
    written = write(table(tmp_path), {"a": [19, 3, 3], "b": [0]})
    assert numbers(tmp_path) == [n for n in range(40) if n not in (3, 19, 20)]
    assert [each.rows for each in written] == [2, 1]
    assert cardinalities(written) == [2, 1]


def test_a_vector_keeps_the_deletes_of_the_previous_one(tmp_path: Path) -> None:
    write(table(tmp_path), {"a": [1, 2]})
    second = write(tmp_path, {"a": [2, 3], "b": [0]})
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 2, 3, 20)]
    assert [each.rows for each in second] == [1, 1]
    assert cardinalities(second) == [3, 1]


@pytest.mark.parametrize("kind", ["inline", "relative", "below a prefix", "absolute"])
def test_deletes_are_added_to_a_vector_of_any_kind(tmp_path: Path, kind: str) -> None:
    table(tmp_path)
    match kind:
        case "inline":
            vector = inline_vector([1, 2])
        case "below a prefix":
            vector = stored_vector(tmp_path, [1, 2], "xy")
        case _:
            vector = stored_vector(tmp_path, [1, 2])
    if kind == "absolute":
        vector |= {"storageType": "p", "pathOrInlineDv": str(next(tmp_path.glob("*.bin")))}
    commit_vectors(tmp_path, {"a": vector})
    (written,) = write(tmp_path, {"a": [2, 3]})
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 2, 3)]
    assert (written.rows, cardinalities([written])) == (1, [3])


def test_the_rows_of_a_file_without_statistics_are_counted(tmp_path: Path) -> None:
    log = table(tmp_path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"stats"', '"other"'))
    with pytest.raises(CorruptData, match="has 20 rows"):
        write(tmp_path, {"a": [ROWS]})
    (written,) = VectorWriter(str(tmp_path), Storage(), "write").write(*base(tmp_path, {"a": [19]}))
    assert written.details["records"] == ROWS


def test_other_readers_read_the_vectors(tmp_path: Path) -> None:
    write(table(tmp_path), {"a": list(range(19)), "b": [5]})
    found = pa.table(DeltaTable(tmp_path).deletion_vectors().read_all()).to_pylist()
    kept = {each["filepath"].rsplit("/", 1)[-1]: each["selection_vector"] for each in found}
    assert [n for n, is_kept in enumerate(kept["a"]) if not is_kept] == list(range(19))
    assert [n for n, is_kept in enumerate(kept["b"]) if not is_kept] == [5]


def test_all_vectors_are_in_one_file_below_a_random_prefix(tmp_path: Path) -> None:
    written = write(table(tmp_path), {"a": [1], "b": [2]}, prefix_length=2)
    name = r".*/[0-9A-Za-z]{2}/deletion_vector_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.bin"
    assert len({each.location for each in written}) == 1
    assert re.fullmatch(name, written[0].location)
    assert Path(written[0].location).read_bytes()[0] == 1
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 22)]


def test_vectors_that_are_too_large_for_a_file_are_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files, "_MOST", 1)
    written = write(table(tmp_path), {"a": [1], "b": [2]})
    assert len({each.location for each in written}) == 2
    assert numbers(tmp_path) == [n for n in range(40) if n not in (1, 22)]


def test_a_file_that_loses_no_row_has_no_new_vector(tmp_path: Path) -> None:
    write(table(tmp_path), {"a": [1, 2]})
    writer = VectorWriter(str(tmp_path), Storage(), "again")
    (written,) = writer.write(*base(tmp_path, {"a": [1], "b": [7]}))
    assert (Path(written.path).name, cardinalities([written])) == ("b", [1])
    assert len(list(tmp_path.glob("*.bin"))) == 2
    assert writer.write(*base(tmp_path, {"a": [2], "b": []})) == []
    assert len(list(tmp_path.glob("*.bin"))) == 2


def test_a_writer_removes_only_its_own_files(tmp_path: Path) -> None:
    table(tmp_path)
    mine, other = (VectorWriter(str(tmp_path), Storage(), each, 2) for each in ("mine", "other"))
    in_worker = pickle.loads(pickle.dumps(mine))
    in_worker.write(*base(tmp_path, {"a": [1]}))
    mine.write(*base(tmp_path, {"b": [1]}))
    (kept,) = other.write(*base(tmp_path, {"b": [1]}))
    assert not mine.remove_written()
    assert list(tmp_path.rglob("*.bin")) == [Path(kept.location)]


def test_a_row_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(CorruptData, match="row 20"):
        write(table(tmp_path), {"a": [1], "b": [ROWS]})
    assert not list(tmp_path.glob("*.bin"))


def test_a_file_with_more_rows_than_recorded_is_not_emptied(tmp_path: Path) -> None:
    log = table(tmp_path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('numRecords\\":20', 'numRecords\\":19'))
    with pytest.raises(CorruptData, match="has 20 rows, but the table's metadata records 19"):
        write(tmp_path, {"a": list(range(19))})
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
    gone: set[int] = set()
    for step in steps:
        if len(gone) < ROWS:
            written = write(folder, {"a": sorted(step)})
            assert [each.rows for each in written] == ([len(step - gone)] if step - gone else [])
            gone |= step
    assert numbers(folder) == [n for n in range(ROWS) if n not in gone]
