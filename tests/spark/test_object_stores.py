"""Object stores on Spark: the native lane is used only if the session's Spark reads the same objects.

The store implements S3 and serves one folder as every bucket. Spark has no S3 JAR here: one of Hadoop's own filesystems
is registered as `s3a` over the same folder. `tests/spark/test_s3a.py` uses the real client.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.slow_store import slow_store
from deltalake import write_deltalake
from samples.delta_deletes import commit_vectors, stored_vector
from samples.iceberg_deletes import (
    commit_deletes,
    write_deletion_vectors,
    write_equality_deletes,
    write_position_deletes,
)

import lakescan
from lakescan.spark.native import filesystems, lanes
from tests.spark.test_lanes import logged
from tests.support.catalog import local_catalog
from tests.support.rows import differences

pytestmark = pytest.mark.spark
KEY, SECRET = "some-access-key", "some-secret-key"


@dataclass(frozen=True)
class Lake:
    """A folder, the bucket that serves it, and the options with which lakescan reaches it."""

    spark: Any
    folder: Path
    bucket: str
    options: dict[str, str]

    def scan(self, path: str, **more: Any) -> lakescan.Scan:
        """Scan a table of the folder, read from the bucket."""
        there = f"s3://{self.bucket}"
        moved = {f"file://{self.folder}": there, str(self.folder): there}
        arguments = {"storage_options": self.options, "relocate": moved, **more}
        return lakescan.table(path.replace(f"file://{self.folder}", there), **arguments).scan()

    def of(self, path: Path, **more: Any) -> lakescan.Scan:
        return self.scan(f"file://{path}", **more)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("store")
    with slow_store(folder, 0, changes=True) as running:
        yield folder, running.endpoint


@pytest.fixture
def lake(spark, store: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Make a new bucket, in a session with the settings of its store."""
    monkeypatch.setattr(lanes, "LEAST_IN_STORES", 0)
    folder, endpoint = store
    bucket = f"b{uuid.uuid4().hex[:8]}"
    here = folder / bucket
    here.mkdir()
    settings = {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        f"fs.viewfs.mounttable.{bucket}.link./{bucket}": f"file://{here}",
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
    }
    options = {"s3.endpoint": endpoint, "s3.region": "us-east-1"}
    options |= {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    for name, value in settings.items():
        spark.conf.set(name, value)
    filesystems.forget(spark)
    yield Lake(spark, folder, bucket, options)
    for name in settings:
        spark.conf.unset(name)


def native(lake: Lake, scan: lakescan.Scan) -> pa.Table:
    """Return the rows of the native lane, after comparing them with the Arrow lane's and in-process rows."""
    frame = scan.options(lane="native").to_spark(lake.spark)
    plan = frame._jdf.queryExecution().toString()
    assert f"s3a://{lake.bucket}" in plan
    assert SECRET not in plan
    found = frame.toArrow()
    assert differences(found, scan.to_arrow()) == ""
    assert differences(found, scan.options(lane="arrow").to_spark(lake.spark).toArrow()) == ""
    return found


@pytest.fixture
def numbers(lake: Lake) -> Any:
    """Make an Iceberg table of the numbers 0 to 249 in two files."""
    table = local_catalog(lake.folder / lake.bucket).create_table("n.t", pa.schema({"n": pa.int64(), "s": pa.string()}))
    for low, high in ((0, 100), (100, 250)):
        table.append(pa.table({"n": range(low, high), "s": [f"s{i % 7}" for i in range(low, high)]}))
    return table


def files_of(location: str) -> list[str]:
    """Return the table's data files in the folder, by their first number."""
    plan = lakescan.table(location).scan().where("n >= 0").plan()
    lowest = [row["n"]["lower"] for row in plan.column_stats.to_pylist()]
    return [path for _, path in sorted(zip(lowest, plan.files["path"].to_pylist(), strict=True))]


def test_deletes_of_all_kinds_are_read_natively(lake: Lake, numbers: Any) -> None:
    first, second = files_of(numbers.metadata_location)
    folder = f"{numbers.location()}/data"
    positions = [write_position_deletes(f"{folder}/p.parquet", [(first, 0), (first, 64), (second, 3)])]
    location = commit_deletes(numbers.metadata_location, positions)
    keys = write_equality_deletes(f"{folder}/e.parquet", pa.table({"n": [7, 149]}), {"n": 1})
    location = commit_deletes(location, [keys])
    vectors = write_deletion_vectors(f"{folder}/v.puffin", {second: [0, 63, 149]})
    location = commit_deletes(location, vectors, format_version=3)
    found = native(lake, lake.scan(location).select("n", "_pos", "_file"))
    assert found.num_rows == 250 - 2 - 2 - 3
    assert {row["_file"] for row in found.to_pylist()} == {first, second}  # as the metadata names them
    assert native(lake, lake.scan(location).where("n > 145 and s = 's2'")).num_rows == 13


def test_objects_of_the_same_size_are_distinguished_by_their_keys(lake: Lake) -> None:
    """Keys are not URL-encoded, but Spark's paths are."""
    folder = lake.folder / lake.bucket / "a b+é"
    for start in (10, 20, 30):
        write_deltalake(folder, pa.table({"n": range(start, start + 5)}), mode="append")
    data = sorted(folder.glob("*.parquet"), key=lambda f: pq.read_table(f)["n"][0].as_py())
    assert len({file.stat().st_size for file in data}) == 1
    commit_vectors(folder, {file.name: stored_vector(folder, [place]) for place, file in enumerate(data)})
    found = native(lake, lake.of(folder))
    assert sorted(found["n"].to_pylist()) == [11, 12, 13, 14, 20, 22, 23, 24, 30, 31, 33, 34]


NATIVE = ["f 8", "f%419", "f+x", "f#x", "f=ä", "f;,&~@+'\"|^", "n\u00a0n", "e\u2003m", "\U0001f600", "%2520"]
NATIVE += ["f[3]", "f{4}", "f{a,b}", "f*5", "f?6", "f\\7", "_u", ".h"]
OTHERS = ["f:1", "10.x:2", "a\tb"]


def test_names_of_objects_are_literal(lake: Lake) -> None:
    """Spark's reader gets the files by name; each has deletes, which are found by its name."""
    folder = lake.folder / lake.bucket / "t"
    write_deltalake(folder, pa.table({"n": [0, 0]}))
    names, adds = [*NATIVE, *OTHERS], []
    for n, name in enumerate(names, 1):
        path = folder / f"{name}.parquet"
        pq.write_table(pa.table({"n": pa.array([n, -n], pa.int64())}), path)
        add = {"path": quote(path.name), "size": path.stat().st_size, "partitionValues": {}}
        adds.append({**add, "deletionVector": stored_vector(folder, [1])})
    lines = [json.dumps({"add": add | {"modificationTime": 0, "dataChange": True}}) for add in adds]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    lines.append(json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}))
    (folder / "_delta_log" / f"{1:020}.json").write_text("\n".join(lines))
    scan = lake.of(folder)
    text = lakescan.spark.explain(scan)
    assert f"{len(NATIVE) + 1} files in the native lane" in text
    assert f"{len(OTHERS)} files in the Arrow lane: its path has a colon or a control character" in text
    found = scan.to_spark(lake.spark).toArrow()
    assert sorted(found["n"].to_pylist()) == [0, *range(len(names) + 1)]


