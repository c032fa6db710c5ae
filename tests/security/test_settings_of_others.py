"""A catalog's server and a table's metadata set only allowed settings: no code, no hosts for the reader's secrets."""

from __future__ import annotations

import ast
import json
import logging
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import lakescan
from lakescan import limits
from lakescan.catalogs import registry
from lakescan.catalogs.properties import filter_server_properties, property_named
from lakescan.catalogs.registry import all_configurations, connection, register_catalogs
from lakescan.catalogs.rest_catalog import _check_redirection
from lakescan.errors import (
    CorruptMetadata,
    InvalidOption,
    LimitExceeded,
    LocationRefused,
    StorageError,
    UnsupportedFeature,
)
from lakescan.storage import Storage, reachable
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.settings import SETTINGS, find_settings
from lakescan.storage.settings.azure_endpoints import assign_account
from lakescan.storage.settings.catalog_properties import is_storage_property, merge_server_properties
from lakescan.storage.vended_credentials import Credential, Credentials
from tests.support.rest_server import Request, RestServer, rest_server

SECRET = "SECRET-OF-THE-READER"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})
CODE = "tests.security.test_settings_of_others.Trap"


class Trap:
    """A class that foreign settings name, to be imported and called."""

    calls = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        Trap.calls += 1


@pytest.fixture(autouse=True)
def trap() -> Iterator[None]:
    Trap.calls = 0
    yield
    assert Trap.calls == 0


def connection_of(name: str, **properties: Any) -> Any:
    """Register a catalog with these properties and return its connection."""
    lakescan.catalog(name, **properties)
    return connection(name)


@contextmanager
def stranger(host: str = "127.0.0.2") -> Iterator[tuple[str, list[str]]]:
    """Start another server; yield its address and the requests it gets, with headers and bodies."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append(f"{self.command} {self.path} {dict(self.headers)} {body!r}")
            data = json.dumps({"access_token": "t", "token_type": "bearer", "defaults": {}, "overrides": {}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _answer

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer((host, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[RestServer, str]]:
    with rest_server(tmp_path / "rest") as (state, uri):
        state.catalog.create_namespace("n")
        table = state.catalog.create_table("n.t", schema=ROWS.schema)
        table.append(ROWS)
        yield state, uri


CODES: dict[str, dict[str, Any]] = {
    "auth": {"auth": {"type": "custom", "impl": CODE, "custom": {}}},
    "FileIO": {"py-io-impl": CODE},
    "catalog": {"py-catalog-impl": CODE, "catalog-impl": CODE},
    "location provider": {"write.py-location-provider.impl": CODE},
    "retries": {"s3.retry-strategy-impl": CODE},
    "reporter": {"metrics-reporter-impl": CODE, "key-manager": f"{CODE.rpartition('.')[0]}:Trap"},
}


@pytest.mark.parametrize("where", ["defaults", "overrides", "table"])
@pytest.mark.parametrize("said", CODES)
def test_a_server_cannot_name_code(server: tuple[RestServer, str], where: str, said: str) -> None:
    state, uri = server
    if where == "table":
        state.table_config = {name: value for name, value in CODES[said].items() if isinstance(value, str)}
    else:
        state.config = {"defaults": {}, "overrides": {}, where: CODES[said]}
    lakescan.catalog("lake", type="rest", uri=uri, token="x")
    table = lakescan.table("lake.n.t")
    assert table.scan().to_arrow().num_rows == 2
    table.alter().set_properties({"a": "b"}).commit()
    lakescan.sql("CREATE TABLE lake.n.u (id BIGINT) USING iceberg")


def planted(name: str, properties: Mapping[str, str]) -> None:
    """Write properties into a table's current metadata file, as anyone with write access to its folder can."""
    file = Path(connection(name.partition(".")[0]).load_table(name.partition(".")[2]).metadata_location[7:])
    node = json.loads(file.read_text())
    node["properties"] |= properties
    file.write_text(json.dumps(node))


def embedded(folder: Path, **more: str) -> lakescan.Catalog:
    folder.mkdir(exist_ok=True)
    lake = lakescan.catalog("lake", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}/w", **more)
    lake.create_namespace("n")
    lake.create_table("n.t", "id BIGINT")
    lakescan.table("lake.n.t").append(ROWS)
    return lake


