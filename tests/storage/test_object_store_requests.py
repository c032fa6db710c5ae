"""The number of requests to an object store: each one costs a round trip, so an added request must be declared here."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pytest

import lakescan
from lakescan.common.cache import CACHE
from lakescan.delta.log.reader import RememberingStorage
from lakescan.errors import MissingFile, StorageError
from lakescan.local.reader import read_batches
from lakescan.storage import Storage
from tests.support.faulty_s3 import REFUSED, FaultyS3, faulty_s3
from tests.support.s3 import KEY, REGION, SECRET

COMMITS, FILES = 30, 40


class Bucket:
    """A bucket that counts requests, with the folders uploaded to it."""

    def __init__(self, endpoint: str, counted: FaultyS3) -> None:
        self.counted = counted
        self.options = {"endpoint": endpoint, "access_key": KEY, "secret_key": SECRET, "region": REGION}
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION}
        self._client = boto3.client("s3", endpoint_url=endpoint, **keys)

    def put(self, key: str, data: bytes) -> str:
        self._client.put_object(Bucket="bucket", Key=key, Body=data)
        return f"s3://bucket/{key}"

    def upload(self, folder: Path) -> str:
        """Upload a folder and return the location of the copy."""
        for each in folder.rglob("*"):
            if each.is_file():
                self.put(f"{folder.name}/{each.relative_to(folder)}", each.read_bytes())
        return f"s3://bucket/{folder.name}"

    def storage(self, **more: str) -> Storage:
        return Storage({**self.options, **more})

    def start(self) -> None:
        """Start counting, with nothing cached."""
        CACHE.clear()
        self.counted.requests.clear()


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with faulty_s3("bucket") as (endpoint, counted):
        yield Bucket(endpoint, counted)


@pytest.fixture(scope="module")
def commits(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Upload a Delta table of many commits of one file."""
    folder = tmp_path_factory.mktemp("tables") / "commits"
    for number in range(COMMITS):
        lakescan.save(pa.table({"n": [number]}), str(folder), format="delta", mode="append")
    return bucket.upload(folder)


