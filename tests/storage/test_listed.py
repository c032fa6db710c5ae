"""A divided listing returns all files, each once, however it is divided."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.storage import Storage
from lakescan.storage import listing as listed
from lakescan.storage.listing import key_ranges, ranges_of
from tests.support.s3 import KEY, REGION, SECRET, s3_server
from tests.tables.support import rows

KEYS = st.lists(st.text("ab/=01é", min_size=1, max_size=6), max_size=60, unique=True)


def locations(storage: Storage, folder: str, **more: object) -> list[str]:
    return [each for part in listed.list_files(storage, folder, **more) for each in part["location"].to_pylist()]


@given(KEYS, st.integers(1, 4), st.integers(1, 20))
def test_ranges_have_each_key_once(keys: list[str], size: int, wanted: int) -> None:
    ordered = sorted(f"t/{key}" for key in keys)

    def page(after: str) -> list[str]:
        start = bisect_right(ordered, after)
        return ordered[start : start + size]

    ranges = key_ranges(page, "t/", size, wanted)
    found = [key for after, until in ranges for key in ordered if key > after and (until is None or key <= until)]
    assert found == ordered


def test_many_keys_with_long_prefixes_are_divided_about_equally() -> None:
    ordered = [f"lake/db/t/data/{number:05}-0-5f2c.parquet" for number in range(20_000)]
    pages = []

    def page(after: str) -> list[str]:
        pages.append(after)
        start = bisect_right(ordered, after)
        return ordered[start : start + 100]

    ranges = key_ranges(page, "lake/db/t/", 100)
    sizes = [sum(key > after and (until is None or key <= until) for key in ordered) for after, until in ranges]
    assert sum(sizes) == 20_000
    assert (len(ranges) >= 16, max(sizes) <= 2_000, len(pages) <= 300) == (True, True, True)


def test_local_folders_are_listed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "p=1/b", "p=1/c d%20", "p=1/q=2/é"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "again").symlink_to(tmp_path / "p=1")
    (tmp_path / "p=1" / "round").symlink_to(tmp_path)
    (tmp_path / "nothing").symlink_to(tmp_path / "missing")
    monkeypatch.setattr(listed, "_ROWS", 2)
    parts = list(listed.list_files(Storage(), str(tmp_path)))
    assert all(part.num_rows <= 2 for part in parts)
    found = {Path(row["location"]).resolve(): row for part in parts for row in part.to_pylist()}
    assert {each.name for each in found} == {"a", "b", "c d%20", "é"}
    assert all(row["size"] == len(path.read_bytes()) for path, row in found.items())
    rows = [row for part in parts for row in part.to_pylist()]
    assert {row["location"] for row in rows if row["modified"] is None} == {
        row["location"] for row in rows if "/again/" in row["location"] or "/round/" in row["location"]
    }
    own = {Path(row["location"]): row["modified"].timestamp() for row in rows if row["modified"] is not None}
    assert len(own) == 4
    assert all(abs(time - path.stat().st_mtime) < 0.01 for path, time in own.items())
    flat = locations(Storage(), str(tmp_path), deep=False)
    assert [each for each in flat if "/again/" not in each] == [f"{tmp_path}/a"]
    assert locations(Storage(), f"file://{tmp_path}/p=1/q=2") == [f"file://{tmp_path}/p=1/q=2/é"]
    assert locations(Storage(), str(tmp_path / "missing")) == []


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    with s3_server("bucket") as endpoint:
        yield Storage({"endpoint": endpoint, "access_key": KEY, "secret_key": SECRET, "region": REGION})


@pytest.mark.parametrize("odd", [[], ["e//f"]])
def test_a_flat_folder_of_s3_is_listed_by_ranges_of_keys(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, odd: list[str]
) -> None:
    """If one client refuses a key, the other lists it."""
    folder = f"s3://bucket/t{len(odd)}"
    credentials = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION}
    names = [f"p={part}/{number:02} %20é.parquet" for part in "abc" for number in range(6)]
    for name in names:
        with storage.create(f"{folder}/{name}") as file:
            file.write(name.encode())
    with storage.create(f"{folder}x/other") as file:
        file.write(b"")
    monkeypatch.setattr(listed, "_PAGE", 2)
    ranges = ranges_of(storage, folder)
    assert ranges is not None
    assert len(ranges) > 3
    for name in odd:
        client = boto3.client("s3", endpoint_url=storage.options["endpoint"], **credentials)
        client.put_object(Bucket="bucket", Key=f"t{len(odd)}/{name}", Body=b"odd")
    expected = sorted((each.location, each.size) for each in storage.walk(folder))
    parts = [part for each in ranges for part in listed.list_files(storage, folder, keys=each)]
    assert sorted((row["location"], row["size"]) for part in parts for row in part.to_pylist()) == expected


def test_orphans_in_s3_are_found_in_ranges_of_keys(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    location = "s3://bucket/orphans"
    lakescan.save(rows((1, "a")), location, format="delta", storage_options=storage.options)
    table = lakescan.table(location, storage_options=storage.options)
    for name in ("a.parquet", "part=b/deep/z.parquet", "_hidden/x.parquet"):
        with storage.create(f"{location}/{name}") as file:
            file.write(b"left behind")
    monkeypatch.setattr(listed, "_PAGE", 2)
    found = table.remove_orphans("2100-01-01", dry_run=True)
    assert list(found) == [f"{location}/a.parquet", f"{location}/part=b/deep/z.parquet"]
    assert found.bytes == 22
    assert table.health(orphans=True).orphans == 0  # younger than the retention
