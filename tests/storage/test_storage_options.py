"""Filesystem settings: each setting under every name of the ecosystem; unknown settings are refused."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from lakescan.errors import InvalidOption, StorageError
from lakescan.storage import Storage, clients, reachable
from lakescan.storage.errors import advice
from lakescan.storage.settings import SETTINGS, StorageOptions
from lakescan.storage.settings.obstore_settings import client_settings

KEYS = {"access_key": "k", "secret_key": "s"}


def s3(options: dict[str, Any], **environment: str) -> dict[str, Any]:
    return StorageOptions.parse(options).s3(environment)


def client(options: dict[str, Any], **environment: str) -> dict[str, str]:
    """Return the arguments of obstore's bucket client."""
    return client_settings(StorageOptions.parse(options), "s3", "bucket", environment)


@pytest.mark.parametrize(
    "name",
    ["s3.endpoint", "AWS_ENDPOINT_URL", "aws_endpoint_url_s3", "endpoint_override", "fs.s3a.endpoint", "endpoint"],
)
def test_an_endpoint_has_many_names(name: str) -> None:
    assert s3({name: "http://h:1"}) == {"endpoint_override": "http://h:1", "scheme": "http"}
    assert client({f"spark.hadoop.{name}": "http://h:1"}) == {"aws_endpoint_url": "http://h:1", "allow_http": "true"}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("s3.access-key-id", "s3.secret-access-key"), KEYS),
        (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), KEYS),
        (("access_key", "secret_key"), KEYS),
        (("fs.s3a.access.key", "fs.s3a.secret.key"), KEYS),
        (("client.access-key-id", "client.secret-access-key"), KEYS),
    ],
)
def test_keys_have_many_names(names: tuple[str, str], expected: dict[str, str]) -> None:
    assert s3(dict(zip(names, "ks", strict=True))) == expected


def test_values_are_read_whatever_form_they_come_in() -> None:
    found = s3({"s3.connect-timeout": "10.0", "fs.s3a.path.style.access": "true", "AWS_SKIP_SIGNATURE": "True"})
    assert found == {"connect_timeout": 10.0, "force_virtual_addressing": False, "anonymous": True}
    assert s3({"endpoint": "h:1", "allow_http": "true"}) == {"endpoint_override": "h:1", "scheme": "http"}
    assert s3({"fs.s3a.connection.timeout": "2000", "fs.s3a.threads.max": "9"}) == {"request_timeout": 2.0}


def test_the_environment_is_used_if_nothing_is_given() -> None:
    said = {"AWS_ENDPOINT_URL": "http://all:1", "AWS_REGION": "eu-1", "AWS_SECRET_ACCESS_KEY": "s"}
    assert s3({}, **said) == {"endpoint_override": "http://all:1", "scheme": "http", "region": "eu-1"}
    assert s3({}, **said, AWS_ENDPOINT_URL_S3="https://s3:1")["endpoint_override"] == "https://s3:1"
    assert "endpoint_override" not in s3({}, **said, AWS_IGNORE_CONFIGURED_ENDPOINT_URLS="true")
    assert s3({"s3.endpoint": "https://own", "s3.region": "us"}, **said)["endpoint_override"] == "https://own"
    assert s3({"s3.access-key-id": "k"}, **said)["secret_key"] == "s"
    assert client({}, **said)["allow_http"] == "true"


def test_half_of_the_keys_is_refused() -> None:
    with pytest.raises(InvalidOption, match="AWS_SECRET_ACCESS_KEY"):
        s3({"s3.access-key-id": "k"})


