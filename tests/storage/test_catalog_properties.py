"""A catalog's S3 properties have pyiceberg's meaning: Arrow's client gets the same arguments."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs as pafs
from pyiceberg.io import pyarrow as pyiceberg_files

from lakescan.errors import InvalidOption
from lakescan.storage import Storage, clients
from lakescan.storage.settings import catalog_properties
from tests.support.storage_environment import clean

KEYS = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}
REGION = {"s3.region": "eu-9"}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean(monkeypatch, tmp_path)


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record the arguments of each S3 client; AWS has all buckets in the region `found`."""
    made: list[dict[str, Any]] = []

    def create(**named: Any) -> pafs.FileSystem:
        made.append({name: value for name, value in named.items() if value is not None})
        return pafs.LocalFileSystem()

    monkeypatch.setattr(pafs, "S3FileSystem", create)
    monkeypatch.setattr(pafs, "resolve_s3_region", lambda bucket: "found")
    catalog_properties._bucket_region.cache_clear()
    pyiceberg_files._cached_resolve_s3_region.cache_clear()
    return made


def arguments_of_both(
    properties: Mapping[str, str], arguments: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    pyiceberg_files.PyArrowFileIO(dict(properties)).fs_by_scheme("s3", "lake")
    Storage(io_properties=properties).resolve("s3://lake/t/1.parquet")
    theirs, ours = arguments
    return theirs, ours


@pytest.mark.parametrize(
    "properties",
    [
        KEYS,
        {"client.access-key-id": "k", "client.secret-access-key": "s", "client.session-token": "t", **REGION},
        {**KEYS, "s3.session-token": "t", "client.region": "eu-9"},
        {"s3.endpoint": "https://host:1", **REGION},
        {"s3.endpoint": "host:1", **REGION},
        {"s3.proxy-uri": "http://proxy:1", **REGION},
        {"s3.connect-timeout": "1.5", "s3.request-timeout": "20", **REGION},
        {"s3.role-arn": "arn:1", "s3.role-session-name": "n", **REGION},
        {"client.role-arn": "arn:1", "client.role-session-name": "n", **REGION},
        {"s3.force-virtual-addressing": "true", **REGION},
        {"s3.force-virtual-addressing": "false", **REGION},
        {"s3.path-style-access": "false", **REGION},
        {"s3.anonymous": "true", **REGION},
        {"s3.anonymous": "false", **REGION},
        {"client.profile-name": "nobody", **REGION},
        {"s3.resolve-region": "true", **REGION},
        {"s3.resolve-region": "false", **REGION},
        {"s3.endpoint": "https://host:1"},
        {"dfs.nameservices": "lab"},
    ],
)
def test_properties_have_the_meaning_of_pyiceberg(
    properties: Mapping[str, str], arguments: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SKIP_SIGNATURE", "AWS_ALLOW_HTTP"):  # settings of other libraries
        monkeypatch.setenv(name, "true")
    theirs, ours = arguments_of_both(properties, arguments)
    assert ours == theirs


def test_the_scheme_of_an_endpoint_is_the_clients_own(arguments: list[dict[str, Any]]) -> None:
    theirs, ours = arguments_of_both({"s3.endpoint": "http://host:1", **REGION}, arguments)
    assert ours == {**theirs, "scheme": "http"}


def test_an_unknown_region_is_left_to_arrow(
    arguments: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(bucket: str) -> str:
        raise OSError("not found")

    monkeypatch.setattr(pafs, "resolve_s3_region", fails)
    with caplog.at_level(logging.WARNING, "lakescan"):
        theirs, ours = arguments_of_both(KEYS, arguments)
    assert ours == theirs == {"access_key": "k", "secret_key": "s"}
    assert "set s3.region" in caplog.text


def test_a_retry_strategy_is_named_by_its_class(arguments: list[dict[str, Any]]) -> None:
    name = f"{__name__}.Patient"
    theirs, ours = arguments_of_both({"s3.retry-strategy-impl": name, **REGION}, arguments)
    assert type(ours["retry_strategy"]) is type(theirs["retry_strategy"]) is Patient


def test_a_missing_retry_strategy_causes_a_warning(
    arguments: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "lakescan"):
        Storage(io_properties={"s3.retry-strategy-impl": "nowhere.Patient", **REGION}).resolve("s3://lake/t")
    assert arguments == [{"region": "eu-9"}]
    assert "nowhere.Patient" in caplog.text


def test_half_of_the_keys_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"s3\.secret-access-key"):
        clients.connect_by_catalog("s3", "lake", {"s3.access-key-id": "k", **REGION}, None, "s3://lake/t")


class Patient(pafs.AwsStandardS3RetryStrategy):
    """A user-defined retry strategy."""
