"""Storage that fails while files are written: the error names the file that was being written."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage import Storage


class Full(io.BytesIO):
    """A file on a disk that is full after a number of bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data: object) -> int:
        written = super().write(data)  # type: ignore[arg-type]
        if self.tell() > self._room:
            raise OSError(errno.ENOSPC, "no space left on device")
        return written


@pytest.mark.parametrize("room", [0, 3, 3000])
def test_a_full_disk_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"n": pa.array(range(3000), pa.int64())})
    lakescan.save(rows, path, format="delta")
    monkeypatch.setattr(Storage, "create", lambda self, location: pa.PythonFile(Full(room), mode="w"))
    with pytest.raises(lakescan.StorageError, match=rf"{tmp_path}.*parquet cannot be written: .*no space left"):
        lakescan.save(rows, path, format="delta", mode="append")
    monkeypatch.undo()
    assert lakescan.table(path).scan().count() == 3000


class Unanswered(io.BytesIO):
    """An upload whose last request gets no answer."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            raise OSError("AWS Error NETWORK_CONNECTION: the answer was lost")


@pytest.mark.parametrize(
    ("ending", "act"),
    [
        ("-m0.avro", lambda table, rows: table.append(rows)),
        (".puffin", lambda table, rows: table.delete("n = 1")),
        ("lakescan-clock", lambda table, rows: table.remove_orphans()),
    ],
)
def test_an_upload_without_an_answer_is_a_storage_error(
    local: lakescan.Catalog,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    act: Callable[[lakescan.Table, pa.Table], object],
) -> None:
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read"}
    rows = pa.table({"n": pa.array(range(3), pa.int64())})
    table = local.create_table("db.t", "n BIGINT", properties=properties)
    table.append(rows)
    create = Storage.create

    def created(self: Storage, location: str) -> pa.NativeFile:
        return pa.PythonFile(Unanswered(), mode="w") if ending in location else create(self, location)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "create", created)
        with pytest.raises(lakescan.StorageError, match=rf"{ending}.* cannot be written: .*the answer was lost"):
            act(table, rows)
    assert table.refresh().scan().count() == 3
