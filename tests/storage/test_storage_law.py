"""Law: each storage option, under each of its names, reaches both clients (Arrow and obstore) or is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import obstore.store
import pytest
from pyarrow import fs as pafs

from lakescan.errors import InvalidOption
from lakescan.storage import clients, object_clients
from lakescan.storage.settings import SETTINGS, Setting, StorageOptions
from tests.support.storage_environment import ROOTS, clean


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean(monkeypatch, tmp_path)


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """Record the constructor arguments of both clients, under `arrow` and `obstore`."""
    got: dict[str, dict[str, Any]] = {}

    def of_arrow(*positional: Any, **named: Any) -> Any:
        got["arrow"] = named

    class Azure:
        def __init__(self, **named: Any) -> None:
            got["arrow"] = named

        @staticmethod
        def from_uri(uri: str) -> tuple[None, str]:
            query = {name: each[0] for name, each in parse_qs(urlsplit(uri).query).items()}
            got["arrow"] = {"account_name": urlsplit(uri).netloc.partition("@")[2].partition(".")[0], **query}
            return None, ""

    def of_obstore(root: str, **named: Any) -> Any:
        provider = named.get("credential_provider")
        got["obstore"] = {**named["config"], **named.get("client_options", {}), **named.get("retry_config", {})}
        got["obstore"]["provider"] = provider

    for name in ("S3FileSystem", "GcsFileSystem", "HadoopFileSystem"):
        monkeypatch.setattr(clients.pafs, name, of_arrow)
    monkeypatch.setattr(clients.pafs, "AzureFileSystem", Azure)
    monkeypatch.setattr(obstore.store, "S3Store", of_obstore)
    monkeypatch.setattr(obstore.store, "from_url", of_obstore)
    return got


def connect(store: str, options: dict[str, Any]) -> None:
    """Make both clients of a store."""
    object_clients._client.cache_clear()
    parsed, root = StorageOptions.parse(options), ROOTS.get(store, "hdfs://name:8020")
    clients.open_filesystem(store, root.partition("://")[2], parsed)
    if store in ROOTS:
        object_clients.object_store(root, object_clients.client_config(parsed, root), retries=3)


KEYS, SECRET = {"secret_key": "s"}, {"access_key": "k"}
HOST = {"endpoint": "host:1"}
PEM = Path(__file__).parents[1] / "support" / "recorded.py"  # any file
TIME = datetime(2030, 1, 1, tzinfo=UTC)
# By store and first name of a setting: its value, other options needed, and the arguments of both clients.
Reached = tuple[Any, dict[str, Any], dict[str, Any], dict[str, Any]]
S3: dict[str, Reached] = {
    "access_key": ("k", KEYS, {"access_key": "k", "secret_key": "s"}, {"aws_access_key_id": "k"}),
    "secret_key": ("s", SECRET, {"access_key": "k", "secret_key": "s"}, {"aws_secret_access_key": "s"}),
    "session_token": ("t", {**KEYS, **SECRET}, {"session_token": "t"}, {"aws_session_token": "t"}),
    "region": ("eu-9", {}, {"region": "eu-9"}, {"aws_region": "eu-9"}),
    "endpoint_override": (
        "http://h:1",
        {},
        {"endpoint_override": "http://h:1", "scheme": "http"},
        {"aws_endpoint_url": "http://h:1", "allow_http": True},
    ),
    "aws_allow_http": ("true", HOST, {"scheme": "http"}, {"aws_endpoint_url": "http://host:1", "allow_http": True}),
    "aws_use_ssl": (False, HOST, {"scheme": "http"}, {"aws_endpoint_url": "http://host:1", "allow_http": True}),
    "aws_profile": ("lab", {}, {"access_key": "pk", "secret_key": "ps", "region": "eu-7"}, {"aws_region": "eu-7"}),
    "scheme": ("http", HOST, {"scheme": "http"}, {"aws_endpoint_url": "http://host:1", "allow_http": True}),
    "anonymous": ("true", {}, {"anonymous": True}, {"aws_skip_signature": "true"}),
    "force_virtual_addressing": (
        True,
        HOST,
        {"force_virtual_addressing": True},
        {"aws_virtual_hosted_style_request": "true", "aws_endpoint_url": "https://lake.host:1"},
    ),
    "fs.s3a.path.style.access": (
        "true",
        HOST,
        {"force_virtual_addressing": False},
        {"aws_virtual_hosted_style_request": "false", "aws_endpoint_url": "https://host:1"},
    ),
    "connect_timeout": ("1.5", {}, {"connect_timeout": 1.5}, {"connect_timeout": "1500ms"}),
    "fs.s3a.connection.establish.timeout": ("5000", {}, {"connect_timeout": 5.0}, {"connect_timeout": "5s"}),
    "request_timeout": ("2s", {}, {"request_timeout": 2.0}, {"timeout": "2s"}),
    "fs.s3a.connection.timeout": ("200", {}, {"request_timeout": 0.2}, {"timeout": "200ms"}),
    "role_arn": ("arn:1", {}, {"role_arn": "arn:1"}, {"assumes": {"RoleArn": "arn:1", "RoleSessionName": "lakescan"}}),
    "session_name": (
        "n",
        {"role_arn": "a"},
        {"session_name": "n"},
        {"assumes": {"RoleArn": "a", "RoleSessionName": "n"}},
    ),
    "external_id": (
        "x",
        {"role_arn": "a"},
        {"external_id": "x"},
        {"assumes": {"RoleArn": "a", "RoleSessionName": "lakescan", "ExternalId": "x"}},
    ),
    "load_frequency": ("60", {"role_arn": "a"}, {"load_frequency": 60}, {}),
    "proxy_options": (
        {"scheme": "http", "host": "p", "port": 3, "username": "me", "password": "a b"},
        {},
        {"proxy_options": "http://me:a%20b@p:3"},
        {"proxy_url": "http://me:a%20b@p:3"},
    ),
    "tls_ca_file_path": (str(PEM), {}, {"tls_ca_file_path": str(PEM)}, {"root_certificate": PEM.read_bytes()}),
    "max_retries": ("4", {}, {"attempts": 5}, {"max_retries": 4}),
    "background_writes": ("false", {}, {"background_writes": False}, {}),
    "allow_delayed_open": ("true", {}, {"allow_delayed_open": True}, {}),
    "allow_bucket_creation": ("true", {}, {"allow_bucket_creation": True}, {}),
    "allow_bucket_deletion": ("true", {}, {"allow_bucket_deletion": True}, {}),
    "check_directory_existence_before_creation": (
        "true",
        {},
        {"check_directory_existence_before_creation": True},
        {},
    ),
    "default_metadata": ({"a": "b"}, {}, {"default_metadata": {"a": "b"}}, {}),
    "retry_strategy": (pafs.AwsDefaultS3RetryStrategy(max_attempts=7), {}, {"attempts": 7}, {}),
    "aws_s3_allow_unsafe_rename": ("true", {}, {}, {}),
    "aws_s3_locking_provider": ("dynamodb", {}, {}, {}),  # a commit with it is refused
    "aws_conditional_put": ("etag", {}, {}, {"aws_conditional_put": "etag"}),
    "aws_copy_if_not_exists": ("multipart", {}, {}, {"aws_copy_if_not_exists": "multipart"}),
    "delta_dynamo_table_name": ("t", {}, {}, {}),
}
GCS: dict[str, Reached] = {
    "anonymous": (True, {}, {"anonymous": True}, {"google_skip_signature": "true"}),
    "access_token": ("t", {}, {"access_token": "t"}, {"google_bearer_token": "t"}),
    "credential_token_expiration": (
        "1893456000000",
        {"access_token": "t"},
        {"credential_token_expiration": TIME},
        {"google_bearer_token": "t"},
    ),
    "target_service_account": ("me@x", {}, {"target_service_account": "me@x"}, {}),
    "project_id": ("p", {}, {"project_id": "p"}, {}),
    "endpoint_override": (
        "http://h:1",
        {},
        {"endpoint_override": "h:1", "scheme": "http"},
        {"google_base_url": "http://h:1", "allow_http": True},
    ),
    "scheme": (
        "http",
        {"gcs.endpoint": "h:1"},
        {"endpoint_override": "h:1", "scheme": "http"},
        {"google_base_url": "http://h:1"},
    ),
    "allow_http": ("true", {"gcs.endpoint": "h:1"}, {"scheme": "http"}, {"google_base_url": "http://h:1"}),
    "default_bucket_location": ("EU", {}, {"default_bucket_location": "EU"}, {}),
    "retry_time_limit": ("7", {}, {"retry_time_limit": timedelta(seconds=7)}, {"retry_timeout": timedelta(seconds=7)}),
    "default_metadata": ({"a": "b"}, {}, {"default_metadata": {"a": "b"}}, {}),
}
ABFS: dict[str, Reached] = {
    "account_name": ("acc", {}, {"account_name": "acc"}, {"azure_storage_account_name": "acc"}),
    "account_key": ("a2V5", {}, {"account_key": "a2V5"}, {"secret": {"access_key": "a2V5"}}),
    "sas_token": ("sv=1&sig=x", {}, {"sas_token": "?sv=1&sig=x"}, {"secret": {"sas_token": "?sv=1&sig=x"}}),
    "tenant_id": (
        "t",
        {"client_id": "c", "client_secret": "s"},
        {"tenant_id": "t", "client_id": "c"},
        {"azure_storage_tenant_id": "t"},
    ),
    "client_id": ("c", {}, {"client_id": "c"}, {"azure_storage_client_id": "c"}),
    "client_secret": (
        "s",
        {"client_id": "c", "tenant_id": "t"},
        {"client_secret": "s"},
        {"azure_storage_client_secret": "s"},
    ),
    "azure_skip_signature": ("true", {}, {"credential_kind": "anonymous"}, {"azure_skip_signature": "true"}),
    "blob_storage_authority": (
        "h:1",
        {},
        {"blob_storage_authority": "h:1"},
        {"azure_storage_endpoint": "https://h:1/acc"},
    ),
    "blob_storage_scheme": (
        "http",
        {"blob_storage_authority": "h:1"},
        {"blob_storage_scheme": "http"},
        {"azure_storage_endpoint": "http://h:1/acc", "allow_http": True},
    ),
    "dfs_storage_authority": (
        "h:1",
        {"blob_storage_authority": "h:1"},
        {"dfs_storage_authority": "h:1"},
        {"azure_storage_endpoint": "https://h:1/acc"},
    ),
    "dfs_storage_scheme": ("http", {}, {"dfs_storage_scheme": "http"}, {}),
    "azure_storage_endpoint": (
        "http://h:1/acc",
        {},
        {"blob_storage_authority": "h:1", "blob_storage_scheme": "http", "dfs_storage_authority": "h:1"},
        {"azure_storage_endpoint": "http://h:1/acc", "allow_http": True},
    ),
    "allow_http": (
        "true",
        {"azure_endpoint": "h:1"},
        {"blob_storage_scheme": "http"},
        {"azure_storage_endpoint": "http://h:1/acc"},
    ),
}
HDFS: dict[str, Reached] = {
    "host": ("h", {}, {}, {}),  # the location has one here
    "port": ("1", {}, {}, {}),
    "user": ("me", {}, {"user": "me"}, {}),
    "kerb_ticket": ("/f", {}, {"kerb_ticket": "/f"}, {}),
    "replication": ("2", {}, {"replication": 2}, {}),
    "buffer_size": ("9", {}, {"buffer_size": 9}, {}),
    "default_block_size": ("8", {}, {"default_block_size": 8}, {}),
    "extra_conf": ('{"a.b": "c"}', {"dfs.x": "y"}, {"extra_conf": {"a.b": "c", "dfs.x": "y"}}, {}),
}
REACHED = {"s3": S3, "gcs": GCS, "abfs": ABFS, "hdfs": HDFS}
OBEYED = [each for each in SETTINGS if not each.refused]
REFUSED = [each for each in SETTINGS if each.refused]


def _id(setting: Setting) -> str:
    return f"{setting.store}-{setting.spellings[0]}"


def test_the_law_has_all_settings() -> None:
    assert {(store, name) for store, rows in REACHED.items() for name in rows} == {
        (each.store, each.spellings[0]) for each in OBEYED
    }
    assert all(each.doc for each in SETTINGS)


@pytest.mark.parametrize("setting", OBEYED, ids=_id)
def test_each_name_of_a_setting_reaches_both_clients(
    setting: Setting, arguments: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[lab]\naws_access_key_id = pk\naws_secret_access_key = ps\n")
    (tmp_path / ".aws" / "config").write_text("[profile lab]\nregion = eu-7\n")
    value, beside, arrow, theirs = REACHED[setting.store][setting.spellings[0]]
    for name in setting.spellings:
        arguments.clear()
        connect(setting.store, {**beside, name.upper(): value})
        got = dict(arguments["arrow"])
        if "retry_strategy" in got:
            got["attempts"] = got["retry_strategy"].max_attempts
        assert {key: got.get(key) for key in arrow} == arrow, name
        if setting.store == "hdfs":
            continue
        got = dict(arguments["obstore"])
        if (provider := got["provider"]) is not None and setting.store == "abfs":
            got["secret"] = {key: each for key, each in provider().items() if key != "expires_at"}
        elif provider is not None and "assumes" in theirs:
            got["assumes"] = assumed(provider, monkeypatch)
        assert {key: got.get(key) for key in theirs} == theirs, name


def assumed(provider: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Record the request to AWS for a role's credentials."""
    asked: dict[str, Any] = {}

    class Client:
        def assume_role(self, **request: Any) -> dict[str, Any]:
            asked.update(request)
            keys = {"AccessKeyId": "k", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": TIME}
            return {"Credentials": keys}

    monkeypatch.setattr("botocore.session.Session.create_client", lambda *_, **__: Client())
    assert provider()["token"] == "t"
    return asked


@pytest.mark.parametrize("setting", REFUSED, ids=_id)
def test_settings_that_arrow_cannot_obey_are_refused_by_name(
    setting: Setting, arguments: dict[str, dict[str, Any]]
) -> None:
    for name in setting.spellings:
        value: Any = "5" if "time" in name or "retr" in name else "true"
        value = "/a.pem" if "file" in name else value
        with pytest.raises(InvalidOption, match=rf"'{name}' is not supported"):
            connect(setting.store, {name: value})
    assert "obstore" not in arguments


def test_settings_without_effect_are_not_refused(arguments: dict[str, dict[str, Any]]) -> None:
    for store in ("s3", "gcs", "abfs"):
        connect(store, {"allow_invalid_certificates": "false", "requester_pays": False, "verify": True})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"access_key": "k", "secret_key": "s", "anonymous": "true"}, "keys and anonymous"),
        ({"access_key": "k", "secret_key": "s", "role_arn": "a"}, "come from the environment"),
        ({"role_arn": "a", "anon": True}, "a role .* and anonymous"),
        ({"token": "t"}, "only session_token"),
        ({"max_retries": 1, "retry_strategy": pafs.AwsDefaultS3RetryStrategy()}, "both max_retries"),
        ({"use_ssl": "false"}, "no endpoint"),
        ({"endpoint": "http://a", "s3.endpoint": "http://b"}, "'s3.endpoint' is set twice, also as 'endpoint'"),
    ],
)
def test_contradictions_of_s3_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        connect("s3", options)


