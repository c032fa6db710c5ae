"""Storage options on the wire: requests of Arrow and obstore have the same endpoint and the same identity."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from lakescan.errors import InvalidOption, LakescanError, UnsupportedFeature
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import put_if_absent
from lakescan.storage.settings import StorageOptions
from tests.support.recorded import Recorded, recording_server
from tests.support.s3 import s3_server
from tests.support.storage_environment import ROOTS, clean


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean(monkeypatch, tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[Recorded]:
    with recording_server() as found:
        yield found


def use(store: str, options: dict[str, Any], server: Recorded) -> None:
    """Look a file up through Arrow and create one through obstore; the server is empty and refuses writes."""
    server.requests.clear()
    storage, location = Storage(options), f"{ROOTS[store]}/t/f.json"
    with suppress(LakescanError):
        storage.exists(location)
    with suppress(LakescanError):
        put_if_absent(storage, location, b"x")


NOBODY = ("Bearer anonymous",)  # obstore's puts need a token, even an empty one


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
def test_options_of_every_library_send_the_same_identity_to_the_same_endpoint(spelling: str, server: Recorded) -> None:
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
def test_requests_without_credentials_are_anonymous(options: dict[str, Any], server: Recorded) -> None:
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
    of = StorageOptions.parse({}).endpoint
    assert of("s3", environment) == "http://mine"
    assert of("s3", {**environment, "AWS_ENDPOINT_URL": "http://env"}) == "http://env"
    assert of("s3", {**environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}) is None
    assert of("s3", {**environment, "AWS_PROFILE": "none"}) is None
    assert StorageOptions.parse({"endpoint": "http://own"}).endpoint("s3", environment) == "http://own"
    assert StorageOptions.parse({}, ignore_unknown=True).endpoint("s3", environment) is None  # nor do catalogs' clients
    path.write_text("not a configuration")
    assert of("s3", environment) is None


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_both_clients_use_the_endpoint_in_the_environment(
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


def test_a_service_account_that_reading_does_not_support_is_refused(
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
    """Whatever the environment sets: obstore would prefer it to a signature in the settings."""
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


def test_azures_key_in_the_environment_is_sent_only_to_its_account(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "another")
    assert "account_key" not in StorageOptions.parse({"endpoint": server.url}).abfs("acc")
    with pytest.raises(UnsupportedFeature, match="AZURE_STORAGE_ACCOUNT_KEY"):
        put_if_absent(Storage({"endpoint": server.url}), f"{ROOTS['abfs']}/f", b"x")


def test_a_container_without_account_uses_the_account_in_the_options(server: Recorded) -> None:
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
        ({"client_kwargs": {"api_version": "1"}}, r"'client_kwargs\.api_version' is not supported"),
        ({"client_kwargs": "no json"}, "'client_kwargs' takes a JSON object"),
        ({"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}}, r"config_kwargs\.s3\.use_accelerate_endpoint"),
        ({"config_kwargs": {"signature_version": "s3"}}, r"config_kwargs\.signature_version"),
        ({"config_kwargs": {"retries": {"mode": "adaptive"}}}, r"config_kwargs\.retries\.mode"),
        ({"config_kwargs": {"proxies": {"http": "a", "https": "b"}}}, "All requests use one proxy"),
        ({"config_kwargs": {"user_agent": "me"}}, r"config_kwargs\.user_agent"),
        ({"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms"}}, "default encryption of the bucket"),
        ({"token": {"type": "service_account"}}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"token": "/me.json"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"token": "browser"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ({"access": "read_only"}, "'access' is not supported"),
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
def test_unsupported_settings_are_refused_by_name_without_their_value(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidOption, match=says) as raised:
        Storage(options)
    assert "AccountName=" not in str(raised.value).replace("AccountName=...", "")


def test_the_number_of_retries_is_obeyed(server: Recorded) -> None:
    with recording_server(503) as failing:
        for number in (0, 1):
            failing.requests.clear()
            options = {"endpoint": failing.url, "key": "k", "secret": "s", "region": "eu-9", "max_retries": number}
            with pytest.raises(LakescanError):
                Storage(options).exists("s3://lake/f")
            assert len(failing.requests) == number + 1


def test_both_assume_the_role(server: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server("any") as endpoint:  # the server is also AWS's token service
        for name, value in {"ACCESS_KEY_ID": "base", "SECRET_ACCESS_KEY": "s", "ENDPOINT_URL_STS": endpoint}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        role = {"role_arn": "arn:aws:iam::123456789012:role/reader", "external_id": "some"}
        use("s3", {**role, "endpoint": server.url, "region": "eu-9"}, server)
    for client in ("arrow", "obstore"):
        ((key, region, token),) = server.of(client)
        assert key.startswith("ASIA")  # temporary keys
        assert (region, bool(token)) == ("eu-9", True)
