"""DELETE, UPDATE and MERGE of Iceberg tables: the resulting rows and files, and the conflicts."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from samples.iceberg_deletes import local as local_path
from samples.iceberg_deletes import write_position_deletes

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import CorruptData, StorageError, UnsupportedFeature
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.tables.row_changes import RowLevelCommand, RowLevelOperationMode
from tests.support import row_changes, row_deltas
from tests.support.row_changes import COPY_ON_WRITE, MERGE_ON_READ, begin_change, change, planned_files
from tests.tables.support import Row, maker, now, pairs, rows

A, B = [(1, "a"), (2, "a"), (3, "a"), (4, "a")], [(5, "b"), (6, "b"), (7, "b"), (8, "b")]
NO_OPTIONS = WriteOptions()


@pytest.fixture(params=["1", "2", "3"])
def version(request: pytest.FixtureRequest) -> str:
    """A format version; version 1 has no deletes, so statements copy on write there."""
    return str(request.param)


@pytest.fixture(params=["2", "3"])
def with_deletes(request: pytest.FixtureRequest) -> str:
    """A format version that has deletes by position."""
    return str(request.param)


def create(local: lakescan.Catalog, version: str, *, by: tuple[str, ...] = ("part",), **properties: str) -> None:
    """Make a table with one file of `A` and one of `B`."""
    own = {} if version == "1" else MERGE_ON_READ
    maker(f"iceberg version {version}", local)(partition_by=by, properties={**own, **properties})
    now().append(rows(*A))
    now().append(rows(*B))


def without(*ids: int) -> list[Row]:
    return [row for row in [*A, *B] if row[0] not in ids]


def check(expected: list[Row], *, by_pyiceberg: bool = True) -> None:
    """Check that every reader sees these rows; pyiceberg reads no vectors."""
    assert pairs() == sorted(expected)
    assert now().scan().where("id >= 3").count() == sum(row[0] >= 3 for row in expected)
    if by_pyiceberg and row_deltas.commit_base().format_version < 3:
        found = connection("local").load_table("db.t").scan().to_arrow().to_pylist()
        assert sorted((row["id"], row["part"]) for row in found) == sorted(expected)


def summary() -> Mapping[str, str]:
    """Return the summary of the newest snapshot."""
    names = ("-data-files", "-delete-files", "-dvs", "-deletes")
    return {
        name: number
        for name, number in row_deltas.head_snapshot().summary.items()
        if name.startswith(("added-", "removed-", "deleted-")) and name.endswith(names)
    }


def files_in(folder: Path) -> set[str]:
    return {each.name for each in folder.rglob("*") if each.suffix in (".parquet", ".puffin")}


# How changes are recorded


@pytest.mark.parametrize("statement", list(RowLevelCommand))
def test_the_mode_is_the_option_or_the_property_or_copy_on_write(statement, local) -> None:
    local.create_table("db.plain", "id BIGINT")
    local.create_table("db.merged", "id BIGINT", properties={f"write.{statement}.mode": "Merge-On-Read"})

    def mode(name: str, **options: str) -> RowLevelOperationMode:
        return lakescan.table(f"local.db.{name}")._target(WriteOptions.parse(options, "iceberg")).mode_of(statement)

    assert (mode("plain"), mode("merged")) == (RowLevelOperationMode.COPY_ON_WRITE, RowLevelOperationMode.MERGE_ON_READ)
    assert mode("plain", row_change_mode="merge-on-read") == RowLevelOperationMode.MERGE_ON_READ
    assert mode("merged", row_change_mode="copy-on-write") == RowLevelOperationMode.COPY_ON_WRITE
    assert (
        lakescan.table("local.db.merged")._target(NO_OPTIONS).mode_of(other_than(statement))
        == RowLevelOperationMode.COPY_ON_WRITE
    )


def other_than(statement: RowLevelCommand) -> RowLevelCommand:
    return next(each for each in RowLevelCommand if each != statement)


def test_version_1_has_no_deletes(local) -> None:
    create(local, "1")
    target = now()._target(WriteOptions.parse({"row-change-mode": "merge-on-read"}, "iceberg"))
    with pytest.raises(UnsupportedFeature, match=r"merge-on-read in .*, of format version 1.*copy-on-write"):
        target.mode_of(RowLevelCommand.DELETE)
    with pytest.raises(UnsupportedFeature, match=r"deletes by position in .*, of format version 1"):
        target.delete_writer("w")


# Rows


@pytest.mark.parametrize("by", [(), ("part",), ("bucket(4, id)",)], ids=str)
def test_some_rows_of_a_file_are_deleted(version, by, local) -> None:
    create(local, version, by=by)
    change("delete", "id IN (2, 7)")
    check(without(2, 7))
    change("delete", "id IN (3, 5)")
    check(without(2, 3, 5, 7))


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_updates_replace_rows(version, mode, local) -> None:
    if (version, mode) == ("1", "merge-on-read"):
        return
    create(local, version)
    change("update", "id = 2", [(2, "b")], row_change_mode=mode)
    check([*without(2), (2, "b")])
    change("update", "id IN (2, 8)", [(2, None), (80, "b")], row_change_mode=mode)
    check([*without(2, 8), (2, None), (80, "b")])


@pytest.mark.parametrize(
    ("where", "new", "options", "operation"),
    [
        ("id = 2", [], {}, "delete"),
        ("part = 'a'", [], {}, "delete"),
        ("id < 6", [], {}, "delete"),
        ("id = 2", [(2, "z")], {}, "overwrite"),
        ("part = 'a'", [(2, "z")], {}, "overwrite"),
        (None, [(9, "z")], {}, "append"),
        ("id = 2", [], {"row_change_mode": COPY_ON_WRITE}, "overwrite"),
        ("part = 'a'", [], {"row_change_mode": COPY_ON_WRITE}, "delete"),
    ],
)
def test_the_operation_of_the_snapshot_equals_that_of_java(where, new, options, operation, local) -> None:
    create(local, "2")
    change("merge", where, new, **options)
    assert row_deltas.head_snapshot().operation == operation


def test_files_that_lose_all_rows_are_removed_whole_with_their_deletes(version, local) -> None:
    """Deletes that apply only to removed files would be dangling; other deletes stay."""
    create(local, version)
    change("delete", "id IN (1, 6)")
    change("delete", "id < 6")
    check(without(1, 2, 3, 4, 5, 6))
    by_position = {"2": "added-position-delete-files", "3": "added-dvs"}
    if version != "1":
        assert summary()["deleted-data-files"] == "1"
        assert summary()[by_position[version]] == "1"
        assert summary()["removed-delete-files"] == "2"  # the delete file of the removed file, and the replaced one
        assert row_deltas.head_snapshot().summary["total-delete-files"] == "1"
        assert row_deltas.head_snapshot().summary["total-position-deletes"] == "2"


def test_deletes_of_rewritten_files_are_removed(with_deletes, local) -> None:
    create(local, with_deletes)
    change("delete", "id IN (1, 6)")
    change("update", "id = 2", [(2, "b")], row_change_mode=COPY_ON_WRITE)
    check([*without(1, 2, 6), (2, "b")])
    assert summary()["removed-delete-files"] == "1"
    assert now().inspect("delete_files").num_rows == 1


def test_a_change_without_deleted_rows_only_adds_rows(version, local) -> None:
    create(local, version)
    change("merge", None, [(9, "b")])
    check([*without(), (9, "b")])


# Delete files


def test_vectors_are_in_one_file_and_replace_older_ones(local) -> None:
    create(local, "3")
    change("delete", "id IN (2, 7)")
    assert summary() == {"added-delete-files": "2", "added-dvs": "2", "added-position-deletes": "2"}
    [first] = {each["file_path"] for each in now().inspect("delete_files").to_pylist()}
    change("delete", "id = 3")
    assert summary() == {
        "added-delete-files": "1",
        "added-dvs": "1",
        "added-position-deletes": "2",
        "removed-delete-files": "1",
        "removed-dvs": "1",
        "removed-position-deletes": "1",
    }
    counts = {each["file_path"] == first: each["record_count"] for each in now().inspect("delete_files").to_pylist()}
    assert counts == {True: 1, False: 2}


def test_a_puffin_file_describes_its_blobs(local) -> None:
    create(local, "3")
    change("delete", "id IN (2, 7)")
    entries = now().inspect("delete_files").to_pylist()
    data = local_path(entries[0]["file_path"]).read_bytes()
    assert len(data) == entries[0]["file_size_in_bytes"]
    assert (data[:4], data[-4:], data[-8:-4]) == (b"PFA1", b"PFA1", bytes(4))
    length = int.from_bytes(data[-12:-8], "little")
    footer = json.loads(data[-12 - length : -12])
    found = {each["properties"]["referenced-data-file"]: (each["offset"], each["length"]) for each in footer["blobs"]}
    assert found == {
        each["referenced_data_file"]: (each["content_offset"], each["content_size_in_bytes"]) for each in entries
    }
    assert {each["type"] for each in footer["blobs"]} == {"deletion-vector-v1"}


def test_position_deletes_by_file_replace_older_ones(local) -> None:
    create(local, "2")
    change("delete", "id IN (2, 7)")
    assert summary() == {
        "added-delete-files": "2",
        "added-position-delete-files": "2",
        "added-position-deletes": "2",
    }
    change("delete", "id IN (1, 3)")
    assert summary() == {
        "added-delete-files": "1",
        "added-position-delete-files": "1",
        "added-position-deletes": "3",
        "removed-delete-files": "1",
        "removed-position-delete-files": "1",
        "removed-position-deletes": "1",
    }
    check(without(1, 2, 3, 7))


def test_a_position_delete_file_is_sorted_and_names_its_data_file(local) -> None:
    create(local, "2")
    change("delete", "id IN (4, 2)")
    [entry] = now().inspect("delete_files").to_pylist()
    path = next(iter(row_deltas.positions_of("id = 1")))
    assert entry["referenced_data_file"] == path
    bounds = dict(entry["lower_bounds"]), dict(entry["upper_bounds"])
    assert [each[2147483546] for each in bounds] == [path.encode()] * 2
    assert [int.from_bytes(each[2147483545], "little") for each in bounds] == [1, 3]
    table = pq.read_table(local_path(entry["file_path"]))
    assert table.to_pydict() == {"file_path": [path] * 2, "pos": [1, 3]}
    ids = [field.metadata[b"PARQUET:field_id"] for field in table.schema]
    assert ids == [b"2147483546", b"2147483545"]
    assert "part=a" in entry["file_path"]


def test_partition_granularity_writes_one_delete_file_per_partition(local) -> None:
    create(local, "2", **{"write.delete.granularity": "partition"})
    now().append(rows((9, "a"), (10, "a")))
    change("delete", "id IN (2, 5, 9)")
    assert summary()["added-position-delete-files"] == "2"
    change("delete", "id = 3")
    assert "removed-delete-files" not in summary()
    check([*without(2, 3, 5), (10, "a")])
    shared = next(each for each in now().inspect("delete_files").to_pylist() if each["record_count"] == 2)
    assert (shared["referenced_data_file"], shared["lower_bounds"]) == (None, None)
    paths = pq.read_table(local_path(shared["file_path"]))["file_path"].to_pylist()
    assert len(set(paths)) == 2
    assert paths == sorted(paths)


def test_files_of_position_deletes_have_the_target_size(local) -> None:
    given = {"write.delete.granularity": "partition", "write.delete.target-file-size-bytes": "1"}
    create(local, "2", by=(), **given)
    change("delete", "id IN (2, 7)")
    assert summary()["added-position-delete-files"] == "2"
    check(without(2, 7))


@pytest.mark.parametrize(("name", "codec"), [("gzip", "GZIP"), ("uncompressed", "UNCOMPRESSED"), (None, "SNAPPY")])
def test_delete_files_have_a_codec_of_their_own(name, codec, local) -> None:
    own = {} if name is None else {"write.delete.parquet.compression-codec": name}
    create(local, "2", **{"write.parquet.compression-codec": "snappy", **own})
    change("delete", "id = 2")
    [entry] = now().inspect("delete_files").to_pylist()
    assert pq.read_metadata(local_path(entry["file_path"])).row_group(0).column(1).compression == codec


def test_delete_files_in_other_formats_are_refused(local) -> None:
    create(local, "2", **{"write.delete.format.default": "avro"})
    with pytest.raises(UnsupportedFeature, match="writing avro delete files"):
        begin_change("delete", "id = 2")


def test_rows_that_are_deleted_already_need_no_deletes(with_deletes, local) -> None:
    create(local, with_deletes)
    paths = list(row_deltas.positions_of("id = 2"))
    change("delete", "id = 2")
    target = now()._target(NO_OPTIONS)
    writer, files = target.delete_writer("again"), planned_files(target, paths)
    assert list(writer.write(files, [BitMap64([1])])) == []
    [more] = writer.write(files, [BitMap64([1, 2])])
    assert (more.path, more.rows) == (paths[0], 1)


def test_many_rows_are_deleted_in_ranges(local) -> None:
    """A file of position deletes is written in several row groups."""
    maker("iceberg version 2", local)(partition_by=(), properties=MERGE_ON_READ)
    now().append(rows(*[(number, "a") for number in range(10)]))
    target = now()._target(NO_OPTIONS)
    [path] = row_deltas.positions_of("id = 1")
    files = planned_files(target, [path])
    many = 3_000_000
    counted = files.files.set_column(files.files.schema.get_field_index("record_count"), "record_count", [[many]])
    deleted = BitMap64(range(0, many, 3)) | BitMap64([many - 1])
    [written] = target.delete_writer("w").write(type(files)(counted, files.deletes), [deleted])
    positions = pq.read_table(local_path(written.location))["pos"]
    assert written.rows == len(deleted)
    assert BitMap64(positions.to_pylist()) == deleted
    assert positions.to_pylist() == sorted(positions.to_pylist())


def test_writers_are_sent_to_workers(with_deletes, local) -> None:
    create(local, with_deletes)
    target = now()._target(NO_OPTIONS)
    found = row_deltas.positions_of("id IN (2, 7)")
    writer, files = pickle.loads(pickle.dumps((target.delete_writer("w"), planned_files(target, list(found)))))
    written = pickle.loads(pickle.dumps(writer.write(files, [BitMap64(each) for each in found.values()])))
    assert {each.path: each.rows for each in written} == dict.fromkeys(found, 1)


# Existing deletes


def existing(kind: str) -> None:
    """Delete row 2 in some way."""
    [path] = row_deltas.positions_of("id = 2")
    [other] = row_deltas.positions_of("id = 6")
    name = f"{row_deltas.commit_base().metadata.location}/data/old.parquet"
    found: list[Any] = []
    match kind:
        case "named":
            found = row_deltas.position_deletes("id = 2")
        case "bounds":
            bound = (path.encode(), path.encode())
            found = [write_position_deletes(name, [(path, 1)], bounds={2147483546: bound})]
        case "unknown":
            found = [write_position_deletes(name, [(path, 1)])]
        case "respelled":
            other_name = path.removeprefix("file://") if path.startswith("file://") else f"file://{path}"
            found = [write_position_deletes(name, [(other_name, 1)])]
        case "of two files":
            found = [write_position_deletes(name, [(path, 1), (other, 0)])]
        case "keys":
            found = row_deltas.equality_deletes([2])
        case "vectors":
            found = row_deltas.vectors("id = 2")
    referenced = lakescan.table("local.db.t").scan().plan().files["path"].combine_chunks()
    commit = row_deltas.commit()
    added = added_with_bounds(found)
    commit.row_delta(SnapshotChanges(added_deletes=added), Validation.create(commit.base, referenced=referenced))


def added_with_bounds(found: list[Any]) -> dict[int, Any]:
    """Return delete files with their bounds."""
    [(spec, table)] = row_deltas.added_deletes(found).items()
    for place, name in enumerate(("lower_bounds", "upper_bounds")):
        column = table.schema.get_field_index(name)
        values = [[(key, pair[place]) for key, pair in each.bounds.items()] or None for each in found]
        table = table.set_column(column, name, pa.array(values, table.schema.field(name).type))
    return {spec: table}


GONE = {"named": 1, "bounds": 1, "unknown": 1, "respelled": 1, "of two files": 0, "keys": 0, "vectors": 1}


@pytest.mark.parametrize(
    ("kind", "start", "upgraded"),
    [
        *[(kind, "2", False) for kind in ("named", "bounds", "unknown", "of two files", "keys")],
        *[(kind, "2", True) for kind in ("named", "bounds", "unknown", "of two files", "keys")],
        ("respelled", "2", False),
        ("respelled", "2", True),
        ("vectors", "3", False),
        ("keys", "3", False),
    ],
)
def test_existing_deletes_of_a_file_are_merged_with_new_ones(kind, start, upgraded, local) -> None:
    """Deletes that apply only to that file are replaced; other deletes, and deletes by key, stay."""
    create(local, start, by=())
    existing(kind)
    gone = [2, 5] if kind == "of two files" else [2]
    check(without(*gone), by_pyiceberg=kind not in ("keys", "respelled"))
    if upgraded:
        row_changes.upgrade()
    change("delete", "id = 3")
    check(without(*gone, 3), by_pyiceberg=kind not in ("keys", "respelled"))
    assert int(summary().get("removed-delete-files", 0)) == GONE[kind]
    with_old = GONE[kind] or (upgraded and kind == "of two files")
    assert summary()["added-position-deletes"] == ("2" if with_old else "1")
    change("delete", "id IN (1, 6)")
    check(without(*gone, 1, 3, 6), by_pyiceberg=kind not in ("keys", "respelled"))


# Partitions


def test_deletes_are_in_the_partition_of_their_data_file_by_its_own_spec(with_deletes, local) -> None:
    create(local, with_deletes)
    with connection("local").load_table("db.t").update_spec() as update:
        update.add_field("id", "bucket[4]", "id_bucket")
        update.remove_field("part")
    now().append(rows((9, "a"), (10, "a")))
    change("delete", "id IN (2, 7, 9)", removes_whole=False)
    check([*without(2, 7), (10, "a")])
    by_file = {
        each["file_path"]: (each["spec_id"], each["partition"]) for each in now().inspect("data_files").to_pylist()
    }
    deletes = now().inspect("delete_files").to_pylist()
    assert len(deletes) == 3
    for each in deletes:
        assert (each["spec_id"], each["partition"]) == by_file[each["referenced_data_file"]]
    assert sorted(each["spec_id"] for each in deletes) == [0, 0, 1]


def test_a_partition_whose_column_was_dropped_has_deletes(with_deletes, local) -> None:
    create(local, with_deletes)
    given = connection("local").load_table("db.t")
    with given.update_spec() as update:
        update.remove_field("part")
    with given.update_schema() as columns:
        columns.delete_column("part")
    change("delete", "id IN (2, 7)")
    assert sorted(now().scan().to_arrow()["id"].to_pylist()) == [row[0] for row in without(2, 7)]
    assert now().inspect("delete_files")["spec_id"].to_pylist() == [0, 0]
    if with_deletes == "2":  # vectors are not in folders of partitions
        folders = {Path(each).parent.name for each in now().inspect("delete_files")["file_path"].to_pylist()}
        assert folders == {"part=a", "part=b"}


@pytest.mark.parametrize(
    ("kind", "by", "values"),
    [
        ("DATE", "day(x)", ["0001-01-01", "2026-03-01", None]),
        ("TIMESTAMP_NTZ", "hour(x)", ["2026-03-01T10:00:00", "1969-12-31T23:00:00", None]),
        ("TIMESTAMP_NTZ", "x", ["0001-03-01T10:00:00.000001", None]),
        ("DECIMAL(9, 2)", "x", ["1.25", "-1.25"]),
        ("DOUBLE", "x", ["1.5", "nan", "-0.0"]),
        ("STRING", "truncate(2, x)", ["a/b=c", "", "é"]),
        ("BINARY", "x", ["ab"]),
        ("BOOLEAN", "x", [True, False, None]),
    ],
)
def test_deletes_are_written_in_partitions_of_every_type(with_deletes, kind, by, values, local) -> None:
    properties = {"format-version": with_deletes, **MERGE_ON_READ}
    local.create_table("db.t", f"id BIGINT, part STRING, x {kind}", partition_by=(by,), properties=properties)
    types = {"DATE": pa.date32(), "TIMESTAMP_NTZ": pa.timestamp("us"), "DECIMAL(9, 2)": pa.decimal128(9, 2)}
    more = {"DOUBLE": pa.float64(), "BINARY": pa.binary(), "BOOLEAN": pa.bool_()}
    column = pa.array([each for each in values for _ in range(2)])
    column = column.cast(types[kind]) if kind in types else column.cast(more.get(kind, pa.string()))
    ids = pa.array(range(len(column)))
    part = pa.nulls(len(column), pa.string())
    now().append(pa.table({"id": ids, "part": part, "x": column}))
    change("delete", f"id IN ({', '.join(str(n) for n in range(0, len(column), 2))})")
    assert sorted(row[0] for row in pairs()) == list(range(1, len(column), 2))
    by_file = {each["file_path"]: repr(each["partition"]) for each in now().inspect("data_files").to_pylist()}
    for each in now().inspect("delete_files").to_pylist():
        assert repr(each["partition"]) == by_file[each["referenced_data_file"]]


# Failures


def test_a_row_that_does_not_exist_is_damage_and_nothing_is_written(with_deletes, local, tmp_path: Path) -> None:
    create(local, with_deletes)
    target, files = now()._target(NO_OPTIONS), files_in(tmp_path)
    [path] = row_deltas.positions_of("id = 2")
    with pytest.raises(CorruptData, match="has 4 rows by its metadata, so its row 4 cannot be deleted"):
        target.delete_writer("w").write(planned_files(target, [path]), [BitMap64([1, 4])])
    assert files_in(tmp_path) == files


class _Full:
    """A file in storage that accepts a limited number of bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(28, "No space left on device")
        return int(self._file.write(data))

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_a_writer_that_fails_leaves_no_files(with_deletes, local, tmp_path: Path, monkeypatch) -> None:
    """The last of several files cannot be created; or a file cannot be written to its end."""
    create(local, with_deletes)
    target, files = now()._target(NO_OPTIONS), files_in(tmp_path)
    found = row_deltas.positions_of("id IN (2, 7)")
    created = Storage.create
    made: list[str] = []

    def failing(self: Storage, location: str) -> Any:
        made.append(location)
        if with_deletes == "3":
            return _Full(created(self, location), 60)
        if len(made) == 2:
            raise StorageError("full")
        return created(self, location)

    monkeypatch.setattr(Storage, "create", failing)
    with pytest.raises(StorageError):
        target.delete_writer("w").write(planned_files(target, list(found)), [BitMap64(each) for each in found.values()])
    assert made
    assert files_in(tmp_path) == files


