"""No output shows a secret: errors with their causes, log lines, warnings, `repr`, plans, pages, the command line."""

from __future__ import annotations

import json
import logging
import pickle
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.registry import all_configurations, configuration_of, connection
from lakescan.cli import main
from lakescan.storage import Storage
from lakescan.storage.settings import StorageOptions
from tests.support.rest_server import rest_server

SECRET = "PLANTED-s3cr3t"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})

# The user's settings of a REST catalog, by the secret part.
OWN: dict[str, dict[str, Any]] = {
    "token": {"token": f"{SECRET}-token"},
    "token with a line end": {"token": f"{SECRET}-token\n"},
    "token with a line break": {"token": f"{SECRET}-one\n{SECRET}-two"},
    "token that is not Latin-1": {"token": f"{SECRET}-\u20ac"},
    "credential": {"credential": f"id:{SECRET}-secret"},
    "credential with a line end": {"credential": f"id:{SECRET}-secret\n"},
    "header": {"header.X-Api-Key": f"{SECRET}-key"},
    "header with a line break": {"header.X-Api-Key": f"{SECRET}-key\n{SECRET}-more"},
    "basic": {"auth": {"type": "basic", "basic": {"username": "u", "password": f"{SECRET}-password"}}},
    "JSON": {"auth": json.dumps({"type": "basic", "basic": {"username": "u", "password": f"{SECRET}-password"}})},
    "oauth2": {
        "auth": {
            "type": "oauth2",
            "oauth2": {"client_id": "i", "client_secret": f"{SECRET}-client", "token_url": "URI/v1/oauth/tokens"},
        }
    },
    "wrong auth": {"auth": {"type": "no such", "password": f"{SECRET}-password"}},
    "auth that is no dictionary": {"auth": f"{SECRET}-auth"},
    "password in the uri": {"uri": f"http://u:{SECRET}-password@HOST"},
    "password with @ in the uri": {"uri": f"http://u:{SECRET}@{SECRET}-more@HOST"},
    "password in a proxy": {"s3.proxy-uri": f"http://u:{SECRET}-password@127.0.0.1:1", "token": f"{SECRET}-t"},
    "keys": {
        "s3.access-key-id": "AKIA",
        "s3.secret-access-key": f"{SECRET}-key",
        "s3.session-token": f"{SECRET}-session",
        "adls.account-key": f"{SECRET}-account",
        "adls.sas-token": f"sv=1&sig={SECRET}-sig",
        "gcs.oauth2.token": f"{SECRET}-oauth",
    },
}  # fmt: skip


@contextmanager
def echo(status: int, kind: str) -> Iterator[str]:
    """Start a server that answers each request with the request itself; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode("latin-1")
            sent = f"{self.command} {self.path} {dict(self.headers)} {body}"
            text = {
                "error": json.dumps({"error": {"message": sent, "type": "Refused", "code": status}}),
                "other error": json.dumps({"error": sent, "error_description": sent}),
                "text": sent,
                "list": json.dumps([sent]),
                "types": json.dumps({"defaults": [sent], "overrides": sent, "access_token": [sent]}),
                "config": json.dumps({"defaults": {"prefix": [sent]}, "overrides": {}, "access_token": sent}),
            }[kind].encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _answer

        def log_message(self, *arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def closed() -> Iterator[str]:
    """Yield the address of a port that does not answer."""
    yield "http://127.0.0.1:1"


@contextmanager
def unknown() -> Iterator[str]:
    """Yield an address with a host that does not exist."""
    yield "http://nobody.invalid"


FAILURES: dict[str, Callable[[], Any]] = {
    "refused port": closed,
    "unknown host": unknown,
    **{f"{status}, {kind}": lambda status=status, kind=kind: echo(status, kind)
       for status in (401, 403, 404, 500, 503) for kind in ("error", "other error", "text")},
    **{f"200, {kind}": lambda kind=kind: echo(200, kind) for kind in ("text", "list", "types", "config")},
}  # fmt: skip


class Outputs:
    """All texts that a user may see: results, errors with their causes, warnings, log lines."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.texts: list[str] = []
        self.errors: list[BaseException] = []
        self.caplog = caplog

    def of(self, call: Callable[[], Any]) -> Any:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                found = call()
                self.texts += [str(found), repr(found)]
            except (Exception, SystemExit) as error:
                found = None
                self.errors.append(error)
                self.texts += traceback.format_exception(error)
                at: BaseException | None = error
                while at is not None:
                    self.texts += [str(at), repr(at), repr(at.args), repr(vars(at))]
                    at = at.__cause__ or at.__context__
        self.texts += [str(each.message) for each in warned]
        return found

    @property
    def with_secrets(self) -> list[str]:
        lines = [record.getMessage() for record in self.caplog.records]
        traces = ["".join(traceback.format_exception(r.exc_info[1])) for r in self.caplog.records if r.exc_info]
        return [each for each in (*self.texts, *lines, *traces) if SECRET in each]