def test_a_store_that_spark_has_no_filesystem_for_goes_through_arrow(lake: Lake, numbers: Any) -> None:
    lake.spark.conf.unset("fs.s3a.impl")
    scan = lake.scan(numbers.metadata_location)
    assert "the session's Spark has no filesystem for s3a://" in lakescan.spark.explain(scan)
    assert scan.to_spark(lake.spark).count() == 250
    with pytest.raises(lakescan.UnsupportedFeature, match="no filesystem for s3a://"):
        scan.options(lane="native").to_spark(lake.spark)


def test_spark_is_queried_once_per_store(lake: Lake, numbers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    sizes = filesystems._sizes
    monkeypatch.setattr(
        filesystems, "_sizes", lambda spark, paths, **more: asked.append(paths) or sizes(spark, paths, **more)
    )
    for _ in range(3):
        assert len(lake.scan(numbers.metadata_location).to_spark(lake.spark).collect()) == 250
    assert [paths[0].partition(":")[0] for paths in asked] == ["s3a"]


@pytest.mark.parametrize("name", ["fs.s3a.endpoint", "fs.s3a.access.key", "fs.s3a.secret.key"])
@pytest.mark.parametrize("value", ["http://127.0.0.1:1", None])
def test_a_session_without_the_settings_of_the_options_goes_through_arrow(
    lake: Lake, numbers: Any, name: str, value: str | None
) -> None:
    """The reason shows no value."""
    if value is None:
        lake.spark.conf.unset(name)
    else:
        lake.spark.conf.set(name, value)
    scan = lake.scan(numbers.metadata_location)
    text = lakescan.spark.explain(scan)
    assert f"the same in the session's Spark (spark.hadoop.{name}, where it can be set)" in text
    assert KEY not in text
    assert SECRET not in text
    frame = scan.to_spark(lake.spark)
    assert frame.count() == 250
    assert SECRET not in frame._jdf.queryExecution().toString()
    with pytest.raises(lakescan.UnsupportedFeature, match=name):
        scan.options(lane="native").to_spark(lake.spark)


def test_a_store_with_other_objects_under_the_same_names_is_not_read(lake: Lake, numbers: Any, tmp_path: Path) -> None:
    """The visible settings agree, but Spark finds other objects."""
    (tmp_path / lake.bucket).mkdir()
    link = f"fs.viewfs.mounttable.{lake.bucket}.link./{lake.bucket}"
    lake.spark.conf.set(link, f"file://{tmp_path}/{lake.bucket}")
    scan = lake.scan(numbers.metadata_location)
    assert "Spark does not find its files" in lakescan.spark.explain(scan)
    assert scan.to_spark(lake.spark).count() == 250
    for path in files_of(numbers.metadata_location):
        other = tmp_path / Path(path.removeprefix("file://")).relative_to(lake.folder)
        other.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [-1], "s": ["other"]}), other)
    assert "and the table's has" in lakescan.spark.explain(scan)
    assert scan.to_spark(lake.spark).count() == 250