@pytest.mark.parametrize("name", ["py-io-impl", "io-impl", "write.py-location-provider.impl"])
def test_table_metadata_cannot_name_code(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    embedded(tmp_path)
    planted("lake.n.t", {name: CODE})
    with caplog.at_level(logging.WARNING, "lakescan"):
        for _ in range(2):
            assert lakescan.table("lake.n.t").scan().to_arrow().num_rows == 2
    warned = [each.getMessage() for each in caplog.records if name in each.getMessage()]
    assert len(warned) == 1
    assert CODE not in warned[0]
    lakescan.table("lake.n.t").alter().set_properties({"a": "b"}).commit()
    lakescan.sql("ALTER TABLE lake.n.t CREATE TAG first")
    lakescan.table("lake.n.t").expire_snapshots()
    if name.startswith("write."):
        with pytest.raises(UnsupportedFeature, match=name):
            lakescan.table("lake.n.t").append(ROWS)
    lakescan.sql(f"ALTER TABLE lake.n.t UNSET TBLPROPERTIES ('{name}')")
    lakescan.table("lake.n.t").append(ROWS)


STORES: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
    "s3": (
        "s3://bucket",
        {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": SECRET, "s3.region": "eu-west-1"},
        ("s3.endpoint", "s3.proxy-uri", "fs.s3a.endpoint"),
    ),
    "gcs": ("gs://bucket", {"gcs.oauth2.token": SECRET}, ("gcs.service.host", "gcs.endpoint")),
    "azure": (
        "abfss://box@mine.dfs.core.windows.net",
        {"adls.account-name": "mine", "adls.sas-token": f"sv=2024&sig={SECRET}"},
        ("adls.account-host", "azure_storage_endpoint"),
    ),
}


@pytest.mark.parametrize("store", STORES)
def test_table_metadata_cannot_redirect_secrets(tmp_path: Path, store: str) -> None:
    place, own, names = STORES[store]
    embedded(tmp_path, **own)
    file = Path(connection("lake").load_table("n.t").metadata_location[7:])
    node = json.loads(file.read_text())
    with stranger("127.0.0.1") as (address, seen):
        host = address.removeprefix("http://")
        node["properties"] |= dict.fromkeys(names, address)
        if store == "azure":
            node["properties"] |= {f"adls.{each}-storage-authority": host for each in ("blob", "dfs")}
            node["properties"] |= {f"adls.{each}-storage-scheme": "http" for each in ("blob", "dfs")}
        for each in node["snapshots"]:
            each["manifest-list"] = f"{place}/list.avro"
        file.write_text(json.dumps(node))
        with pytest.raises(StorageError):
            lakescan.table("lake.n.t").scan().to_arrow()
        assert seen == []


def test_a_host_of_the_server_gets_no_credentials_of_the_user() -> None:
    own = STORES["s3"][1]
    for said in ({"s3.endpoint": "http://evil"}, {"s3.endpoint": "http://evil", "s3.access-key-id": "x"}):
        assert "s3.endpoint" not in merge_server_properties(own, said, "a server")
        assert merge_server_properties(own, said, "a server") == own
    assert (
        merge_server_properties(STORES["gcs"][1], {"gcs.service.host": "http://evil"}, "a server") == STORES["gcs"][1]
    )


def test_a_host_of_the_server_is_used_with_its_own_credentials() -> None:
    said = {"s3.endpoint": "http://store", "s3.access-key-id": "x", "s3.secret-access-key": "y"}
    found = merge_server_properties(
        {**STORES["s3"][1], "client.role-arn": "r", "client.access-key-id": "a"}, said, "a server"
    )
    assert found == {"s3.region": "eu-west-1", **said}
    anonymous = {"s3.endpoint": "http://store", "s3.anonymous": "true"}
    assert merge_server_properties(STORES["s3"][1], anonymous, "a server") == {"s3.region": "eu-west-1", **anonymous}
    assert (
        merge_server_properties(STORES["s3"][1], {**anonymous, "s3.anonymous": "false"}, "a server") == STORES["s3"][1]
    )


def test_the_user_s_own_host_stays_with_credentials_of_the_server() -> None:
    said = {"s3.access-key-id": "x", "s3.secret-access-key": "y", "s3.session-token": "z"}
    own = {"s3.endpoint": "http://mine", "s3.access-key-id": "a", "s3.secret-access-key": "b"}
    assert merge_server_properties(own, said, "a server") == {"s3.endpoint": "http://mine", **said}


@pytest.mark.parametrize("region", ["evil.example/", "x@evil", "a.b", ""])
def test_a_region_of_the_server_cannot_change_the_host(region: str) -> None:
    assert filter_server_properties({"s3.region": region}, "a server") == {}
    assert filter_server_properties({"client.region": "eu-west-1"}, "a server") == {"client.region": "eu-west-1"}


@pytest.mark.parametrize(
    "name",
    [
        "s3.proxy-uri", "s3.profile-name", "client.role-arn", "client.external-id", "hdfs.host", "hdfs.user",
        "dfs.nameservices", "hadoop.security.authentication", "header.X-Key", "ssl", "rest.sigv4-enabled", "token",
        "allowed-locations", "credential", "scope", "audience", "hf.endpoint", "adls.connection-string",
    ],
)  # fmt: skip
def test_user_only_settings_of_a_server_are_ignored(name: str) -> None:
    assert filter_server_properties({name: "x"}, "a server") == {}


SAID: dict[str, dict[str, Any]] = {"token server": {"oauth2-server-uri": "/oauth/tokens"}, "uri": {"uri": ""}}
OWN: dict[str, dict[str, str]] = {
    "token": {"token": SECRET},
    "credential": {"credential": f"id:{SECRET}"},
    "header": {"header.X-Api-Key": SECRET, "token": SECRET},
}


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("where", ["defaults", "overrides"])
@pytest.mark.parametrize("said", SAID)
@pytest.mark.filterwarnings("ignore")
def test_a_server_cannot_change_its_own_address(
    server: tuple[RestServer, str], said: str, where: str, own: str
) -> None:
    state, uri = server
    state.token = SECRET
    with stranger() as (address, seen):
        named = {name: address + path for name, path in SAID[said].items()}
        state.config = {"defaults": {}, "overrides": {}, where: named}
        if said == "uri" or own != "credential":  # the user's own token wins; nothing is sent to a token server
            assert lakescan.catalog("lake", type="rest", uri=uri, **OWN[own]).list_namespaces() == ["n"]
        else:
            with pytest.raises(StorageError, match=r"redirects requests to http://127\.0\.0\.2"):
                lakescan.catalog("lake", type="rest", uri=uri, **OWN[own]).list_namespaces()
        assert seen == []


@pytest.mark.parametrize("letter", ["\\", "%5c", " ", "\t", "\n", "é"])
@pytest.mark.filterwarnings("ignore")
def test_an_ambiguous_address_of_the_server_is_refused(server: tuple[RestServer, str], letter: str) -> None:
    state, uri = server
    state.token = SECRET
    with stranger() as (address, seen):
        both = f"{address}{letter}@{uri.removeprefix('http://')}"
        for named in ({"uri": both}, {"oauth2-server-uri": f"{both}/oauth/tokens"}):
            state.config = {"overrides": named}
            for own in OWN.values():
                with suppress(lakescan.LakescanError):
                    lakescan.catalog("lake", type="rest", uri=uri, **own).list_namespaces()
        assert seen == []


@pytest.mark.parametrize("name", ["Allowed-Locations", "allowed.locations", "alowed-locations"])
def test_a_misspelled_limit_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidOption, match="Did you mean 'allowed-locations'"):
        lakescan.catalog("limited", warehouse=str(tmp_path), **{name: "s3://lake"})