def test_a_writer_removes_what_all_workers_wrote(with_deletes, local, tmp_path: Path) -> None:
    create(local, with_deletes)
    files, target = files_in(tmp_path), now()._target(NO_OPTIONS)
    found = row_deltas.positions_of("id IN (2, 7)")
    writer = target.delete_writer("mine")
    for path, each in found.items():
        writer.write(planned_files(target, [path]), [BitMap64(each)])
    assert len(files_in(tmp_path)) == len(files) + 2
    assert list(writer.remove_written()) == []
    assert files_in(tmp_path) == files


def test_a_change_with_a_lost_answer_is_not_repeated(version, local, monkeypatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    create(local, version)
    commit, calls = SqlCatalog.commit_table, []

    def lost(self: Any, *arguments: Any) -> Any:
        calls.append(commit(self, *arguments))
        raise CommitFailedException("no answer")

    begun = begin_change("update", "id IN (2, 7)", [(2, "z")])
    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    begun()
    assert len(calls) == 1
    check([*without(2, 7), (2, "z")])


# Options


def test_changes_of_a_branch_leave_the_others(version, local) -> None:
    create(local, version)
    change("delete", "id = 2", branch="audit")
    change("update", "id = 3", [(3, "z")], branch="audit")
    assert pairs() == sorted(without())
    found = lakescan.table("local.db.t", branch="audit").scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["part"]) for row in found) == sorted([*without(2, 3), (3, "z")])