@pytest.fixture
def outputs(caplog: pytest.LogCaptureFixture) -> Iterator[Outputs]:
    with caplog.at_level(logging.DEBUG):
        yield Outputs(caplog)


def placed(node: Any, uri: str) -> Any:
    """Replace URI and HOST in properties by the address of a server."""
    if isinstance(node, Mapping):
        return {name: placed(value, uri) for name, value in node.items()}
    return node.replace("URI", uri).replace("HOST", uri.removeprefix("http://")) if isinstance(node, str) else node


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("own", OWN)
def test_failures_of_rest_catalogs_show_no_secret(outputs: Outputs, own: str, failure: str) -> None:
    with FAILURES[failure]() as uri:
        properties = {"uri": uri, **placed(OWN[own], uri)}
        lake = outputs.of(lambda: lakescan.catalog("lake", type="rest", **properties))
        outputs.of(lambda: lakescan.table("lake.n.t").scan().to_arrow())
        outputs.of(lambda: lakescan.sql("SELECT * FROM lake.n.t").to_arrow())
        outputs.of(lambda: configuration_of("lake"))
        outputs.of(all_configurations)
        if lake is not None:
            outputs.of(lake.list_namespaces)
            outputs.of(lambda: lake.create_table("n.t", "id BIGINT"))
    assert outputs.errors
    assert [each[:700] for each in outputs.with_secrets] == []


UNREACHABLE: dict[str, dict[str, Any]] = {
    "sql": {"type": "sql", "uri": f"postgresql://u:{SECRET}-password@127.0.0.1:1/db"},
    "sql, a password with @": {"type": "sql", "uri": f"postgresql://u:{SECRET}@{SECRET}-more@127.0.0.1:1/db"},
    "sql, no such driver": {"type": "sql", "uri": f"nothing://u:{SECRET}-password@127.0.0.1:1/db"},
    "sql, no address": {"type": "sql", "uri": f"postgresql://u:{SECRET}-password@127.0.0.1:port/db"},
    "hive": {"type": "hive", "uri": "thrift://127.0.0.1:1", "s3.secret-access-key": f"{SECRET}-key"},
    "glue": {
        "type": "glue",
        "glue.endpoint": "http://127.0.0.1:1",
        "glue.region": "eu-west-1",
        "glue.access-key-id": "AKIA",
        "glue.secret-access-key": f"{SECRET}-key",
        "glue.session-token": f"{SECRET}-session",
        "glue.max-retries": 0,
    },
    "dynamodb": {
        "type": "dynamodb",
        "dynamodb.region": "no-such",
        "dynamodb.access-key-id": "AKIA",
        "dynamodb.secret-access-key": f"{SECRET}-key",
        "dynamodb.session-token": f"{SECRET}-session",
    },
    "unknown type": {"type": "no-such", "token": f"{SECRET}-token"},
    "wrong kinds": {"type": "rest", "uri": "http://127.0.0.1:1", "ssl": f"{SECRET}", "credential": f"id:{SECRET}"},
}


@pytest.mark.parametrize("kind", UNREACHABLE)
def test_unreachable_catalogs_show_no_secret(outputs: Outputs, kind: str) -> None:
    lake = outputs.of(lambda: lakescan.catalog("lake", **UNREACHABLE[kind]))
    outputs.of(lambda: lakescan.table("lake.n.t"))
    if lake is not None:
        outputs.of(lake.list_namespaces)
    assert outputs.errors
    assert [each[:700] for each in outputs.with_secrets] == []


