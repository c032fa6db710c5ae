"""An in-memory object store: strongly consistent like S3, GCS and Azure, and with their kinds of request failures.

Reading requests may be refused (429, 503) or end with their process. Writes may also succeed without an answer, or
arrive after the client gave up. A read may return only part of the bytes. Listings never lag, as in every store that
the library supports.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from tests.simulation.world import World

READ = ("429", "503", "killed", "stalled")
OPEN = (*READ, "partial read")
WRITE = ("429", "503", "lost answer", "late", "killed", "killed after", "stalled")


class Store(pafs.FileSystemHandler):
    """Objects by key (`bucket/path`), with their last modification time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.on_put: Callable[[str, bytes], None] = lambda key, data: None
        self.on_delete: Callable[[str], None] = lambda key: None
        self.root = ""

    def shown(self, key: str) -> str:
        return key.removeprefix(self.root).lstrip("/")

    # Requests

    def put(self, key: str, data: bytes, *, create: bool = False) -> bool:
        """Return whether the object was written; False if `create` is set and it exists (412)."""

        def act() -> bool:
            if create and key in self.objects:
                return False
            self.objects[key] = data, self.world.now
            self.on_put(key, data)
            return True

        return self.world.call("create" if create else "put", self.shown(key), act, WRITE)

    def get(self, key: str) -> bytes:
        def act() -> bytes:
            if key not in self.objects:
                raise FileNotFoundError(key)
            return self.objects[key][0]

        return self.world.call("get", self.shown(key), act, READ)

    def info(self, key: str) -> pafs.FileInfo:
        if key in self.objects:
            data, millis = self.objects[key]
            return pafs.FileInfo(
                key, pafs.FileType.File, size=len(data), mtime=datetime.fromtimestamp(millis / 1000, UTC)
            )
        is_folder = any(each.startswith(f"{key}/") for each in self.objects)
        return pafs.FileInfo(key, pafs.FileType.Directory if is_folder else pafs.FileType.NotFound)

    # Methods that Arrow calls

    def get_type_name(self) -> str:
        return "simulated"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self.world.call("head", self.shown(each), lambda each=each: self.info(each), READ) for each in paths]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        base = selector.base_dir.rstrip("/")
        return self.world.call("list", self.shown(base), lambda: self._under(base, selector.recursive), READ)

    def _under(self, base: str, recursive: bool) -> list[pafs.FileInfo]:
        keys = sorted(each for each in self.objects if each.startswith(f"{base}/"))
        folders = dict.fromkeys(
            f"{base}/{'/'.join(parts[:n])}"
            for each in keys
            for parts in [each[len(base) + 1 :].split("/")]
            for n in range(1, len(parts) if recursive else min(2, len(parts)))
        )
        files = [each for each in keys if recursive or "/" not in each[len(base) + 1 :]]
        return [self.info(each) for each in (*folders, *files)]

    def open_input_file(self, path: str) -> Any:
        def act() -> bytes:
            if path not in self.objects:
                raise FileNotFoundError(path)
            return self.objects[path][0]

        return pa.BufferReader(self.world.call("open", self.shown(path), act, READ))

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        return pa.PythonFile(_Upload(self, path), mode="w")

    def delete_file(self, path: str) -> None:
        def act() -> None:
            if path in self.objects:
                self.on_delete(path)
                del self.objects[path]

        self.world.call("delete", self.shown(path), act, WRITE)

    def create_dir(self, path: str, recursive: bool) -> None:
        pass

    def copy_file(self, source: str, target: str) -> None:
        def act() -> None:
            if source not in self.objects:
                raise FileNotFoundError(source)
            self.objects[target] = self.objects[source][0], self.world.now
            self.on_put(target, self.objects[source][0])

        self.world.call("copy", self.shown(target), act, WRITE)

    def _refused(self, *arguments: Any) -> Any:
        raise NotImplementedError

    delete_dir = delete_dir_contents = delete_root_dir_contents = _refused
    move = open_append_stream = _refused


class _Upload(io.BytesIO):
    """Publish the whole object when the upload is closed."""

    def __init__(self, store: Store, key: str) -> None:
        super().__init__()
        self._store, self._key = store, key

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._store.put(self._key, data)