def test_properties_of_the_commit_and_epochs_are_in_the_summary(local) -> None:
    create(local, "2")
    options = {"txnAppId": "q", "txnVersion": "4", "snapshot-property.by": "me"}
    change("delete", "id = 2", **options)
    head = row_deltas.head_snapshot().summary
    assert (head["by"], head["spark.sql.streaming.queryId"], head["spark.sql.streaming.epochId"]) == ("me", "q", "4")
    assert now()._target(WriteOptions.parse(options, "iceberg")).has_committed()


# Conflicts. Our statement begins; another commit is made; then ours is rebased onto it or conflicts with it.

C = (10, "a")  # in a file of its own
IN_A = [*A, C]
THEIRS: dict[str, tuple[Callable[[], object], list[int], list[Row]]] = {
    "append of a match": (lambda: now().append(rows((2, "a"))), [], [(2, "a")]),
    "append to b": (lambda: now().append(rows((9, "b"))), [], [(9, "b")]),
    "delete in the file": (lambda: change("delete", "id = 4"), [4], []),
    "delete of the row": (lambda: change("delete", "id = 2"), [2], []),
    "delete in b": (lambda: change("delete", "id = 7"), [7], []),
    "delete of a": (lambda: change("delete", "part = 'a'"), [1, 2, 3, 4, 10], []),
    "rewrite of the file": (lambda: change("delete", "id = 4", row_change_mode=COPY_ON_WRITE), [4], []),
    "update in the file": (lambda: change("update", "id = 4", [(40, "b")]), [4], [(40, "b")]),
    "rewrite of b": (lambda: change("delete", "id = 7", row_change_mode=COPY_ON_WRITE), [7], []),
    "compaction of a": (lambda: now().compact(where="part = 'a'"), [], []),
}
ANY_OF_A = {
    *("append of a match", "delete in the file", "delete of the row", "delete of a", "update in the file"),
    *("rewrite of the file", "compaction of a"),
}
ONE, ALL = "id = 2 AND part = 'a'", "part = 'a'"
SNAPSHOT = {"isolation_level": "snapshot"}
REWRITTEN = {"append of a match", "rewrite of the file", "compaction of a"}
# Our operation, the rows it deletes and adds, and the commits it conflicts with (with vectors, also `IN_THE_FILE`).
OURS: dict[str, tuple[str, str, list[Row], dict[str, str], list[int], set[str]]] = {
    "delete": ("delete", ONE, [], {}, [2], REWRITTEN),
    "delete of a": ("delete", ALL, [], {}, [1, 2, 3, 4, 10], REWRITTEN | {"update in the file"}),
    "update": ("update", ONE, [(2, "b")], {}, [2], ANY_OF_A),
    "merge": ("merge", ONE, [(2, "b")], {}, [2], ANY_OF_A),
    "insert": ("merge", "false", [(20, "a")], {"read": "id = 2"}, [], {"append of a match", "rewrite of the file"}),
    "rewriting delete": ("delete", ONE, [], {"row_change_mode": COPY_ON_WRITE}, [2], ANY_OF_A),
    "snapshot delete": ("delete", ONE, [], SNAPSHOT, [2], {"rewrite of the file", "compaction of a"}),
    "snapshot update": ("update", ONE, [(2, "b")], SNAPSHOT, [2], ANY_OF_A - {"append of a match"}),
    "snapshot update of a": ("update", ALL, [(2, "b")], SNAPSHOT, [1, 2, 3, 4, 10], ANY_OF_A - {"append of a match"}),
}
IN_THE_FILE = {"delete in the file", "delete of the row", "update in the file"}


