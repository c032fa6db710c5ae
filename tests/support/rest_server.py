"""A REST catalog in a thread, over a pyiceberg catalog in a folder, with faults and a record of all requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from lakescan.iceberg.metadata.pyiceberg_metadata import extend_catalog, metadata_text, metadata_writes
from lakescan.storage.settings.catalog_properties import storage_properties
from tests.support.rest_plans import as_answer, in_pages, scan_tasks

TABLE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    f"GET {TABLE}",
    f"POST {TABLE}",
    f"DELETE {TABLE}",
    "POST /v1/{prefix}/transactions/commit",
    f"POST {TABLE}/plan",
    f"GET {TABLE}/plan/{{plan-id}}",
    f"DELETE {TABLE}/plan/{{plan-id}}",
    f"POST {TABLE}/tasks",
    f"GET {TABLE}/credentials",
    f"POST {TABLE}/metrics",
)


@dataclass
class Request:
    """A client's request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    query: dict[str, list[str]] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Return method and path, such as `POST transactions/commit`."""
        return f"{self.method} {self.path.removeprefix('/v1/')}"


@dataclass
class Fault:
    """An answer that replaces the real one for requests whose `what` ends with a text; None closes the connection."""

    what: str
    status: int | None
    times: int = 1
    is_done: bool = False  # whether the request is still carried out
    headers: dict[str, str] = field(default_factory=dict)


Answer = tuple[int, Any]