@pytest.fixture(scope="module")
def small_files(bucket: Bucket, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Upload a Delta table of one commit of many small files."""
    folder = tmp_path_factory.mktemp("tables") / "small"
    rows = pa.table({"n": range(FILES), "p": range(FILES)})
    lakescan.save(rows, str(folder), format="delta", partition_by=["p"])
    return bucket.upload(folder)


def test_a_whole_file_is_one_request(bucket: Bucket) -> None:
    location = bucket.put("some", b"0123456789")
    bucket.start()
    assert bucket.storage().read(location) == b"0123456789"
    assert bucket.counted.requests == {"get": 1}


def test_a_missing_file_is_one_request(bucket: Bucket) -> None:
    bucket.start()
    with pytest.raises(MissingFile, match="s3://bucket/nothing is listed in the table's metadata but is not"):
        bucket.storage().read("s3://bucket/nothing")
    assert bucket.counted.requests == {"get": 1}


@pytest.mark.parametrize("size", [9, 11])
def test_a_file_of_another_size_than_listed_is_refused(bucket: Bucket, size: int) -> None:
    location = bucket.put("some", b"0123456789")
    with pytest.raises(StorageError, match=f"has 10 bytes, but was listed with {size}"):
        bucket.storage().read(location, size=size)


@pytest.mark.parametrize(("name", "content"), [("empty", b""), ("with blank", b"x"), ("é%20", b"y")])
def test_files_of_any_name_and_size_are_read(bucket: Bucket, name: str, content: bytes) -> None:
    assert bucket.storage().read(bucket.put(name, content)) == content


def test_settings_unsupported_by_one_client_leave_reading_to_the_other(bucket: Bucket) -> None:
    location = bucket.put("some", b"0123456789")
    bucket.start()
    assert bucket.storage(connect_timeout="5").read(location) == b"0123456789"
    assert bucket.counted.requests == {"head": 1, "range": 1}


def test_a_refused_request_is_retried(bucket: Bucket) -> None:
    location = bucket.put("some", b"0123456789")
    with bucket.counted.armed(REFUSED, 0):
        assert bucket.storage().read(location) == b"0123456789"
        assert bucket.counted.has_met


def test_names_are_listed_with_start_after(bucket: Bucket) -> None:
    for name in ("a", "b", "c", "d/e"):
        bucket.put(f"names/{name}", name.encode())
    bucket.start()
    pages = bucket.storage().names_after("s3://bucket/names", "a")
    assert pages is not None
    found = [(each.name, each.location, each.size) for page in pages for each in page]
    names = ["b", "c", "d/e"]
    assert found == [(name, f"s3://bucket/names/{name}", len(name)) for name in names]
    assert bucket.counted.requests == {"list": 1}


def test_each_log_file_is_requested_once(bucket: Bucket, commits: str) -> None:
    """Opening and planning: a checkpoint and the commits after it, plus `_last_checkpoint` and a checksum."""
    bucket.start()
    table = lakescan.table(commits, storage_options=bucket.options)
    plan = table.scan().plan()
    assert plan.files.num_rows == COMMITS
    requests = bucket.counted.requests
    since = COMMITS % 10  # a checkpoint is written every ten commits, by default
    assert requests["get"] <= since + 10 + 3
    assert requests["head"] <= 3
    assert requests["list"] <= 4
    assert requests["range"] == 0


def test_small_files_are_one_request_each(bucket: Bucket, small_files: str) -> None:
    bucket.start()
    rows = lakescan.table(small_files, storage_options=bucket.options).scan().to_arrow()
    assert sorted(rows["n"].to_pylist()) == list(range(FILES))
    requests = bucket.counted.requests
    assert requests["get"] <= FILES + 4  # the files; the log: _last_checkpoint, a commit, a checksum
    assert requests["head"] <= 3
    assert requests["range"] == 0


def test_plans_of_a_scan_share_the_threads_that_fetch_files(bucket: Bucket, small_files: str) -> None:
    """A table of a million files has a hundred plans."""
    spec = lakescan.table(small_files, storage_options=bucket.options).scan().spec
    whole = spec.plan()
    plans = [spec.plan_of(whole, pa.array(n % 10 == part for n in range(FILES))) for part in range(10)]
    rows = 0
    for batch in read_batches((plan, spec.read_context(plan)) for plan in plans):
        rows += batch.num_rows
        names = [each.name for each in threading.enumerate() if each.name.startswith("lakescan-ahead")]
        assert len(set(names)) == len(names)  # they are numbered in each pool
    assert rows == FILES


def test_the_first_rows_need_no_other_files(bucket: Bucket, small_files: str) -> None:
    bucket.start()
    rows = lakescan.table(small_files, storage_options=bucket.options).scan().limit(1).to_arrow()
    assert rows.num_rows == 1
    assert bucket.counted.requests["get"] <= 5


def test_small_files_are_read_by_either_client(bucket: Bucket, small_files: str) -> None:
    options = {**bucket.options, "connect_timeout": "5"}
    rows = lakescan.table(small_files, storage_options=options).scan().to_arrow()
    assert sorted(rows["n"].to_pylist()) == list(range(FILES))


def test_a_log_file_of_another_size_than_remembered_is_requested_again(bucket: Bucket) -> None:
    """The location may hold another table now."""
    location = bucket.put("log/0.json", b"old")
    storage = RememberingStorage.copy_from(bucket.storage())
    bucket.start()
    assert [storage.read(location, size=3), storage.read(location)] == [b"old", b"old"]
    assert bucket.counted.requests == {"get": 1}
    bucket.put("log/0.json", b"newer")
    assert [storage.read(location, size=5), storage.read(location)] == [b"newer", b"newer"]
    with pytest.raises(StorageError, match="was listed with 3"):
        storage.read(location, size=3)