def cases() -> Iterator[Any]:
    """Yield our and their commits by version; cases that differ little from others are slow tests."""
    for version, ours, theirs in product("23", OURS, THEIRS):
        is_other = version == "2" or (ours == "delete" and theirs in IN_THE_FILE | {"delete in b", "delete of a"})
        is_fast = is_other and ours not in ("merge", "snapshot delete", "snapshot update") and not theirs.endswith("b")
        yield pytest.param(version, ours, theirs, marks=() if is_fast else pytest.mark.slow)


@pytest.mark.parametrize(("given", "ours", "theirs"), list(cases()))
def test_a_statement_is_rebased_onto_commits_that_do_not_conflict(given, ours, theirs, local, tmp_path) -> None:
    create(local, given)
    now().append(rows(C))
    statement, where, new, options, ids, conflicts = OURS[ours]
    commit = begin_change(statement, where, new, **options)
    make, deleted, added = THEIRS[theirs]
    make()
    files, left = files_in(tmp_path), [row for row in [*IN_A, *B] if row[0] not in deleted]
    adds_vectors = given == "3" and ours in ("delete", "snapshot delete")
    if theirs in conflicts | (IN_THE_FILE if adds_vectors else set()):
        with pytest.raises(lakescan.CommitConflict, match="Read them again, and retry"):
            commit()
    else:
        commit()
        left = [*(row for row in left if row[0] not in ids), *new]
    assert pairs() == sorted([*left, *added])
    assert files_in(tmp_path) <= files  # nothing is rewritten