class RestServer:
    """The server's state: its catalog, its configuration, faults, and the requests so far."""

    def __init__(self, folder: Path, properties: Mapping[str, str]) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        self.folder = folder
        own = {"uri": f"sqlite:///{folder}/rest.db", "warehouse": f"file://{folder}/warehouse"}
        self.catalog = extend_catalog(SqlCatalog("behind", **{**own, **properties}))
        self.endpoints: list[str] | None = list(ENDPOINTS)
        self.config: dict[str, Any] = {}  # members of `v1/config` other than the endpoints
        self.table_config: dict[str, Any] = {}  # config of loaded tables
        self.of_table: dict[str, Any] = {}  # more of loaded tables
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.before: Callable[[Request], Answer | None] = lambda request: None  # may answer instead of the server
        self.plans: dict[str, tuple[int, Any]] = {}  # how often plans are not completed yet, and the answer then
        self.plan_tasks: dict[str, Any] = {}
        self.page, self.looks = 0, 0  # tasks per plan task; how often an asynchronous plan is not completed
        self.of_plan: dict[str, Any] = {}  # more of a completed plan
        self.credentials: list[Any] = []
        self.signer: Callable[[dict[str, Any]], dict[str, Any]] | None = None  # signers of requests to S3
        self.of_signatures = {"Cache-Control": "private"}  # headers of the signer's answers
        self.token: str | None = None  # the required authorization of requests
        self.keys: dict[str, Answer] = {}  # answers by their idempotency key
        self.lock = threading.RLock()

    def sent(self, what: str) -> list[Request]:
        """Return the requests whose method and path end with `what`."""
        return [each for each in self.requests if each.what.endswith(what)]

    def answer(self, request: Request) -> Answer:
        """Return the catalog's answer; a repeated request with an idempotency key has no further effect."""
        key = request.headers.get("idempotency-key")
        if request.path.endswith("/oauth/tokens"):
            return 200, {"access_token": self.token, "token_type": "bearer", "expires_in": 3600}
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            return error_answer(401, RuntimeError("the token has expired"))
        with self.lock:
            if key in self.keys:
                return self.keys[key]
            found = self.before(request) or self._answered(request)
            if key is not None and found[0] < 500:
                self.keys[key] = found
            return found

    def _answered(self, request: Request) -> Answer:
        from pyiceberg import exceptions as theirs

        try:
            return self._routed(request)
        except (theirs.NoSuchTableError, theirs.NoSuchNamespaceError) as error:
            return error_answer(404, error)
        except (theirs.CommitFailedException, theirs.TableAlreadyExistsError, theirs.NamespaceAlreadyExistsError) as e:
            return error_answer(409, e)
        except (ValueError, NotImplementedError) as error:
            return error_answer(400, error)
        except Exception as error:
            return error_answer(500, error)

    def _routed(self, request: Request) -> Answer:
        match (request.method, *request.path.removeprefix("/v1/").split("/")):
            case ("GET", "config"):
                listed = {} if self.endpoints is None else {"endpoints": self.endpoints}
                return 200, {"defaults": {}, "overrides": {}, **listed, **self.config}
            case ("GET", "namespaces"):
                parent = request.query.get("parent", [""])[0]
                return 200, {"namespaces": self.catalog.list_namespaces(names(parent) if parent else ())}
            case ("POST", "namespaces"):
                self.catalog.create_namespace(tuple(request.body["namespace"]), request.body.get("properties", {}))
                return 200, {"namespace": request.body["namespace"], "properties": {}}
            case ("GET", "namespaces", namespace):
                found = self.catalog.load_namespace_properties(names(namespace))
                return 200, {"namespace": names(namespace), "properties": dict(found)}
            case ("GET", "namespaces", namespace, "tables"):
                found = self.catalog.list_tables(names(namespace))
                return 200, {"identifiers": [{"namespace": each[:-1], "name": each[-1]} for each in found]}
            case ("POST", "namespaces", namespace, "tables"):
                return self._created(names(namespace), request.body)
            case ("GET", "namespaces", namespace, "tables", table):
                return 200, self.loaded((*names(namespace), unquote(table)))
            case ("POST", "namespaces", namespace, "tables", table):
                self._commit([{**request.body, "identifier": {"namespace": names(namespace), "name": unquote(table)}}])
                return 200, self.loaded((*names(namespace), unquote(table)))
            case ("DELETE", "namespaces", namespace, "tables", table):
                self.catalog.drop_table((*names(namespace), unquote(table)))
                return 204, None
            case ("POST", "namespaces", namespace, "tables", table, "plan"):
                return self._planned((*names(namespace), unquote(table)), request.body)
            case ("GET", "namespaces", _, "tables", _, "plan", plan_id):
                left, answer = self.plans[plan_id]
                self.plans[plan_id] = left - 1, answer
                return 200, answer if left < 1 else {"status": "submitted", "plan-id": plan_id}
            case ("DELETE", "namespaces", _, "tables", _, "plan", plan_id):
                self.plans.pop(plan_id)
                return 204, None
            case ("POST", "namespaces", _, "tables", _, "tasks"):
                return 200, self.plan_tasks.pop(request.body["plan-task"])
            case ("POST", "namespaces", _, "tables", _, "metrics"):
                return 204, None
            case ("GET", "namespaces", namespace, "tables", table, "credentials"):
                return 200, {"storage-credentials": self.credentials}
            case ("POST", "aws", "s3", "sign") | ("POST", "namespaces", _, "tables", _, "sign") if self.signer:
                return 200, self.signer(request.body)
            case ("POST", "transactions", "commit"):
                self._commit(request.body["table-changes"])
                return 204, None
        return error_answer(404, ValueError(f"no route {request.what}"))

    def loaded(self, name: tuple[str, ...]) -> dict[str, Any]:
        """Return the answer to loading a table."""
        table = self.catalog.load_table(name)
        return {
            "metadata-location": table.metadata_location,
            "metadata": json.loads(metadata_text(table.metadata)),
            "config": self.table_config,
            **self.of_table,
        }

    def _planned(self, name: tuple[str, ...], request: dict[str, Any]) -> Answer:
        tasks = scan_tasks(
            self.catalog.load_table(name).metadata_location, request, storage_properties(self.catalog.properties)
        )
        if not self.page:
            completed = {"status": "completed", **as_answer(tasks), **self.of_plan}
        else:
            completed = {
                "status": "completed",
                "plan-tasks": self._tokens(list(in_pages(tasks, self.page))),
                **self.of_plan,
            }
        if not self.looks:
            return 200, completed | ({"plan-id": f"plan {len(self.plans)}"} if self.page else {})
        plan_id = f"plan {len(self.plans)}"
        self.plans[quote(plan_id, safe="")] = self.looks - 1, completed
        return 200, {"status": "submitted", "plan-id": plan_id}

    def _tokens(self, pages: list[list[dict[str, Any]]]) -> list[str]:
        """Return plan tasks for pages; the first page also stands for the last one."""
        tokens = [f"task {len(self.plan_tasks)}.{number}" for number in range(len(pages))]
        for token, page in zip(tokens, pages, strict=True):
            self.plan_tasks[token] = as_answer(page)
        if len(tokens) > 1:
            self.plan_tasks[tokens[0]]["plan-tasks"] = [tokens.pop()]
        return tokens

    def _created(self, namespace: tuple[str, ...], body: dict[str, Any]) -> Answer:
        from pyiceberg.catalog.rest import CreateTableRequest

        wanted = CreateTableRequest.model_validate(
            {"location": None, "write-order": None, "partition-spec": None, **body}
        )
        if body.get("stage-create"):
            return 200, self._staged((*namespace, wanted.name), wanted)
        with metadata_writes(wanted.properties, wanted.name):
            made = self.catalog.create_table(
                (*namespace, wanted.name),
                wanted.table_schema,
                wanted.location,
                *([wanted.partition_spec] if wanted.partition_spec else []),
                properties=wanted.properties,
            )
        return 200, self.loaded(made.name())

    def _staged(self, name: tuple[str, ...], wanted: Any) -> dict[str, Any]:
        """Return the answer for a table that a later commit creates."""
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        from pyiceberg.table.metadata import new_table_metadata
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

        metadata = new_table_metadata(
            wanted.table_schema,
            wanted.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            wanted.write_order or UNSORTED_SORT_ORDER,
            wanted.location or f"{self.catalog.properties['warehouse']}/{'/'.join(name)}",
            wanted.properties,
        )
        return {"metadata": json.loads(metadata_text(metadata)), "config": self.table_config, **self.of_table}

    def _commit(self, changes: list[dict[str, Any]]) -> None:
        """Apply all changes or none: the requirements are checked first."""
        from pyiceberg.table import CommitTableRequest

        commits = []
        for each in changes:
            wanted = CommitTableRequest.model_validate_json(json.dumps(each))
            name = (*wanted.identifier.namespace.root, wanted.identifier.name)
            if any(type(requirement).__name__ == "AssertCreate" for requirement in wanted.requirements):
                table: Any = _Staged(name, {})
            else:
                table = self.catalog.load_table(name)
                for requirement in wanted.requirements:
                    requirement.validate(table.metadata)
            commits.append((table, wanted))
        for table, wanted in commits:
            self.catalog.commit_table(table, wanted.requirements, wanted.updates)


