from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lakescan
from lakescan.delta.commit import staged_commits as staged
from lakescan.errors import StorageError
from tests.support.s3 import KEY, REGION, SECRET, s3_server
from tests.support.unity_server import TOKEN, UnityServer, unity_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[UnityServer]:
    with unity_server(str(tmp_path / "managed")) as found:
        yield found


@pytest.fixture
def main(server: UnityServer) -> lakescan.Catalog:
    """The catalog `main` with the schema `db`."""
    catalog = lakescan.catalog("main", type="unity", uri=server.uri, token=TOKEN)
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def table(main: lakescan.Catalog) -> lakescan.Table:
    """An empty managed table with the columns `id` and `part`."""
    return main.create_table("db.t", "id BIGINT, part STRING", format="delta", partition_by=["part"])


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[UnityServer]:
    """Start a server whose tables are in a bucket, with the catalog `main` and the table `db.t`."""
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    with s3_server("lake") as endpoint, unity_server(f"s3://lake/{tmp_path.name}", keys) as server:
        settings = {"s3.endpoint": endpoint, "s3.region": REGION}
        catalog = lakescan.catalog({"name": "main", "type": "unity", "uri": server.uri, "token": TOKEN, **settings})
        catalog.create_namespace("db")
        catalog.create_table("db.t", "id BIGINT, part STRING", format="delta")
        yield server


@pytest.fixture
def unpublished() -> Iterator[pytest.MonkeyPatch]:
    """Stop writers before they publish a commit; `undo()` lets them publish again."""

    def stopped(*_: object) -> None:
        raise StorageError("stopped")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged, "publish_ratified", stopped)
        yield patch


@pytest.fixture(autouse=True)
def _only_own_catalogs(no_other_catalogs: None) -> None:
    """Tests of this folder see only the catalogs that they register."""