@pytest.mark.parametrize("name", ["allowed_locations", "allowed.locations", "alowed-locations"])
def test_a_misspelled_limit_of_the_configuration_file_is_refused(tmp_path: Path, name: str) -> None:
    catalog = f"    type: sql\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: file://{tmp_path}/w\n"
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n  lake:\n{catalog}    {name}: file://{tmp_path}/w\n")
    script = "import lakescan\nlakescan.catalog('lake').list_namespaces()"
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "InvalidOption: " in ended.stderr
    assert "Did you mean 'allowed-locations'" in ended.stderr


def test_limits_are_a_list_or_a_text(tmp_path: Path) -> None:
    for prefixes in (
        [f"{tmp_path}/a", f"{tmp_path}/b"],
        (f"{tmp_path}/a", f"{tmp_path}/b"),
        f"{tmp_path}/a,{tmp_path}/b",
    ):
        lakescan.catalog("limited", warehouse=str(tmp_path / "w"), **{"allowed-locations": prefixes})
        assert registry.allowed_locations("limited") == (f"{tmp_path}/a", f"{tmp_path}/b")
    with pytest.raises(InvalidOption, match="takes prefixes of locations"):
        lakescan.catalog("limited", warehouse=str(tmp_path / "w"), **{"allowed-locations": {"a": 1}})


def test_unknown_settings_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = {"s3.acces-key-id": SECRET}
    for _ in range(2):
        lakescan.catalog("typo", warehouse=str(tmp_path / "w"), **own).list_namespaces()
    lines = [each for each in caplog.messages if "s3.acces-key-id" in each]
    assert len(lines) == 1
    assert "Did you mean 's3.access-key-id'" in lines[0]
    assert SECRET not in caplog.text


def test_tuning_settings_of_other_clients_are_ignored_silently(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lakescan.catalog("tuned", warehouse=str(tmp_path / "w"), **{"fs.s3a.threads.max": "9"}).list_namespaces()
    assert "fs.s3a" not in caplog.text


AZURE = "abfss://box@{}.dfs.core.windows.net/t"
SAS = f"sv=2024&sig={SECRET}"


@pytest.mark.parametrize("own", [{"adls.sas-token": SAS}, {"adls.account-key": "c2VjcmV0"}], ids=str)
def test_azure_secrets_are_not_sent_to_an_account_chosen_by_a_catalog(
    own: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachable, "_why_not", lambda *_: None)
    for storage in (Storage(io_properties=own), Storage(own, allowed=AllowedLocations(is_named=False))):
        with pytest.raises(StorageError, match=r"set 'adls\.account-name' to 'theirs'"):
            storage.resolve(AZURE.format("theirs"))
    Storage(own).resolve(AZURE.format("mine"))  # the user has named it
    Storage(io_properties={**own, "adls.account-name": "mine"}).resolve(AZURE.format("mine"))


@pytest.mark.parametrize("how", ["named", "not named", "anonymous"])
def test_environment_secrets_are_not_sent_to_an_account_chosen_by_a_catalog(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reachable, "_why_not", lambda *_: None)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")
    if how == "named":
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "mine")
    own = {"adls.anon": "true"} if how == "anonymous" else {}
    storage = Storage(own, allowed=AllowedLocations(is_named=False))
    if how == "not named":
        with pytest.raises(StorageError, match="AZURE_STORAGE_ACCOUNT_NAME for credentials in the environment"):
            storage.resolve(AZURE.format("mine"))
    else:
        storage.resolve(AZURE.format("mine"))