@pytest.mark.parametrize("level", ["serializable", "snapshot"])
@pytest.mark.parametrize("statement", list(RowLevelCommand))
def test_the_isolation_level_is_a_property_of_each_statement(statement, level, local) -> None:
    create(local, "2", **{f"write.{statement}.isolation-level": level})
    commit = begin_change(statement, "id = 2", [] if statement == "delete" else [(2, "z")])
    now().append(rows((2, "a")))
    if level == "snapshot":
        commit()
    else:
        with pytest.raises(lakescan.CommitConflict):
            commit()


def test_commits_since_a_given_snapshot_are_checked(local) -> None:
    create(local, "2")
    before = row_deltas.head_snapshot().id
    now().append(rows((2, "a")))
    with pytest.raises(lakescan.CommitConflict):
        change("delete", "id = 2", validate_from_snapshot_id=str(before))
    change("delete", "id = 2", validate_from_snapshot_id=str(row_deltas.head_snapshot().id))
    assert (2, "a") not in pairs()


def test_two_deletes_may_replace_the_same_file_of_position_deletes(local) -> None:
    """Each has all rows of the old file; rows are deleted by both."""
    create(local, "2")
    change("delete", "id = 1")
    first, second = begin_change("delete", "id = 2"), begin_change("delete", "id IN (2, 3)")
    first()
    second()
    check(without(1, 2, 3))
    assert "removed-delete-files" not in summary()
    assert now().inspect("delete_files").num_rows == 2


