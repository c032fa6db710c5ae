"""Put-if-absent creates: locally, and in an object store that answers late or wrongly."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import obstore
import pyarrow as pa
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

import lakescan
from lakescan.common import retries
from lakescan.common.retries import RetryPolicy
from lakescan.delta.commit import commit_file as put_commit
from lakescan.storage import Storage, put_if_absent
from lakescan.storage.put_if_absent import NotCreated
from tests.support.s3 import KEY, REGION, SECRET, s3_server

put = put_if_absent.put_if_absent
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with s3_server("lake") as endpoint:
        keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
        yield {"s3.endpoint": endpoint, **keys}


@pytest.fixture(params=["local", "s3"])
def folder(request: Any, tmp_path: Path, settings: dict[str, str]) -> tuple[str, Storage]:
    if request.param == "local":
        return str(tmp_path / "a b%20#?"), Storage()
    return f"s3://lake/{tmp_path.name}", Storage(settings)


def test_a_file_is_created_once(folder: tuple[str, Storage]) -> None:
    location, storage = f"{folder[0]}/f", folder[1]
    assert put(storage, location, b"first") is True
    assert put(storage, location, b"second") is False
    assert storage.read(location) == b"first"


def test_only_one_of_many_concurrent_creators_succeeds(tmp_path: Path) -> None:
    """Only tested locally: moto, which stands for S3, checks and writes in two steps."""
    location, storage = f"{tmp_path}/raced", Storage()
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: put(storage, location, b"%d" % n), range(16)))
    assert done.count(True) == 1
    assert storage.read(location) == b"%d" % done.index(True)


def test_a_local_file_is_complete_or_absent_without_leftovers(tmp_path: Path) -> None:
    def interrupted(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with patch.object(os, "fsync", interrupted), pytest.raises(NotCreated, match="No space left"):
        put(Storage(), str(tmp_path / "f"), b"data")
    assert list(tmp_path.iterdir()) == []


def test_a_filesystem_without_hard_links_is_refused_by_name(tmp_path: Path) -> None:
    def none(*arguments: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    with patch.object(os, "link", none), pytest.raises(lakescan.UnsupportedFeature, match="no hard links"):
        lakescan.save(ROWS, tmp_path / "t", format="delta")
    assert not lakescan.storage.Storage().exists(str(tmp_path / "t" / "_delta_log" / f"{0:020d}.json"))


def ignoring(store: Any, path: str, data: bytes, **named: Any) -> Any:
    """A store that accepts the condition but ignores it."""
    return real(store, path, data)


def disabled(store: Any, path: str, data: bytes, **named: Any) -> Any:
    raise obstore.exceptions.NotSupportedError("no conditional puts")


real: Callable[..., Any] = obstore.put


@pytest.mark.parametrize("answer", [ignoring, disabled])
def test_a_store_without_conditional_puts_is_refused_before_a_commit(answer, settings, tmp_path: Path) -> None:
    path = f"s3://lake/{tmp_path.name}/t"
    put_if_absent._PROBED.clear()
    with (
        patch.object(obstore, "put", answer),
        pytest.raises(lakescan.UnsupportedFeature, match="does not refuse to create a file that exists"),
    ):
        lakescan.save(ROWS, path, format="delta", storage_options=settings)
    with pytest.raises(lakescan.NotATable):
        lakescan.table(path, storage_options=settings)


def test_every_endpoint_is_probed(settings, tmp_path: Path) -> None:
    """Two stores may have buckets of the same name."""
    path = f"s3://lake/{tmp_path.name}"
    lakescan.save(ROWS, f"{path}/here", format="delta", storage_options=settings)
    with s3_server("lake") as endpoint, patch.object(obstore, "put", ignoring):
        other = {**settings, "s3.endpoint": endpoint}
        with pytest.raises(lakescan.UnsupportedFeature, match="does not refuse"):
            lakescan.save(ROWS, f"{path}/there", format="delta", storage_options=other)


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("abfss://lake@account.dfs.core.windows.net/f", {"adls.dfs-storage-authority": ".dfs.local"}),
    ],
)
def test_an_endpoint_that_puts_would_not_reach_is_refused(location: str, options: dict[str, str]) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="at the endpoint"):
        put(Storage(options), location, b"")


def test_a_lock_table_is_refused_because_its_writers_overwrite(settings, tmp_path: Path) -> None:
    options = {**settings, "aws_s3_locking_provider": "dynamodb"}
    with pytest.raises(lakescan.UnsupportedFeature, match="locking provider"):
        lakescan.save(ROWS, f"s3://lake/{tmp_path.name}/t", format="delta", storage_options=options)


@pytest.mark.parametrize("is_made", [True, False])
@pytest.mark.parametrize("times", [1, 3])
def test_an_answer_that_is_lost_is_looked_up(settings, tmp_path: Path, is_made: bool, times: int) -> None:
    """The rows exist once, whether or not the first request was carried out."""
    path = f"s3://lake/{tmp_path.name}/{is_made}{times}"
    lakescan.save(ROWS, path, format="delta", storage_options=settings)
    left = [times]

    def lost(store: Any, name: str, data: bytes, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            return real(store, name, data, **named)
        if is_made and left[0] == times - 1:
            real(store, name, data, **named)
        raise GenericError("503 Slow Down")

    quick = RetryPolicy(attempts=4, first=0)
    with patch.object(obstore, "put", lost), patch.object(put_commit, "PUTS", quick):
        lakescan.save(ROWS, path, mode="append", storage_options=settings)
    assert lakescan.table(path, storage_options=settings).scan().count() == 6


def test_a_commit_to_a_store_that_never_answers_has_an_unknown_outcome(settings, tmp_path: Path) -> None:
    path = f"s3://lake/{tmp_path.name}/t"
    lakescan.save(ROWS, path, format="delta", storage_options=settings)

    def lost(*arguments: Any, **named: Any) -> Any:
        raise GenericError("503 Slow Down")

    quick = RetryPolicy(attempts=2, first=0)
    with (
        patch.object(obstore, "put", lost),
        patch.object(put_commit, "PUTS", quick),
        pytest.raises(lakescan.CommitStateUnknown, match="files are kept"),
    ):
        lakescan.save(ROWS, path, mode="append", storage_options=settings)
    table = lakescan.table(path, storage_options=settings)
    assert table.scan().count() == 3
    assert len(table.remove_orphans(older_than="2100-01-01", dry_run=True)) == 1


@pytest.mark.parametrize("is_read", [True, False])
def test_a_commit_that_was_made_and_then_refused_is_looked_up(settings, tmp_path: Path, is_read: bool) -> None:
    """A proxy answers for the store; once it requires a login, the commit cannot be looked up."""
    path = f"s3://lake/{tmp_path.name}/{is_read}"
    lakescan.save(ROWS, path, format="delta", storage_options=settings)
    target = lakescan.table(path, storage_options=settings)

    def refused(store: Any, name: str, data: bytes, **named: Any) -> Any:
        real(store, name, data, **named)
        raise PermissionDeniedError("403")

    def unseen(*arguments: Any) -> Any:
        raise lakescan.StorageError("403")

    with (
        patch.object(obstore, "put", refused),
        patch.object(retries, "LOOKS", RetryPolicy(attempts=2, first=0)),
    ):
        if is_read:
            target.append(ROWS)
        else:
            with patch.object(put_commit, "_whose", unseen), pytest.raises(lakescan.CommitStateUnknown):
                target.append(ROWS)
    assert lakescan.table(path, storage_options=settings).scan().count() == 6


def test_a_commit_that_the_store_refuses_was_not_made(settings, tmp_path: Path) -> None:
    path = f"s3://lake/{tmp_path.name}/t"
    lakescan.save(ROWS, path, format="delta", storage_options=settings)

    def refused(*arguments: Any, **named: Any) -> Any:
        raise PermissionDeniedError("403")

    with patch.object(obstore, "put", refused), pytest.raises(NotCreated):
        lakescan.save(ROWS, path, mode="append", storage_options=settings)
    assert lakescan.table(path, storage_options=settings).scan().count() == 3
    assert len(Storage(settings).find(path, ".parquet")) == 1