def test_a_store_that_does_not_answer_goes_through_arrow(
    lake: Lake, numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filesystems, "_MOST_SECONDS", 0)
    scan = lake.scan(numbers.metadata_location)
    assert "had not looked up a file" in lakescan.spark.explain(scan)
    assert scan.to_spark(lake.spark).count() == 250


@pytest.mark.parametrize(
    ("files", "count", "reason"),
    [
        ([(f"s3://b/{n}.parquet", 2**23) for n in range(10_000)], 10_000, None),
        ([(f"s3://b/{n}.parquet", 2**23) for n in range(10_001)], 0, "more than 10,000 files"),
        ([(f"s3://b/{n}.parquet", 2**23 - 1) for n in range(100)], 100, None),
        ([(f"s3://b/{n}.parquet", 2**23 - 1) for n in range(101)], 0, "more than 100 small files"),
        ([(f"s3://b{n}/x.parquet", 2**24) for n in range(18)], 16, "in another bucket than the first 16"),
    ],
)
def test_requests_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[tuple[str, int]], count: int, reason: str | None
) -> None:
    """Spark makes three requests per file and one per bucket."""
    monkeypatch.setattr(lanes, "root_for_spark", lambda *_, **_more: ("s3a://b", ""))
    scan = lakescan.table(logged(tmp_path, files)).scan().spec
    session: Any = object()
    found = lanes.choose_lanes(scan, scan.plan(), session)
    assert found.native.sum() == count
    assert (reason is None) if not found.reasons else (reason is not None and reason in next(iter(found.reasons)))


def test_without_a_session_there_is_no_filesystem(tmp_path: Path) -> None:
    scan = lakescan.table(logged(tmp_path, [("gs://b/x.parquet", 2**28)])).scan().spec
    assert "without a session" in next(iter(lanes.choose_lanes(scan, scan.plan(), None).reasons))


def test_spark_is_not_queried_for_a_small_table(tmp_path: Path) -> None:
    """Unless the native lane is requested explicitly."""
    scan = lakescan.table(logged(tmp_path, [("s3://b/x.parquet", 2**28 - 1)])).scan()
    session: Any = object()  # which would fail if it were used
    found = lanes.choose_lanes(scan.spec, scan.spec.plan(), session)
    assert "are read faster by Arrow" in next(iter(found.reasons))
    by_name = scan.options(lane="native").spec
    assert "without a session" in next(iter(lanes.choose_lanes(by_name, by_name.plan(), None).reasons))