@pytest.mark.parametrize(
    ("store", "options", "says"),
    [
        ("gcs", {"token": "t", "anonymous": True}, "both a token and anonymous=true"),
        ("abfs", {"account_key": "a2V5", "anonymous": True}, "both account_key and anonymous=true"),
        ("abfs", {"account_key": "a2V5", "sas_token": "x"}, "both account_key and sas_token"),
        ("abfs", {"client_id": "c", "client_secret": "s"}, "set all three"),
        ("abfs", {"endpoint": "http://h:1/other"}, "the account is 'acc'"),
        ("abfs", {"endpoint": "https://other.blob.core.windows.net"}, "not that of the account 'acc'"),
    ],
)
def test_contradictions_of_other_stores_are_refused(store: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        connect(store, options)


def test_the_application_of_hadoops_settings_reaches_azure(arguments: dict[str, dict[str, Any]]) -> None:
    end = "acc.dfs.core.windows.net"
    connect(
        "abfs",
        {
            f"fs.azure.account.auth.type.{end}": "OAuth",
            f"fs.azure.account.oauth.provider.type.{end}": "org.x.ClientCredsTokenProvider",
            f"fs.azure.account.oauth2.client.id.{end}": "c",
            f"fs.azure.account.oauth2.client.secret.{end}": "s",
            f"fs.azure.account.oauth2.client.endpoint.{end}": "https://login.microsoftonline.com/ten/oauth2/token",
        },
    )
    assert {**arguments["arrow"], "tenant_id": "ten"} == arguments["arrow"]
    assert arguments["obstore"]["azure_storage_tenant_id"] == "ten"


def test_another_azure_cloud_can_be_set_by_its_connection_string(arguments: dict[str, dict[str, Any]]) -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn"
    connect("abfs", {"connection_string": text})
    assert arguments["arrow"]["dfs_storage_authority"] == ".dfs.core.chinacloudapi.cn"
    assert arguments["obstore"]["azure_storage_endpoint"] == "https://acc.blob.core.chinacloudapi.cn"
