"""Delete records: views of a delete table's columns, created only for the rows that a task needs."""

from __future__ import annotations

import pickle

import pyarrow as pa

from lakescan.planning.delete_files import DeleteFile, DeleteFiles, DeleteKind, delete_files
from lakescan.planning.file_table import DELETES

ROWS = pa.Table.from_pylist(
    [
        {"kind": "position-deletes", "path": "p.parquet", "file_format": "parquet", "size": 7, "record_count": 2},
        {"kind": "deletion-vector", "inline": b"secret", "record_count": 1, "kept": True},
        {"kind": "equality-deletes", "path": "e.avro", "equality_ids": [2, 1], "sequence_number": 5, "scope": ""},
    ],
    schema=DELETES,
)
RECORDS = (
    DeleteFile(DeleteKind.POSITION, "p.parquet", "parquet", size=7, record_count=2),
    DeleteFile(DeleteKind.VECTOR, inline=b"secret", record_count=1, kept=True),
    DeleteFile(DeleteKind.EQUALITY, "e.avro", equality_ids=(2, 1), sequence_number=5, scope=""),
)


def test_a_record_has_a_member_for_each_column() -> None:
    assert delete_files(ROWS) == RECORDS
    assert list(DeleteFile.__dataclass_fields__) == DELETES.names


def test_kinds_are_the_words_of_the_column() -> None:
    assert [str(each.kind) for each in RECORDS] == ROWS["kind"].to_pylist()


def test_records_can_be_sent_to_workers() -> None:
    assert pickle.loads(pickle.dumps(RECORDS)) == RECORDS


def test_contents_and_keys_are_not_in_messages() -> None:
    assert "secret" not in repr(RECORDS)


def test_deletes_of_a_group_are_made_when_a_task_asks_for_them_and_shared() -> None:
    group = DeleteFiles(ROWS)
    first = group.at([2, 0])
    assert first == (RECORDS[2], RECORDS[0])
    assert group.at([0])[0] is first[1]
    assert group.at([]) == ()
