"""Each storage option reaches both clients, Arrow's and obstore's, or is refused by its name; on the wire, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import obstore.store
import pytest
from pyarrow import fs as pafs

from lakescan.errors import InvalidOption, LakescanError, UnsupportedFeature
from lakescan.storage import Storage, filesystems, object_clients
from lakescan.storage.known_settings import SETTINGS
from lakescan.storage.options import StorageOptions
from lakescan.storage.put_if_absent import put_if_absent
from lakescan.storage.setting import Setting
from tests.support.recorded import Recorded, recorded

ROOTS = {"s3": "s3://lake", "gcs": "gs://lake", "abfs": "abfss://lake@acc.dfs.core.windows.net"}
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_CONFIG_FILE"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"),
    *("AZURE_STORAGE_SAS_TOKEN", "GOOGLE_BEARER_TOKEN", "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"),
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What the constructors of both clients have got, by `arrow` and `obstore`."""
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
        monkeypatch.setattr(filesystems.pafs, name, of_arrow)
    monkeypatch.setattr(filesystems.pafs, "AzureFileSystem", Azure)
    monkeypatch.setattr(obstore.store, "S3Store", of_obstore)
    monkeypatch.setattr(obstore.store, "from_url", of_obstore)
    return got


def connect(store: str, options: dict[str, Any]) -> None:
    """Make both clients of a store."""
    object_clients._client.cache_clear()
    parsed, root = StorageOptions.of(options), ROOTS.get(store, "hdfs://name:8020")
    filesystems.connected(store, root.partition("://")[2], parsed)
    if store in ROOTS:
        object_clients.object_store(root, object_clients.settings_for(parsed, root), retries=3)