@pytest.mark.parametrize("failure", ["refused port", "401, error", "500, text", "200, list"])
@pytest.mark.parametrize(
    "token", [f"{SECRET}-token", f"{SECRET}-token\n", f"{SECRET}-a\n{SECRET}-b", f"{SECRET}-\u20ac"]
)
def test_failures_of_unity_catalogs_show_no_secret(
    outputs: Outputs, token: str, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakescan.catalogs.unity.client.pause", lambda *_: None)
    with FAILURES[failure]() as uri:
        lake = outputs.of(lambda: lakescan.catalog("main", type="unity", uri=uri, token=token))
        outputs.of(lambda: lakescan.table("main.n.t"))
        if lake is not None:
            outputs.of(lake.list_namespaces)
    assert outputs.errors
    assert all(isinstance(each, lakescan.LakescanError) for each in outputs.errors)
    assert [each[:700] for each in outputs.with_secrets] == []


# By store: a location, and settings, in which HOST stands for a server.
STORES: dict[str, tuple[str, dict[str, str]]] = {
    "s3": (
        "s3://bucket/t",
        {
            "aws_endpoint_url": "http://HOST",
            "aws_access_key_id": "AKIA",
            "aws_secret_access_key": f"{SECRET}-key",
            "aws_session_token": f"{SECRET}-session",
            "max_retries": "0",
        },
    ),
    "s3, a password in the endpoint": (
        "s3://bucket/t",
        {
            "aws_endpoint_url": f"http://u:{SECRET}-password@HOST",
            "aws_access_key_id": "AKIA",
            "aws_secret_access_key": f"{SECRET}-key",
            "max_retries": "0",
        },
    ),
    "s3, a proxy": (
        "s3://bucket/t",
        {
            "aws_region": "eu-west-1",
            "proxy_url": f"http://u:{SECRET}-password@HOST",
            "aws_access_key_id": "AKIA",
            "aws_secret_access_key": f"{SECRET}-key",
            "max_retries": "0",
        },
    ),
    "gcs": (
        "gs://bucket/t",
        {"google_base_url": "http://HOST", "gcs.oauth2.token": f"{SECRET}-t", "retry_timeout": "1s"},
    ),
    "azure, a key": (
        "abfss://box@mine.dfs.core.windows.net/t",
        {"azure_storage_endpoint": "http://HOST/mine", "azure_storage_account_key": f"{SECRET}-key"},
    ),
    "azure, a signature": (
        "abfss://box@mine.dfs.core.windows.net/t",
        {"azure_storage_endpoint": "http://HOST/mine", "azure_storage_sas_token": f"sv=2024&sig={SECRET}-sig"},
    ),
    "wrong": (
        "s3://bucket/t",
        {"aws_secret_access_key": f"{SECRET}-key", "no_such_option": SECRET, "timeout": SECRET},
    ),
}  # fmt: skip


@pytest.mark.parametrize("failure", ["refused port", "401, text", "403, text", "404, text"])
@pytest.mark.parametrize("store", STORES)
def test_failures_of_stores_show_no_secret(outputs: Outputs, store: str, failure: str) -> None:
    place, settings = STORES[store]
    with FAILURES[failure]() as uri:
        settings = placed(settings, uri)
        outputs.of(lambda: StorageOptions.parse(settings))
        outputs.of(lambda: Storage(settings))
        outputs.of(lambda: lakescan.table(place, storage_options=settings))
        if failure == "refused port":
            outputs.of(lambda: lakescan.save(ROWS, place, format="delta", storage_options=settings))
    assert outputs.errors
    assert [each[:700] for each in outputs.with_secrets] == []


def test_tables_scans_and_plans_show_no_secret(
    outputs: Outputs, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with credentials that the server vends."""

    def run(*command: str) -> None:
        monkeypatch.setattr("sys.argv", ["lakescan", *command])
        outputs.of(main)

    vended = {
        "s3.access-key-id": "AKIA",
        "s3.secret-access-key": f"{SECRET}-vended",
        "s3.session-token": f"{SECRET}-st",
    }
    with rest_server(tmp_path / "rest") as (state, uri):
        state.token = f"{SECRET}-token"
        state.table_config = vended
        state.of_table = {"storage-credentials": [{"prefix": "s3://bucket/", "config": vended}]}
        state.catalog.create_namespace("n")
        state.catalog.create_table("n.t", schema=ROWS.schema).append(ROWS)
        own = {**OWN["keys"], **OWN["header"], "token": state.token}
        lake = outputs.of(lambda: lakescan.catalog("lake", type="rest", uri=uri, **own))
        table = outputs.of(lambda: lakescan.table("lake.n.t"))
        scan = outputs.of(lambda: table.scan().where("id = 1"))
        for call in (
            lake._repr_html_, table._repr_html_, table.detail, table.health, scan.plan, scan.explain, scan._repr_html_,
            lambda: vars(scan), lambda: vars(table), lambda: connection("lake"), lambda: table.append(ROWS),
            lambda: lakescan.sql("EXPLAIN SELECT * FROM lake.n.t").to_arrow(),
            lambda: lakescan.sql("DESCRIBE EXTENDED lake.n.t").to_arrow(),
            lambda: lakescan.sql("SHOW CREATE TABLE lake.n.t").to_arrow(),
            lambda: lakescan.sql("SELECT nothing FROM lake.n.t").to_arrow(),
            lambda: table.scan().where("nothing = 1").to_arrow(),
        ):  # fmt: skip
            outputs.of(call)
        assert outputs.of(lambda: scan.to_arrow()) is not None
        for command in ("plan", "detail", "history", "count", "health"):
            run(command, "lake.n.t")
        state.token = "another"
        outputs.of(lambda: table.scan().to_arrow())
        outputs.of(lambda: table.append(ROWS))
        run("count", "lake.n.t")
    out, err = capsys.readouterr()
    outputs.texts += [out, err]
    assert "lake" in out
    assert "error" in err.lower()
    assert [each[:700] for each in outputs.with_secrets] == []


def test_an_error_sent_to_another_process_shows_no_secret() -> None:
    from lakescan.common.secrets import register_secrets

    register_secrets([f"{SECRET}-x"])
    assert SECRET.encode() not in pickle.dumps(lakescan.LakescanError(f"a token {SECRET}-x"))