def test_a_profile_gives_its_keys_and_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[lab]\naws_access_key_id = k\naws_secret_access_key = s\n")
    (tmp_path / "config").write_text("[profile lab]\nregion = eu-9\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert s3({"aws_profile": "lab"}) == {**KEYS, "region": "eu-9"}
    with pytest.raises(InvalidOption, match="nowhere"):
        s3({"aws_profile": "nowhere"})


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("s3.endpont", "s3.endpoint"),
        ("aws_acces_key_id", "aws_access_key_id"),
        ("fs.s3a.bucket.lake.endpoint", "set 'fs.s3a.endpoint'"),
        ("fs.s3a.server-side-encryption-algorithm", "default encryption of the bucket"),
        ("client_kwarg", "client_kwargs"),
        ("google_application_credentials", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(name: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Storage({name: "very secret"})


def test_invalid_values_and_contradictions_are_refused_and_not_shown() -> None:
    with pytest.raises(InvalidOption, match=r"s3\.anonymous.*true or false"):
        Storage({"s3.anonymous": "perhaps"})
    with pytest.raises(InvalidOption, match="twice") as raised:
        Storage({"s3.secret-access-key": "hidden", "aws_secret_access_key": "another-key"})
    assert "hidden" not in str(raised.value)
    assert "hidden" not in repr(StorageOptions.parse({"secret_key": "hidden"}))


def test_other_settings_of_a_catalog_are_ignored() -> None:
    assert StorageOptions.parse({"s3.whatever": "x", "s3.region": "r"}, ignore_unknown=True).s3({}) == {"region": "r"}


def test_every_setting_is_an_argument_of_pyarrows_filesystem() -> None:
    classes = {
        "s3": pafs.S3FileSystem,
        "gcs": pafs.GcsFileSystem,
        "abfs": pafs.AzureFileSystem,
        "hdfs": pafs.HadoopFileSystem,
    }
    for setting in SETTINGS:
        signature = (classes[setting.store].__doc__ or "").splitlines()[0]
        assert not setting.arrow or re.search(rf"\b{setting.arrow}\b", signature), setting


@pytest.mark.parametrize(
    "address", [" ", "http://", "http://a b", "http://[", "http://h:99999", "http://h\n", "http://h?x", "http://\u00e9"]
)
def test_an_invalid_endpoint_is_refused_before_a_commit(address: str) -> None:
    with pytest.raises(InvalidOption, match="not a server's address"):
        client({"s3.endpoint": address})
    google = StorageOptions.parse({"gcs.service.host": address, "gcs.oauth2.token": "t"})
    with pytest.raises(InvalidOption, match="not a server's address"):
        client_settings(google, "gs", "bucket", {})
    azure = {"adls.account-key": "eA==", "adls.blob-storage-authority": address.removeprefix("http://")}
    with pytest.raises(InvalidOption, match="not a server's address"):
        client_settings(StorageOptions.parse(azure), "abfss", "c@acc.dfs.core.windows.net", {})


def test_a_blank_endpoint_is_ignored() -> None:
    assert "aws_endpoint_url" not in client({"s3.endpoint": ""})


@pytest.mark.parametrize("name", ["access_key", "session_token"])
def test_a_credential_that_no_header_can_have_is_refused_before_a_commit(name: str) -> None:
    for value in ("s3cr3t\nline", "s3cr3t\u00e9"):
        with pytest.raises(InvalidOption, match="request headers cannot have") as failure:
            client({**KEYS, name: value})
        assert "s3cr3t" not in str(failure.value)


def test_azure_and_google_settings() -> None:
    azure = StorageOptions.parse({"fs.azure.account.key.acc.dfs.core.windows.net": "eA=="})
    assert azure.abfs("acc", {}) == {"account_name": "acc", "account_key": "eA=="}
    assert client_settings(azure, "abfss", "c@acc.dfs.core.windows.net", {}) == {
        "azure_storage_account_name": "acc",
        "azure_storage_account_key": "eA==",
    }
    google = StorageOptions.parse({"gcs.service.host": "http://h:1", "gcs.oauth2.token": "t"}).gcs()
    assert (google["endpoint_override"], google["scheme"], google["access_token"]) == ("h:1", "http", "t")
    assert google["retry_time_limit"].total_seconds() == 60


@pytest.mark.parametrize("catalogs", [True, False])
def test_credentials_of_one_azure_account_are_not_sent_to_another(
    catalogs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = {"adls.account-key": "eA=="}
    monkeypatch.setattr(reachable, "_why_not", lambda *_: None)
    storage = Storage(io_properties={**key, "adls.account-name": "mine"}) if catalogs else Storage(key)
    storage.resolve("abfss://data@mine.dfs.core.windows.net/t")
    storage.resolve("abfss://other@mine.dfs.core.windows.net/t")
    for each in (storage, pickle.loads(pickle.dumps(storage))):
        with pytest.raises(StorageError, match=r"'theirs'.*'mine'"):
            each.resolve("abfss://data@theirs.dfs.core.windows.net/t")


def test_the_error_for_hdfs_without_a_hadoop_client_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_client(*_: Any, **__: Any) -> None:
        raise OSError("Unable to load libjvm\ndlopen(...) failed")

    monkeypatch.setattr(clients.pafs, "HadoopFileSystem", no_client)
    with pytest.raises(StorageError, match=r"Hadoop client.*HADOOP_HOME"):
        Storage().exists("hdfs://host:8020/x")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError("AWS Error NETWORK_CONNECTION: curlCode: 7, Could not connect to server"), "server does not respond"),
        (
            OSError("AWS Error NETWORK_CONNECTION: curlCode: 6, Could not resolve hostname"),
            "host name cannot be resolved",
        ),
        (OSError("AWS Error NETWORK_CONNECTION: curlCode: 35, SSL connect error"), "http://"),
        (OSError("AWS Error ACCESS_DENIED during HeadObject operation: No response body."), "credentials"),
        (OSError("AWS Error NO_SUCH_BUCKET during CreateMultipartUpload operation"), "container does not exist"),
        (
            # obstore's own message, which contains "retry_timeout".
            OSError("Error performing PUT http://169.254.169.254/latest/api/token in 1 ms, retry_timeout: 180s"),
            "No credentials were found",
        ),
        (OSError("AWS Error UNKNOWN (HTTP status code 301)"), "region"),
        (OSError(28, "No space left on device"), "disk is full"),
        (PermissionError(13, "Permission denied"), "permission"),
        (OSError("something else"), "try again"),
    ],
)
def test_each_storage_error_has_advice(error: OSError, says: str) -> None:
    assert says in advice(error)


def test_names_of_options_and_prefixes_are_texts() -> None:
    with pytest.raises(InvalidOption, match="5 is not a valid name of a storage option"):
        Storage({5: "x"})  # type: ignore[dict-item]
    for wrong in ({5: "/x"}, {"/x": 5}):
        with pytest.raises(InvalidOption, match=r"relocate maps location prefixes.* but 5 is not a string"):
            Storage({}, wrong)  # type: ignore[arg-type]