def test_a_vector_of_a_file_that_another_delete_removed_is_not_added(local) -> None:
    create(local, "3")
    change("delete", "id = 1")
    ours = begin_change("delete", "id IN (2, 7)")
    change("delete", "part = 'a'")
    ours()
    check(without(1, 2, 3, 4, 7))
    assert now().inspect("delete_files").num_rows == 1


def test_deletes_of_a_file_that_another_delete_removed_are_removed(local, tmp_path: Path) -> None:
    create(local, "2")
    ours = begin_change("delete", "id IN (2, 7)")
    files = files_in(tmp_path)
    change("delete", "part = 'a'")
    ours()
    check(without(1, 2, 3, 4, 7))
    gone = files - files_in(tmp_path)
    assert [name.startswith("deletes-") for name in gone] == [True]


def test_position_deletes_conflict_with_an_upgrade(local) -> None:
    create(local, "2")
    ours = begin_change("delete", "id = 2")
    row_changes.upgrade()
    now().append(rows((9, "b")))
    with pytest.raises(lakescan.CommitConflict, match="upgraded the table to format version 3"):
        ours()


def test_deletes_in_files_without_bounds_stay_those_of_their_own_data_file(local) -> None:
    """As in Avro and ORC: only the rows of such a delete file name its data file."""
    table = local.create_table("db.t", "id BIGINT, part STRING", properties=MERGE_ON_READ)
    table.append(rows((1, "a"), (2, "a")))
    table.append(rows((3, "a"), (4, "a")))
    of_others = [replace(each, referenced_data_file=None) for each in row_deltas.position_deletes("id = 1")]
    row_deltas.publish("delete", SnapshotChanges(added_deletes=row_deltas.added_deletes(of_others)))
    check([(2, "a"), (3, "a"), (4, "a")])
    now().delete("id = 3")
    check([(2, "a"), (4, "a")])
    now().delete("id = 2")
    check([(4, "a")])