@dataclass
class _Staged:
    """A table to be created, in the form that pyiceberg's catalogs read."""

    identifier: tuple[str, ...]
    properties: dict[str, str]

    def name(self) -> tuple[str, ...]:
        return self.identifier


def names(part: str) -> tuple[str, ...]:
    """Return the levels of a namespace in a path."""
    return tuple(unquote(part).split("\x1f"))


def error_answer(status: int, error: Exception) -> Answer:
    """Return an error answer in the specification's form."""
    return status, {"error": {"message": str(error), "type": type(error).__name__, "code": status}}


@contextmanager
def rest_server(folder: Path, properties: Mapping[str, str] = MappingProxyType({})) -> Iterator[tuple[RestServer, str]]:
    """Start a server and yield it with its URI; `properties` are those of the underlying catalog."""
    folder.mkdir(parents=True, exist_ok=True)
    state = RestServer(folder, properties)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            text = self.rfile.read(length)
            parts = urlsplit(self.path)
            kind = self.headers.get("Content-Type") or ""
            body = (json.loads(text) if "json" in kind else parse_qs(text.decode())) if text else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, headers, body, parse_qs(parts.query))
            state.requests.append(request)
            fault = next((each for each in state.faults if each.times and request.what.endswith(each.what)), None)
            if fault is None:
                self._send(*state.answer(request), state.of_signatures if request.what.endswith("/sign") else {})
                return
            fault.times -= 1
            if fault.is_done:
                state.answer(request)
            if fault.status is None:
                self.close_connection = True
                self.connection.close()
                return
            self._send(*error_answer(fault.status, RuntimeError("as the test says")), fault.headers)

        def _send(self, status: int, found: Any, headers: dict[str, str]) -> None:
            data = b"" if found is None else json.dumps(found).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *arguments: Any) -> None:
            """Nothing: tests look at `requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
