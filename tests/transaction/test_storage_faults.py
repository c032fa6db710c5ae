"""Storage that fails while files are written: the error names the file that was being written."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage import Storage


class Full(io.BytesIO):
    """A file on a disk that is full after so many bytes."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room

    def write(self, data: object) -> int:
        written = super().write(data)  # type: ignore[arg-type]
        if self.tell() > self._room:
            raise OSError(errno.ENOSPC, "no space left on device")
        return written


@pytest.mark.parametrize("room", [0, 3, 3000])
def test_a_full_disk_is_a_fault_of_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"n": pa.array(range(3000), pa.int64())})
    lakescan.save(rows, path, format="delta")
    monkeypatch.setattr(Storage, "create", lambda self, location: pa.PythonFile(Full(room), mode="w"))
    with pytest.raises(lakescan.StorageError, match=rf"{tmp_path}.*parquet cannot be written: .*no space left"):
        lakescan.save(rows, path, format="delta", mode="append")
    monkeypatch.undo()
    assert lakescan.table(path).scan().count() == 3000
