"""A local filesystem with injected failures, like those of object stores: in opening, reading, closing, listing."""

from __future__ import annotations

import builtins
import errno
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.storage import Storage, clients


def faulty_storage(place: str, fault: Exception | None = None, *, after: int = 0) -> Storage:
    """Return a storage of local files that raises `fault` at a place after `after` successful calls there.

    Places: open, read, close, info (of named files), list, delete. Two faults raise nothing: `short` returns half of
    the requested bytes once, and `empty` returns none.
    """
    made = Storage()
    made._filesystems["file", "", None] = None, pafs.PyFileSystem(_Handler(_Faults(place, fault, after)))
    return made


def install(place: str, fault: str, after: int) -> None:
    """Inject the fault into every storage of this process; `fault` is the name of a built-in exception."""
    made = {"OSError": OSError(errno.EIO, "injected: input/output error"), "ValueError": ValueError("injected")}
    named = made.get(fault) or getattr(builtins, fault)("injected")
    faulty = pafs.PyFileSystem(_Handler(_Faults(place, named, after)))
    original = clients.open_filesystem
    clients.open_filesystem = lambda scheme, *rest: faulty if scheme == "file" else original(scheme, *rest)


class _Faults:
    def __init__(self, place: str, fault: Exception | None, after: int) -> None:
        self._place, self._fault, self._left = place, fault, after

    def due(self, place: str) -> bool:
        if place != self._place:
            return False
        self._left -= 1
        return self._left < 0

    def at(self, place: str) -> None:
        if self.due(place) and self._fault is not None:
            raise self._fault


class _File(io.BytesIO):
    def __init__(self, path: str, faults: _Faults) -> None:
        super().__init__(Path(path).read_bytes())
        self._faults, self._was_short = faults, False

    def read(self, size: int | None = -1) -> bytes:
        self._faults.at("read")
        if self._faults.due("empty"):
            return b""
        if self._faults.due("short") and not self._was_short:
            self._was_short = True
            size = len(self.getbuffer()) // 2 if size is None or size < 0 else size // 2
        return super().read(size)

    def close(self) -> None:
        super().close()
        self._faults.at("close")


class _Handler(pafs.FileSystemHandler):
    def __init__(self, faults: _Faults) -> None:
        self._faults, self._local = faults, pafs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "faulty"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        self._faults.at("info")
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> Any:
        self._faults.at("list")
        return self._local.get_file_info(selector)

    def open_input_file(self, path: str) -> Any:
        self._faults.at("open")
        return pa.PythonFile(_File(path, self._faults), mode="r")

    open_input_stream = open_input_file

    def delete_file(self, path: str) -> None:
        self._faults.at("delete")
        self._local.delete_file(path)

    def _unsupported(self, *_: Any) -> None:
        raise NotImplementedError

    open_output_stream = open_append_stream = create_dir = _unsupported
    delete_dir = delete_dir_contents = delete_root_dir_contents = move = copy_file = _unsupported
