"""Rows and files of the test server's tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import lakescan
from tests.support.unity_server import StoredTable, UnityServer

NAME = "main.db.t"


def rows(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "part": [part] * len(ids)})


def ids(name: str = NAME, **options: object) -> list[int]:
    found: list[int] = lakescan.table(name, **options).scan().to_arrow()["id"].to_pylist()  # type: ignore[arg-type]
    return sorted(found)


def stored(server: UnityServer, name: str = NAME) -> StoredTable:
    return server.tables[name]


def log_of(server: UnityServer, name: str = NAME) -> Path:
    return Path(stored(server, name).location) / "_delta_log"


def published(server: UnityServer) -> list[int]:
    return sorted(int(each.stem) for each in log_of(server).glob("*.json") if each.stem.isdigit())


def staged_files(server: UnityServer) -> list[str]:
    return sorted(each.name for each in (log_of(server) / "_staged_commits").glob("*.json"))


def data_files(server: UnityServer) -> int:
    return len(list(Path(stored(server).location).glob("*/*.parquet")))