def test_secrets_of_azure_are_for_the_account_of_the_warehouse() -> None:
    own = {"adls.account-key": "c2VjcmV0"}
    assert assign_account(own, AZURE.format("mine")) == {**own, "adls.account-name": "mine"}
    assert assign_account(own, "s3://lake") == assign_account(own, "name") == assign_account(own, None) == own
    assert assign_account({**own, "adls.account-name": "other"}, AZURE.format("mine"))["adls.account-name"] == "other"


@pytest.mark.parametrize("ending", ["", ".dfs.core.windows.net"])
def test_a_signature_by_account_is_used_only_for_its_account(ending: str) -> None:
    said = {f"adls.sas-token.{each}{ending}": f"sig={each}" for each in ("mine", "theirs")}
    found = filter_server_properties(said, "a server", AZURE.format("theirs"))
    assert found == {"adls.account-name": "theirs", "adls.sas-token": "sig=theirs"}
    assert filter_server_properties(said, "a server") == {}
    assert filter_server_properties({f"adls.sas-token.mine{ending}": "sig=x"}, "a server") == {
        "adls.account-name": "mine",
        "adls.sas-token": "sig=x",
    }


def test_signatures_that_a_server_issues_reach_its_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reachable, "_why_not", lambda *_: None)
    issued = filter_server_properties({"adls.sas-token.theirs": SAS}, "a server", AZURE.format("theirs"))
    storage = Storage(
        io_properties={"adls.account-name": "mine", "adls.account-key": "c2VjcmV0"},
        vended=Credentials([Credential("", issued)]),
    )
    storage.resolve(AZURE.format("theirs"))
    with pytest.raises(StorageError, match=r"'other'.*'theirs'"):
        storage.resolve(AZURE.format("other"))


@pytest.mark.parametrize(
    "host",
    [
        "http://169.254.169.254", "http://metadata.google.internal/x", "http://[fd00:ec2::254]:80", "169.254.169.254",
        "http://169.254.169.254?x", "http://169.254.169.254#x", "http://169.254.169.254/a://b", "//169.254.169.254",
        "http:/169.254.169.254", "http:///169.254.169.254/", "http:\\\\169.254.169.254", "HTTP://a@169.254.169.254\\@b",
    ],
)  # fmt: skip
def test_a_host_of_the_server_cannot_be_a_credential_service(host: str) -> None:
    said = {"s3.endpoint": host, "s3.access-key-id": "x", "s3.secret-access-key": "y"}
    assert "s3.endpoint" not in merge_server_properties({}, said, "a server")


def test_a_server_default_does_not_replace_a_user_setting_with_another_name(
    server: tuple[RestServer, str],
) -> None:
    state, uri = server
    state.config = {"defaults": {"s3.region": "us-east-1", "s3.connect-timeout": "9"}, "overrides": {}}
    opened: Any = connection_of("lake", type="rest", uri=uri, token="x", **{"client.region": "eu-west-1"})
    assert opened.properties["client.region"] == "eu-west-1"
    assert "s3.region" not in opened.properties
    assert opened.properties["s3.connect-timeout"] == "9"
    state.config = {"defaults": {}, "overrides": {"s3.region": "us-east-1"}}
    opened = connection_of("again", type="rest", uri=uri, token="x", **{"client.region": "eu-west-1"})
    assert opened.properties["s3.region"] == "us-east-1"


@pytest.mark.parametrize("where", ["defaults", "overrides"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rest-page-size", "0"), ("rest-page-size", "x"), ("rest-page-size", "9" * 5000),
        ("snapshot-loading-mode", "some"), ("scan-planning-mode", "5"), ("rest-scan-planning.poll-timeout-ms", "-1"),
    ],
)  # fmt: skip
def test_an_invalid_property_value_of_the_server_is_an_error_of_its_answer(
    server: tuple[RestServer, str], where: str, name: str, value: str
) -> None:
    state, uri = server
    state.config = {where: {name: value}}
    with pytest.raises(CorruptMetadata, match=f"GET v1/config cannot be read: {name} takes"):
        lakescan.catalog("lake", type="rest", uri=uri, token="x")


