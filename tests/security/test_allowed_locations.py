"""A table's metadata cannot make lakescan use a location outside the allowed ones."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.errors import LocationRefused
from lakescan.storage import Storage
from lakescan.storage import allowed_locations as allowed_module
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.locations import normal
from tests.fuzz.tables import SAMPLES
from tests.support.s3 import KEY, REGION, SECRET, s3_server

REMOTE = AllowedLocations("s3://lake/t")
LOCAL = AllowedLocations("/lake/t")


@pytest.fixture
def hostile(tmp_path: Path) -> tuple[Path, Path]:
    """Make a local Delta table, and a file outside that its last commit names by an absolute path."""
    table, secret = tmp_path / "table", tmp_path / "other" / "secret.parquet"
    next(each for each in SAMPLES if each.name == "delta-log").make(table)
    secret.parent.mkdir()
    pq.write_table(pa.table({"n": pa.array([42], pa.int64())}), secret)
    add_file(table, secret.as_uri(), secret.stat().st_size)
    return table, secret


def add_file(table: Path, path: str, size: int) -> None:
    log = table / "_delta_log"
    add = {"path": path, "partitionValues": {"p": "x"}, "size": size, "modificationTime": 1, "dataChange": True}
    version = len(list(log.glob("*.json")))
    (log / f"{version:020d}.json").write_text(json.dumps({"add": add}) + "\n")


@pytest.mark.parametrize("local", ["file:///etc/passwd", "/etc/passwd", "file:/etc/passwd", "etc/passwd", "FILE:/x"])
def test_a_table_in_a_remote_store_cannot_reference_local_files(local: str) -> None:
    for home in ("s3://lake/t", "gs://lake/t", "abfss://c@a.dfs.core.windows.net/t", "hdfs://name/t"):
        with pytest.raises(LocationRefused, match="local file"):
            Storage(allowed=AllowedLocations(home)).resolve(local)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.169.254:80",
        "user@169.254.169.254",
        "2852039166",
        "0xA9FEA9FE",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]:80",
        "[fe80::1]",
        "metadata.google.internal",
        "METADATA.google.internal.",
        "100.100.100.200",
        "168.63.129.16",
        "metadata.goog",
        "0251.0376.0251.0376",
        "025177524776",
        "169.254.43518",
        "0xa9.0xfe.0xa9.0xfe:80",
        "169.254.169.254.",
        "169%2e254%2e169%2e254",
        "\uff11\uff16\uff19.254.169.254",
        "169\u3002254\uff61169.254",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
        "[::a9fe:a9fe]",
        "[fe80::1%25eth0]",
        "[fd20:ce::254]",
    ],
)
@pytest.mark.parametrize("allowed", [REMOTE, LOCAL])
def test_no_table_can_reference_a_credential_service(host: str, allowed: AllowedLocations) -> None:
    for scheme in ("hdfs", "abfss", "http"):
        with pytest.raises(LocationRefused, match="credentials"):
            Storage(allowed=allowed).current_location(f"{scheme}://{host}/latest/meta-data")


@pytest.mark.parametrize("other", ["s3://other/f", "s3a://lake/x", "gs://b/f", "abfss://c@b.dfs.core.windows.net/f"])
def test_files_added_from_other_buckets_are_read(other: str) -> None:
    assert Storage(allowed=REMOTE).current_location(other) == other
    assert Storage(allowed=LOCAL).current_location("file:///elsewhere/f") == "file:///elsewhere/f"


def test_relocated_prefixes_are_allowed_but_nothing_above_them() -> None:
    storage = Storage(relocate={"s3://old": "/mnt/copy"}, allowed=REMOTE)
    assert storage.current_location("s3://old/t/f") == "/mnt/copy/t/f"
    assert storage.current_location("s3://old/t/../f") == "/mnt/copy/t/../f"
    for climbing in ("s3://old/../../etc/passwd", "s3://old/t/../../../etc/passwd", "s3://old/../copy2/f"):
        with pytest.raises(LocationRefused, match="leads out of it"):
            storage.current_location(climbing)


def test_a_table_can_reference_only_allowed_locations_and_its_own_folder() -> None:
    allowed = AllowedLocations().at("s3://lake/t", ["s3://shared/in/"])
    for reached in ("s3://lake/t", "s3a://lake/t/data/f", "s3://shared/in/f", "s3://lake/t/x/../f"):
        allowed.check(reached)
    refused = ("s3://lake/t2/f", "s3://lake/t/../u/f", "s3://shared/f", "s3://shared/in/../f", "s3://other/t/f", "/t/f")
    for each in (*refused, "gs://lake/t/f", "s3://lake/t/./../../x", "file:///lake/t/f"):
        with pytest.raises(LocationRefused, match="allowed-locations"):
            allowed.check(each)


def test_usual_locations_are_compared_as_text_whatever_prefix_they_are_below(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(location: str) -> str:
        assert location.count("/") < 3, f"{location} is normalized by Arrow, which takes a millisecond"
        return normal(location)

    monkeypatch.setattr(allowed_module, "normal", slow)
    for root in ("s3://lake", "gs://lake", "hdfs://name:9000", "abfss://c@a.dfs.core.windows.net"):
        allowed = AllowedLocations().at(f"{root}/t", ["s3://first/", "hdfs://other/x", f"{root}/raw"])
        for reached in ("t/data/p=1/f.parquet", "raw/f"):
            allowed.check(f"{root}/{reached}")
        with pytest.raises(LocationRefused):
            allowed.check(f"{root}/raw2/f")


def test_a_prefix_is_a_store_under_any_of_its_names_or_all_stores_of_a_kind() -> None:
    allowed = AllowedLocations(None, ("hdfs://Name:8020/t", "abfss://c@A.blob.core.windows.net/t", "s3://"))
    for reached in ("hdfs://name/t/f", "abfs://c@a.dfs.core.windows.net/t/f", "s3a://any/f"):
        allowed.check(reached)
    for refused in ("hdfs://name:9000/t/f", "abfs://d@a.dfs.core.windows.net/t/f", "gs://any/f"):
        with pytest.raises(LocationRefused):
            allowed.check(refused)


def test_a_table_of_a_metadata_file_has_the_folder_above_it() -> None:
    allowed = AllowedLocations().at("s3://lake/t/metadata/v1.metadata.json", [])
    allowed.check("s3://lake/t/data/f")
    with pytest.raises(LocationRefused):
        allowed.check("s3://lake/u/data/f")


def test_links_cannot_lead_out_of_an_allowed_folder(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "secret").write_text("x")
    (tmp_path / "t/link").symlink_to(tmp_path / "secret")
    with pytest.raises(LocationRefused):
        AllowedLocations(None, (str(tmp_path / "t"),)).check(str(tmp_path / "t/link"))


def test_limits_are_sent_to_workers_and_writers() -> None:
    storage = Storage(allowed=AllowedLocations().at("s3://lake/t", []))
    for each in (pickle.loads(pickle.dumps(storage)), Storage.copy_from(storage), storage.request_write_access()):
        with pytest.raises(LocationRefused):
            each.open("s3://other/f").__enter__()


def test_a_table_with_limits_shares_no_cache_with_one_without(hostile: tuple[Path, Path]) -> None:
    table, secret = hostile
    assert 42 in lakescan.table(str(table)).scan().to_arrow()["n"].to_pylist()
    with pytest.raises(LocationRefused, match=r"secret\.parquet"):
        lakescan.table(str(table), allowed_locations=[]).scan().to_arrow()
    limited = lakescan.table(str(table), allowed_locations=[str(secret.parent)])
    assert 42 in limited.scan().to_arrow()["n"].to_pylist()


def test_every_engine_in_process_obeys_the_limits(hostile: tuple[Path, Path]) -> None:
    table = lakescan.table(str(hostile[0]), allowed_locations=[])
    for read in (
        lambda: table.scan().count() if table.scan().where("n = 42").to_arrow() else None,
        lambda: table.scan().to_pandas(),
        lambda: table.scan().to_polars(),
        lambda: lakescan.sql("SELECT sum(n) FROM t", t=table).to_arrow(),
        lambda: list(table.scan().to_batches()),
    ):
        with pytest.raises(LocationRefused):
            read()


def test_a_table_in_s3_that_names_a_local_file_is_refused_as_a_whole(hostile: tuple[Path, Path]) -> None:
    import boto3

    table, _ = hostile
    with s3_server("lake") as endpoint:
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name=REGION
        )
        for file in table.rglob("*"):
            if file.is_file():
                client.upload_file(str(file), "lake", f"t/{file.relative_to(table)}")
        settings = {
            "s3.endpoint": endpoint, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION,
        }  # fmt: skip
        opened = lakescan.table("s3://lake/t", storage_options=settings)
        with pytest.raises(LocationRefused, match="local file"):
            opened.scan().to_arrow()
        assert opened.scan().as_of(version=4).to_arrow().num_rows == 86


@pytest.mark.parametrize("catalog_says", [None, "s3://lake"])
def test_the_reader_sets_the_allowed_locations_of_a_catalog(catalog_says: str | None) -> None:
    from lakescan.tables.base import CatalogTable

    given = None if catalog_says is None else (catalog_says,)
    found = CatalogTable("iceberg", "s3://lake/t/metadata/1.metadata.json", allowed_locations=given)
    storage = found.storage()
    storage.current_location("s3://lake/t/f")
    if given is None:
        storage.current_location("s3://other/f")
    else:
        with pytest.raises(LocationRefused):
            storage.current_location("s3://other/f")
    with pytest.raises(LocationRefused):
        storage.current_location("/etc/passwd")