KEYS, SECRET = {"secret_key": "s"}, {"access_key": "k"}
HOST = {"endpoint": "host:1"}
PEM = Path(__file__).parent / "support" / "recorded.py"  # any file
TIME = datetime(2030, 1, 1, tzinfo=UTC)
# By store and first name of a setting: its value, options beside it, and what Arrow's and obstore's clients get.
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
def test_each_spelling_of_a_setting_reaches_both_clients(
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
    """What is asked of AWS for the credentials of a role."""
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
def test_what_arrows_client_cannot_obey_is_refused_by_name(
    setting: Setting, arguments: dict[str, dict[str, Any]]
) -> None:
    for name in setting.spellings:
        value: Any = "5" if "time" in name or "retr" in name else "true"
        value = "/a.pem" if "file" in name else value
        with pytest.raises(InvalidOption, match=rf"'{name}' cannot be obeyed"):
            connect(setting.store, {name: value})
    assert "obstore" not in arguments


def test_what_asks_for_nothing_is_not_refused(arguments: dict[str, dict[str, Any]]) -> None:
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
        ("gcs", {"token": "t", "anonymous": True}, "a token, and say that there is none"),
        ("abfs", {"account_key": "a2V5", "anonymous": True}, "account_key, and say that there is none"),
        ("abfs", {"account_key": "a2V5", "sas_token": "x"}, "both account_key and sas_token"),
        ("abfs", {"client_id": "c", "client_secret": "s"}, "set all three"),
        ("abfs", {"endpoint": "http://h:1/other"}, "the account is 'acc'"),
        ("abfs", {"endpoint": "https://other.blob.core.windows.net"}, "not that of the account 'acc'"),
    ],
)
def test_contradictions_of_other_stores_are_refused(store: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        connect(store, options)


@pytest.fixture(scope="module")
def server() -> Iterator[Recorded]:
    with recorded() as found:
        yield found


def use(store: str, options: dict[str, Any], server: Recorded) -> None:
    """Look a file up by Arrow, and create one by obstore; the server has nothing and takes nothing."""
    server.requests.clear()
    storage, location = Storage(options), f"{ROOTS[store]}/t/f.json"
    with suppress(LakescanError):
        storage.exists(location)
    with suppress(LakescanError):
        put_if_absent(storage, location, b"x")


NOBODY = ("Bearer anonymous",)  # obstore's puts need a token, even if it says nothing


S3_SPELLINGS = {
    "pyarrow": lambda url: {
        "access_key": "k",
        "secret_key": "s",
        "session_token": "t",
        "region": "eu-9",
        "endpoint_override": url.partition("://")[2],
        "scheme": "http",
    },
    "s3fs": lambda url: {
        "key": "k",
        "secret": "s",
        "token": "t",
        "use_ssl": False,
        "client_kwargs": {"endpoint_url": url, "region_name": "eu-9"},
        "config_kwargs": {
            "s3": {"addressing_style": "path"},
            "signature_version": "s3v4",
            "retries": {"max_attempts": 0},
        },
    },
    "s3fs in JSON": lambda url: {
        "key": "k",
        "secret": "s",
        "token": "t",
        "endpoint_url": url,
        "client_kwargs": '{"region_name": "eu-9"}',
    },
    "boto in s3fs": lambda url: {
        "client_kwargs": {
            "aws_access_key_id": "k",
            "aws_secret_access_key": "s",
            "aws_session_token": "t",
            "region_name": "eu-9",
            "endpoint_url": url,
            "verify": True,
        },
    },
    "boto": lambda url: {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_session_token": "t",
        "region_name": "eu-9",
        "endpoint_url": url,
    },
    "object_store": lambda url: {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
        "AWS_REGION": "eu-9",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
    },
    "pyiceberg": lambda url: {
        "s3.access-key-id": "k",
        "s3.secret-access-key": "s",
        "s3.session-token": "t",
        "s3.region": "eu-9",
        "s3.endpoint": url,
    },
    "Hadoop": lambda url: {
        "fs.s3a.access.key": "k",
        "fs.s3a.secret.key": "s",
        "fs.s3a.session.token": "t",
        "fs.s3a.endpoint": url.partition("://")[2],
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.endpoint.region": "eu-9",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.maximum": "9",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    },
}


@pytest.mark.parametrize("spelling", S3_SPELLINGS)
def test_every_librarys_spelling_sends_the_same_identity_to_the_same_place(spelling: str, server: Recorded) -> None:
    use("s3", S3_SPELLINGS[spelling](server.url), server)
    assert server.of("arrow") == server.of("obstore") == {("k", "eu-9", "t")}
    assert "/lake/t/f.json" in server.paths("arrow")
    assert all(path.startswith("/lake") for path in server.paths("obstore"))


@pytest.mark.parametrize(
    "options",
    [
        {"anon": True},
        {"anonymous": "true"},
        {"AWS_SKIP_SIGNATURE": "true"},
        {"config_kwargs": {"signature_version": "unsigned"}},
        {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"},
    ],
)
def test_nobody_is_named_without_credentials(options: dict[str, Any], server: Recorded) -> None:
    use("s3", {**options, "endpoint": server.url, "region": "eu-9"}, server)
    assert server.of("arrow") == server.of("obstore") == {()}


@pytest.mark.parametrize("names", [True, False])
def test_a_profile_gives_endpoint_region_and_keys_to_both(
    names: bool, server: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        f"[profile lab]\nregion = eu-5\nservices = of-lab\nendpoint_url = http://127.0.0.1:1\n"
        f"[services of-lab]\ns3 =\n  endpoint_url = {server.url}\n"
    )
    (tmp_path / ".aws" / "credentials").write_text("[lab]\naws_access_key_id = pk\naws_secret_access_key = ps\n")
    if not names:
        monkeypatch.setenv("AWS_PROFILE", "lab")
    use("s3", {"profile": "lab"} if names else {}, server)
    assert server.of("arrow") == server.of("obstore") == {("pk", "eu-5")}


def test_the_endpoint_of_a_profile_comes_last(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("[default]\nendpoint_url = http://mine\n[profile none]\nignore_configured_endpoint_urls = true\n")
    environment = {"AWS_CONFIG_FILE": str(path)}
    of = StorageOptions.of({}).endpoint
    assert of("s3", environment) == "http://mine"
    assert of("s3", {**environment, "AWS_ENDPOINT_URL": "http://env"}) == "http://env"
    assert of("s3", {**environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}) is None
    assert of("s3", {**environment, "AWS_PROFILE": "none"}) is None
    assert StorageOptions.of({"endpoint": "http://own"}).endpoint("s3", environment) == "http://own"
    assert StorageOptions.of({}, ignore_unknown=True).endpoint("s3", environment) is None  # nor do catalogs' clients
    path.write_text("not a configuration")
    assert of("s3", environment) is None


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_both_go_to_the_endpoint_in_the_environment(
    variable: str, server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, server.url)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    use("s3", {}, server)
    assert server.of("arrow") == server.of("obstore") == {()}
    use("s3", {"key": "k", "secret": "s", "region": "eu-9"}, server)
    assert server.of("arrow") == server.of("obstore") == {("k", "eu-9")}


@pytest.mark.parametrize(
    ("options", "identity"),
    [
        ({"endpoint": "URL", "token": "some"}, ("Bearer some",)),
        ({"endpoint_url": "URL", "token": "some", "project": "p", "access": "full_control"}, ("Bearer some",)),
        ({"gcs.service.host": "URL", "gcs.oauth2.token": "some"}, ("Bearer some",)),
        ({"google_base_url": "URL", "google_bearer_token": "some"}, ("Bearer some",)),
        ({"fs.gs.storage.root.url": "URL", "fs.gs.auth.type": "UNAUTHENTICATED"}, ()),
        ({"endpoint": "URL", "token": "anon"}, ()),
        ({"endpoint": "URL", "anon": "true"}, ()),
    ],
)
def test_googles_storage_gets_the_endpoint_and_the_token(
    options: dict[str, Any], identity: tuple[str, ...], server: Recorded
) -> None:
    use("gcs", {name: server.url if each == "URL" else each for name, each in options.items()}, server)
    assert server.of("arrow") == {identity}
    assert server.of("obstore") == {identity or NOBODY}


def test_googles_storage_by_the_environment(server: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.address)
    use("gcs", {}, server)
    assert (server.of("arrow"), server.of("obstore")) == ({()}, {NOBODY})
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "of-environment")
    use("gcs", {}, server)
    assert server.of("arrow") == server.of("obstore") == {("Bearer of-environment",)}
    use("gcs", {"token": "own"}, server)
    assert server.of("arrow") == server.of("obstore") == {("Bearer own",)}


def test_a_service_account_that_reading_does_not_know_is_refused(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", "/other.json")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/mine.json")
    with pytest.raises(UnsupportedFeature, match="unset GOOGLE_SERVICE_ACCOUNT"):
        put_if_absent(Storage({"endpoint": server.url}), f"{ROOTS['gcs']}/f", b"x")


@pytest.mark.parametrize(
    ("options", "identity"),
    [
        ({"endpoint": "URL/acc", "account_key": "a2V5"}, ("acc",)),
        ({"endpoint": "URL", "account_key": "a2V5", "account_name": "acc"}, ("acc",)),
        ({"connection_string": "AccountName=acc;AccountKey=a2V5;BlobEndpoint=URL/acc;"}, ("acc",)),
        ({"endpoint": "URL", "sas_token": "sv=1&sig=some"}, ("sig=some",)),
        ({"endpoint": "URL", "azure_storage_sas_key": "?sv=1&sig=some"}, ("sig=some",)),
        ({"endpoint": "URL", "anon": True}, ()),
        ({"endpoint": "URL", "fs.azure.account.key.acc.dfs.core.windows.net": "a2V5"}, ("acc",)),
    ],
)
@pytest.mark.parametrize("has_other", [True, False])
def test_azure_gets_the_endpoint_and_the_secret(
    options: dict[str, Any],
    identity: tuple[str, ...],
    has_other: bool,
    server: Recorded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is in the environment, which obstore prefers to a signature in the settings."""
    if has_other:
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "b3RoZXI=")
    use("abfs", {n: e.replace("URL", server.url) if isinstance(e, str) else e for n, e in options.items()}, server)
    assert server.of("arrow") == server.of("obstore") == {identity}
    assert all(path.startswith("/acc/lake") for path in server.paths("arrow") | server.paths("obstore"))


@pytest.mark.parametrize("variable", ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY"])
def test_azures_key_in_the_environment_reaches_both(
    variable: str, server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "a2V5")
    use("abfs", {"endpoint": server.url}, server)
    assert server.of("arrow") == server.of("obstore") == {("acc",)}


def test_azures_key_in_the_environment_is_sent_to_its_account_alone(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    assert "account_key" not in StorageOptions.of({"endpoint": server.url}).abfs("acc")
    with pytest.raises(UnsupportedFeature, match="AZURE_STORAGE_ACCOUNT_KEY"):
        put_if_absent(Storage({"endpoint": server.url}), f"{ROOTS['abfs']}/f", b"x")


def test_a_container_alone_is_of_the_account_in_the_options(server: Recorded) -> None:
    server.requests.clear()
    storage = Storage({"account_name": "acc", "account_key": "a2V5", "endpoint": server.url})
    with suppress(LakescanError):
        storage.exists("abfs://lake/t/f.json")
    with suppress(LakescanError):
        put_if_absent(storage, "abfs://lake/t/f.json", b"x")
    assert server.of("arrow") == server.of("obstore") == {("acc",)}
    assert all(path.startswith("/acc/lake") for path in server.paths("arrow") | server.paths("obstore"))
    with pytest.raises(InvalidOption, match="does not name the account"):
        Storage({"account_key": "a2V5"}).exists("abfs://lake/t/f.json")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"client_kwargs": {"api_version": "1"}}, r"'client_kwargs\.api_version' cannot be obeyed"),
        ({"client_kwargs": "no json"}, "'client_kwargs' takes a JSON object"),
        ({"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}}, r"config_kwargs\.s3\.use_accelerate_endpoint"),
        ({"config_kwargs": {"signature_version": "s3"}}, r"config_kwargs\.signature_version"),
        ({"config_kwargs": {"retries": {"mode": "adaptive"}}}, r"config_kwargs\.retries\.mode"),
        ({"config_kwargs": {"proxies": {"http": "a", "https": "b"}}}, "One proxy"),
        ({"config_kwargs": {"user_agent": "me"}}, r"config_kwargs\.user_agent"),
        ({"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}}, "bucket encrypt"),
        ({"token": {"type": "service_account"}}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"token": "/me.json"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"token": "browser"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"access": "read_only"}, "'access' cannot be obeyed"),
        ({"credential": object()}, "account_key"),
        ({"connection_string": "AccountName"}, "takes pairs such as"),
        ({"connection_string": "UseDevelopmentStorage=true"}, "127.0.0.1:10000"),
        ({"connection_string": "AccountName=a;Unknown=b"}, "'unknown'"),
        ({"fs.azure.account.oauth.provider.type.a.dfs.core.windows.net": "x.MsiTokenProvider"}, "account_key"),
        ({"fs.gs.auth.type": "USER_CREDENTIALS"}, "gcs.oauth2.token"),
        ({"fs.s3a.aws.credentials.provider": "my.Own"}, "s3.anonymous=true"),
        ({"proxy_options": {"host": "h"}}, "a dictionary of scheme, host, port"),
    ],
)
def test_what_no_client_has_is_refused_by_its_name_and_value_never_shown(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as raised:
        Storage(options)
    assert "AccountName=" not in str(raised.value).replace("AccountName=...", "")


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


def test_another_cloud_of_azures_by_its_connection_string(arguments: dict[str, dict[str, Any]]) -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5;EndpointSuffix=core.chinacloudapi.cn"
    connect("abfs", {"connection_string": text})
    assert arguments["arrow"]["dfs_storage_authority"] == ".dfs.core.chinacloudapi.cn"
    assert arguments["obstore"]["azure_storage_endpoint"] == "https://acc.blob.core.chinacloudapi.cn"


def test_retries_are_as_many_as_is_said(server: Recorded) -> None:
    with recorded(503) as failing:
        for number in (0, 1):
            failing.requests.clear()
            options = {"endpoint": failing.url, "key": "k", "secret": "s", "region": "eu-9", "max_retries": number}
            with pytest.raises(LakescanError):
                Storage(options).exists("s3://lake/f")
            assert len(failing.requests) == number + 1