def test_an_invalid_property_value_of_the_configuration_file_is_refused(
    server: tuple[RestServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lakescan.catalog("lake", type="rest", uri=server[1])
    monkeypatch.setattr(registry, "_CONFIGURED", {"lake": {"rest-page-size": "x"}})
    with pytest.raises(InvalidOption, match="'rest-page-size' of catalog 'lake' takes a whole number above 0"):
        connection("lake")


def test_an_endless_list_of_the_server_is_refused(
    server: tuple[RestServer, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, uri = server
    monkeypatch.setattr(limits, "PAGES", 20)
    pages = iter(range(10**6))

    def page(request: Request) -> Any:
        if request.path.endswith("/namespaces"):
            return 200, {"namespaces": [], "next-page-token": f"p{next(pages)}"}
        return None

    state.before = page
    with pytest.raises(LimitExceeded, match=r"more than 20 pages.*lakescan\.limits\.PAGES"):
        lakescan.catalog("lake", type="rest", uri=uri, token="x").list_namespaces()


def test_the_clients_of_pyiceberg_get_the_catalog_s_authentication(server: tuple[RestServer, str]) -> None:
    _, uri = server
    own = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "token": SECRET}
    opened: Any = connection_of("lake", type="rest", uri=uri, **own)
    assert "auth.manager" in opened.load_table("n.t").io.properties
    assert "auth.manager" not in lakescan.table("lake.n.t").scan().spec.storage.io_properties


def test_readers_with_other_secrets_share_no_cache(tmp_path: Path) -> None:
    embedded(tmp_path)
    identities = set()
    for token in ("first-t0ken", "second-t0ken"):
        again = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
        lakescan.catalog("lake", **again, **{"gcs.oauth2.token": token})
        identities.add(lakescan.table("lake.n.t").scan().spec.storage.identity)
    assert len(identities) == 2


def test_blank_keys_of_a_server_are_ignored() -> None:
    said = {"s3.endpoint": "http://evil", "s3.access-key-id": " ", "s3.secret-access-key": ""}
    assert merge_server_properties({}, said, "a server") == {}


def test_a_credential_by_prefix_does_not_turn_signing_off_and_keep_the_host() -> None:
    own = {"s3.endpoint": "http://evil", "s3.remote-signing-enabled": "true"}
    assert merge_server_properties(own, {"s3.remote-signing-enabled": "false"}, "a server") == own


def test_the_host_of_a_server_is_used_with_its_credentials_by_prefix(server: tuple[RestServer, str]) -> None:
    state, uri = server
    keys = {"s3.access-key-id": "vended", "s3.secret-access-key": "vended-secret"}
    state.table_config = {"s3.endpoint": "http://127.0.0.1:9", "s3.region": "eu-west-1"}
    state.of_table = {"storage-credentials": [{"prefix": "s3://bucket/data", "config": keys}]}
    lakescan.catalog("lake", type="rest", uri=uri, token="x")
    storage = lakescan.table("lake.n.t").scan().spec.storage
    assert storage.settings_at("s3://bucket/data/a").s3()["endpoint_override"] == "http://127.0.0.1:9"
    assert "endpoint_override" not in storage.settings_at("s3://other/a").s3({})


def test_requests_to_the_server_are_signed_by_the_users_keys_alone(server: tuple[RestServer, str]) -> None:
    state, uri = server
    state.config = {
        "defaults": {"s3.region": "us-east-1"},
        "overrides": {"s3.access-key-id": "theirs", "s3.secret-access-key": "their-secret"},
    }
    own = {"client.region": "eu-west-1", "client.access-key-id": "mine", "client.secret-access-key": "my-own-secret"}
    lakescan.catalog("lake", type="rest", uri=uri, **{"rest.sigv4-enabled": "true", **own}).list_namespaces()
    assert all("Credential=mine/" in each.headers["authorization"] for each in state.requests)


def test_the_token_server_of_the_user_is_not_replaced(server: tuple[RestServer, str]) -> None:
    state, uri = server
    state.token = "t"
    with stranger() as (address, seen):
        state.config = {"overrides": {"oauth2-server-uri": f"{address}/oauth/tokens"}}
        own = {"credential": f"id:{SECRET}", "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}
        assert lakescan.catalog("lake", type="rest", uri=uri, **own).list_namespaces() == ["n"]
        assert seen == []


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("path", ["namespaces", "oauth/tokens", "tables/t"])
@pytest.mark.filterwarnings("ignore")
def test_redirections_send_no_secrets_to_another_host(own: str, path: str) -> None:
    with stranger() as (address, seen):

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                leads = path in self.path
                data = json.dumps({"access_token": "t", "token_type": "bearer", "namespaces": []}).encode()
                self.send_response(307 if leads else 200)
                if leads:
                    self.send_header("Location", address + self.path)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = _answer

            def log_message(self, *arguments: Any) -> None:
                """Nothing."""

        here = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=here.serve_forever, daemon=True).start()
        try:
            uri = f"http://127.0.0.1:{here.server_port}"

            def opened() -> Any:
                lakescan.catalog("lake", type="rest", uri=uri, **OWN[own]).list_namespaces()
                return lakescan.table("lake.n.t")

            is_met = path != "oauth/tokens" or own == "credential"
            if is_met:
                with pytest.raises(StorageError, match="redirects"):
                    opened()
            else:
                lakescan.catalog("lake", type="rest", uri=uri, **OWN[own]).list_namespaces()
        finally:
            here.shutdown()
            here.server_close()
        assert seen == []


def test_redirections_to_ambiguous_addresses_are_refused() -> None:
    class Answer:
        is_redirect = True
        headers: ClassVar[dict[str, str]] = {"location": "http://evil\\@mine/v1"}
        request = SimpleNamespace(url="http://us%65r@mine/v1", method="GET")

    with pytest.raises(StorageError, match="redirects"):
        _check_redirection(Answer())


def test_a_later_configuration_applies_although_the_clock_went_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakescan.catalog("lake", warehouse=str(tmp_path / "first"))
    first = all_configurations()["lake"]
    monkeypatch.setattr("time.time_ns", lambda: 1)
    lakescan.catalog("lake", warehouse=str(tmp_path / "second"))
    register_catalogs({"lake": first})
    assert all_configurations()["lake"].properties["warehouse"].endswith("second")


RUN = """
import os, sys, lakescan
how, elsewhere = sys.argv[1:]
lake = lakescan.catalog("lake", **({"s3.region": "eu-west-1"} if how == "property" else {}))
lake.list_namespaces()
if how == "folder":
    os.chdir(elsewhere)
try:
    print(lakescan.table("lake.n.t").scan().to_arrow().num_rows)
except lakescan.LocationRefused:
    print("refused")
"""


def test_limits_are_a_list_in_the_configuration_file_too(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    type: sql\n    allowed-locations:\n      - file://{tmp_path}/w\n      - s3://lake/a\n"
    )
    script = "from lakescan.catalogs.registry import allowed_locations\nprint(*allowed_locations('lake'))"
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [f"file://{tmp_path}/w", "s3://lake/a"]


@pytest.mark.parametrize("how", ["plain", "property", "folder"])
def test_limits_of_the_configuration_file_hold(tmp_path: Path, how: str) -> None:
    """Whatever is set in Python, and whatever folder the process works in."""
    embedded(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    lakescan.catalog("lake").drop_table("n.t")
    lakescan.catalog("lake").create_table("n.t", "id BIGINT", location=str(other / "t"))
    lakescan.table("lake.n.t").append(ROWS)
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    type: sql\n    uri: sqlite:///{tmp_path}/c.db\n    warehouse: file://{tmp_path}/w\n"
        f"    allowed-locations: file://{tmp_path}/w\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", RUN, how, str(other)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "refused"


def test_limits_of_the_environment_reach_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LIMITED__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LIMITED__ALLOWED_LOCATIONS", f"file://{tmp_path}/w")
    lakescan.catalog("limited", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    assert all_configurations()["limited"].properties["allowed-locations"] == f"file://{tmp_path}/w"
    lake = lakescan.catalog("limited")
    lake.create_namespace("n")
    with pytest.raises(LocationRefused):
        lake.create_table("n.t", "id BIGINT", location=str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize("name", ["../x", "../../x", "a/../../x", "..", ".", "a\nb", "a\0b", "a/b", "a\\b", " "])
def test_a_name_cannot_lead_out_of_a_warehouse(tmp_path: Path, name: str, format: str) -> None:
    lake = lakescan.catalog("lake", warehouse=str(tmp_path / "home" / "lake"))
    lake.create_namespace("n")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(lakescan.InvalidOption, match="cannot be the name of"):
        lake.create_table(f"n.`{name}`", "id BIGINT", format=format)
    if "/" not in name and "\\" not in name:
        with pytest.raises(lakescan.InvalidOption, match="cannot be the name of"):
            lake.create_namespace(f"`{name}`")
    assert sorted(tmp_path.rglob("*")) == before


# Read from metastore entries and table properties, which configure no connection.
OF_ENTRIES = {"Description", "comment", "location", "metadata_location", "previous_metadata_location", "owner"} | {
    "table_type",
    "schema_version",
}
READERS = ("get_first_property_value", "property_as_bool", "property_as_int", "property_as_float")


def read_by_pyiceberg() -> set[str]:
    """Return the property names that pyiceberg's catalogs and files read, found in its source."""
    import pyiceberg

    root, found = Path(pyiceberg.__file__).parent, set[str]()
    for file in (*root.glob("io/*.py"), *root.glob("catalog/**/*.py")):
        tree = ast.parse(file.read_text())
        module = ".".join(("pyiceberg", *file.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
        try:
            names = vars(import_module(module))
        except ImportError:
            names = {}
        names = names | {
            each.targets[0].id: each.value.value
            for each in tree.body
            if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
        }
        for node in ast.walk(tree):
            for argument in named_in(node):
                value = argument.value if isinstance(argument, ast.Constant) else names.get(ast.unparse(argument))
                if isinstance(value, str):
                    found.add(value)
    return found


def named_in(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Attribute(attr="get") as function) if is_properties(function.value):
            return node.args[:1]
        case ast.Call(func=ast.Name(id=name)) if name in READERS:
            return node.args[1:] if name == READERS[0] else node.args[1:2]
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[of]) if is_properties(of):
            return [node.left]
        case ast.Subscript(value=of) if is_properties(of):
            return [node.slice]
    return []


def is_properties(node: ast.expr) -> bool:
    return ast.unparse(node).lower().endswith("properties")


def test_every_property_that_pyiceberg_reads_is_described() -> None:
    names = read_by_pyiceberg()
    assert len(names) > 120
    unknown = {each for each in names - OF_ENTRIES if property_named(each) is None and not find_settings(each)}
    assert unknown == set()


def test_a_vended_credential_cannot_set_a_host_for_the_users_keys(server: tuple[RestServer, str]) -> None:
    state, uri = server
    with stranger("127.0.0.1") as (address, seen):
        issued = {"s3.endpoint": address, "s3.proxy-uri": address, "client.role-arn": "evil"}
        state.of_table = {"storage-credentials": [{"prefix": "s3://bucket", "config": issued}]}
        lakescan.catalog("lake", type="rest", uri=uri, **STORES["s3"][1])
        storage = lakescan.table("lake.n.t").scan().spec.storage
        with pytest.raises(StorageError):
            storage.read("s3://bucket/a", 0, 1)
        assert seen == []


# obstore settings without a lakescan option: only declared settings reach a client.
NOT_OFFERED = {
    "s3": {
        "bucket", "checksum_algorithm", "container_authorization_token_file", "container_credentials_full_uri",
        "container_credentials_relative_uri", "disable_bulk_delete", "disable_tagging", "imdsv1_fallback",
        "metadata_endpoint", "s3_express", "server_side_encryption", "sse_bucket_key_enabled",
        "sse_customer_key_base64", "sse_kms_key_id", "sts_endpoint", "unsigned_payload", "web_identity_token_file",
    },
    "gcs": {"application_credentials", "bucket", "service_account", "service_account_key"},
    "abfs": {
        "authority_host", "container_name", "credential_type", "disable_tagging", "encryption_key",
        "fabric_cluster_identifier", "fabric_session_token", "fabric_token_service_url", "fabric_workload_host",
        "federated_token_file", "msi_endpoint", "msi_resource_id", "object_id", "use_azure_cli", "use_emulator",
        "use_fabric_endpoint",
    },
}  # fmt: skip
PREFIXES = {"s3": ("aws_",), "gcs": ("google_",), "abfs": ("azure_storage_", "azure_")}


def arguments_of_pyarrow() -> set[tuple[str, str]]:
    """Return the arguments of Arrow's filesystems, by their signatures."""
    from pyarrow import fs as pafs

    stores = {"s3": pafs.S3FileSystem, "gcs": pafs.GcsFileSystem, "abfs": pafs.AzureFileSystem}
    stores["hdfs"] = pafs.HadoopFileSystem
    found = set()
    for store, kind in stores.items():
        signature = re.search(r"\((.*?)\)\n", kind.__doc__, re.S)[1]
        found |= {(store, name) for name in re.findall(r"(?:^|[\s,])(\w+)(?==|,|$)", signature)}
    return found


def settings_of_obstore() -> set[tuple[str, str]]:
    """Return the settings of obstore's stores, by their types."""
    import obstore

    found = set()
    for store, name in (("s3", "_aws"), ("gcs", "_gcs"), ("abfs", "_azure")):
        text = next(Path(obstore.__file__).parent.rglob(f"{name}.pyi")).read_text()
        config = re.search(r"class \w+Config\(TypedDict.*?(?=\nclass )", text, re.S)[0]
        found |= {(store, each) for each in re.findall(r"^    (\w+): ", config, re.M) if each.islower()}
    return found


def test_every_argument_of_arrow_s_filesystems_is_described() -> None:
    names = arguments_of_pyarrow()
    assert len(names) >= 45
    assert names - {(each.store, each.arrow) for each in SETTINGS} == set()


def test_every_setting_of_obstore_is_described_or_not_offered() -> None:
    names = settings_of_obstore()
    assert len(names) > 40
    unknown = {
        (store, name)
        for store, name in names
        if name not in NOT_OFFERED[store]
        and not any(
            setting.store == store
            for each in (name, *(prefix + name for prefix in PREFIXES[store]))
            for setting in find_settings(each)
        )
    }
    assert unknown == set()


# What Hadoop's client in PySpark's JARs (hadoop-client-api 3.5.0) reads of a store, as its `core-default.xml` lists it:
# trust, and the targets of requests. `TUNED` has the names that only tune it.
OF_HADOOP_S_CLIENT = {
    "classes": {
        "fs.abfs.impl", "fs.abfss.impl", "fs.gs.impl", "fs.s3a.assumed.role.credentials.provider",
        "fs.s3a.aws.credentials.provider", "fs.s3a.delegation.token.binding", "fs.s3a.impl",
        "fs.s3a.signing-algorithm", "fs.s3a.committer.name",
    },
    "hosts": {
        "fs.s3a.accesspoint.required", "fs.s3a.assumed.role.sts.endpoint", "fs.s3a.assumed.role.sts.endpoint.region",
        "fs.s3a.connection.ssl.enabled", "fs.s3a.endpoint", "fs.s3a.path.style.access", "fs.s3a.ssl.channel.mode",
    },
    "proxies": {f"fs.s3a.proxy.{each}" for each in ("domain", "host", "password", "port", "username", "workstation")},
    "credentials": {
        "fs.azure.authorization", "fs.azure.authorization.caching.enable", "fs.azure.local.sas.key.mode",
        "fs.azure.sas.expiry.period", "fs.azure.saskey.usecontainersaskeyforallaccess", "fs.azure.secure.mode",
        "fs.gs.auth.client.id", "fs.gs.auth.client.secret", "fs.gs.auth.refresh.token",
        "fs.gs.auth.service.account.json.keyfile", "fs.gs.auth.type", "fs.gs.project.id", "fs.s3a.access.key",
        "fs.s3a.acl.default", "fs.s3a.assumed.role.arn", "fs.s3a.assumed.role.policy",
        "fs.s3a.assumed.role.session.duration", "fs.s3a.assumed.role.session.name", "fs.s3a.encryption.algorithm",
        "fs.s3a.encryption.context", "fs.s3a.encryption.key", "fs.s3a.secret.key",
        "fs.s3a.security.credential.provider.path", "fs.s3a.session.token",
    },
    "folders": {
        "fs.azure.buffer.dir", "fs.gs.working.dir", "fs.s3a.buffer.dir", "fs.s3a.committer.staging.tmp.path",
    },
}  # fmt: skip
TUNED = re.compile(
    r"fs\.s3a\.(attempts|audit|change\.detection|committer\.(abort|magic|staging\.(unique|conflict)|threads)|"
    r"connection\.(establish|maximum|timeout|ttl)|downgrade|etag|executor|fast\.upload|list|max\.total|multi|paging|"
    r"readahead|block\.size|retry|select|socket|threads|user\.agent).*"
    r"|fs\.gs\.(block|bucket\.delete|create|fadvise|inputstream|marker|outputstream|rewrite).*"
    r"|fs\.azure\.(enable\.readahead|user\.agent\.prefix)"
)


def settings_of_hadoop() -> set[str]:
    """Return the store settings that Hadoop's client in PySpark's JARs reads, from its list of defaults."""
    pyspark = pytest.importorskip("pyspark")
    (jar,) = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    with zipfile.ZipFile(jar) as opened:
        found = ElementTree.fromstring(opened.read("core-default.xml")).findall("property/name")
    names = {str(each.text).strip() for each in found}
    return {each for each in names if each.startswith(("fs.s3a.", "fs.azure.", "fs.abfs", "fs.gs."))}


def test_every_setting_of_hadoop_s_client_is_described_as_the_user_s_own() -> None:
    names = settings_of_hadoop()
    assert len(names) > 100
    of_trust = set[str]().union(*OF_HADOOP_S_CLIENT.values())
    assert {each for each in names if not TUNED.fullmatch(each)} == of_trust
    for name in (*names, *of_trust, "fs.s3a.bucket.lake.endpoint", "spark.hadoop.fs.s3a.endpoint"):
        assert filter_server_properties({name: "x"}, "a server") == {}, name
        assert merge_server_properties({}, {name: "x"}, "a server") == {}, name
        assert not is_storage_property(name), name  # no property of a table or catalog with this name configures files


def test_no_setting_is_sent_to_hadoop_s_client() -> None:
    """Spark reads files with its own settings, which lakescan inspects and never changes."""
    root = Path(lakescan.__file__).parent
    for file in root.rglob("*.py"):
        text = file.read_text()
        assert not re.search(r"hadoopConfiguration|newHadoopConf\(\)\.set|_jsc\b.*set", text), file
        for name in re.findall(r"(\w+) = .*newHadoopConf\(\)", text):  # a copy of the settings that is only passed on
            assert not re.search(rf"\b{name}\.(?:set|unset|add|clear)", text), file
        for call in re.findall(r"(?:conf\.set|try_set|\.config)\(([^)]*)\)", text):
            assert "hadoop" not in call, (file, call)
            assert "fs." not in call, (file, call)
