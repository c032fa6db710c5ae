"""A small in-memory Unity Catalog server: schemas, and the API of Delta tables (`/delta/v1`), with faults.

It follows the API description (`api/delta.yaml` of unitycatalog). Where the description is silent, it behaves as
unitycatalog's server: refused commits, repeated commits, the limit of unpublished ones. Tables are in a folder or a
bucket.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "a-token-that-nobody-may-see"
BASE = "/api/2.1/unity-catalog"
Node = dict[str, Any]
_FEATURES = ("catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck")
_OF_READERS = tuple(each for each in _FEATURES if each != "inCommitTimestamp")
_PROPERTIES = {
    "delta.checkpointPolicy": "v2",
    "delta.enableDeletionVectors": "true",
    "delta.enableInCommitTimestamps": "true",
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "true",
}


class Problem(Exception):
    """An error answer."""

    def __init__(self, status: int, kind: str, message: str = "") -> None:
        super().__init__(message or kind)
        self.status, self.kind = status, kind


@dataclass
class Fault:
    """The fault of the next matching requests: `lost` (carried out, no answer), `dropped`, or a status."""

    method: str
    path: str
    what: str | int
    times: int = 1
    kind: str = "TooManyRequestsException"
    headers: Mapping[str, str] = field(default_factory=dict)
    when: Callable[[Node], bool] = lambda body: True


@dataclass
class StoredTable:
    """A table of the server."""

    name: str
    uuid: str
    location: str
    kind: str
    columns: Node
    properties: dict[str, str]
    partition_columns: list[str] = field(default_factory=list)
    comment: str | None = None
    latest: int = 0
    commits: dict[int, Node] = field(default_factory=dict)  # tracked commits; the newest one stays when it is published
    published: int = 0

    @property
    def unpublished(self) -> list[Node]:
        return [self.commits[version] for version in sorted(self.commits, reverse=True) if version > self.published]


class UnityServer:
    """The state of a server, and the requests to it."""

    def __init__(self, root: str, config: Mapping[str, str] | None = None) -> None:
        self.root, self.config = root.rstrip("/"), dict(config or {})
        self.schemas: dict[str, Node] = {}
        self.tables: dict[str, StoredTable] = {}
        self.staging: dict[str, tuple[str, str]] = {}
        self.faults: list[Fault] = []
        self.requests: list[tuple[str, str, Node]] = []
        self.lifetime = 3600.0  # lifetime of credentials in seconds
        self.most_unpublished = 10
        self.lock = threading.RLock()
        self.uri = ""

    def credentials(self, prefix: str, operation: str) -> Node:
        return {
            "storage-credentials": [
                {
                    "prefix": f"{prefix}/",
                    "operation": operation,
                    "expiration-time-ms": int((time.time() + self.lifetime) * 1000),
                    "config": {**self.config},
                }
            ]
        }

    def asked(self, method: str, path: str) -> list[Node]:
        """Return the bodies of the requests so far of a method to a path pattern."""
        return [body for each, where, body in self.requests if each == method and re.search(path, where)]

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Node) -> Node:
        for pattern, handler in self._routes():
            wanted, _, rest = pattern.partition(" ")
            if wanted == method and (found := re.fullmatch(rest, path)):
                with self.lock:
                    return handler(*map(unquote, found.groups()), query, body)
        raise Problem(404, "", f"no endpoint {method} {path}")

    def _routes(self) -> list[tuple[str, Callable[..., Node]]]:
        table = "/delta/v1/catalogs/([^/]+)/schemas/([^/]+)/tables/([^/]+)"
        return [
            ("GET /schemas", lambda query, body: {"schemas": list(self.schemas.values())}),
            ("POST /schemas", self._create_schema),
            ("GET /schemas/([^/]+)", lambda name, query, body: self._schema(name)),
            ("PATCH /schemas/([^/]+)", lambda name, query, body: self._schema(name) | body),
            ("DELETE /schemas/([^/]+)", lambda name, query, body: self.schemas.pop(name)),
            ("GET /tables", self._list),
            ("GET /tables/([^/]+)", self._old_table),
            ("DELETE /tables/([^/]+)", self._drop),
            ("POST /temporary-table-credentials", self._old_credentials),
            (f"GET {table}", lambda *at: self._loaded(self._table(*at[:3]))),
            (f"POST {table}", self._update),
            (f"GET {table}/credentials", self._credentials),
            (f"POST {table}/rename", self._rename),
            ("POST /delta/v1/catalogs/([^/]+)/schemas/([^/]+)/staging-tables", self._stage),
            ("GET /delta/v1/staging-tables/([^/]+)/credentials", self._staging_credentials),
            ("POST /delta/v1/catalogs/([^/]+)/schemas/([^/]+)/tables", self._create),
            (
                "GET /delta/v1/temporary-path-credentials",
                lambda query, body: self.credentials(query["location"], query["operation"]),
            ),
        ]

    def _schema(self, name: str) -> Node:
        if name not in self.schemas:
            raise Problem(404, "SCHEMA_NOT_FOUND")
        return self.schemas[name]

    def _create_schema(self, query: Mapping[str, str], body: Node) -> Node:
        name = f"{body['catalog_name']}.{body['name']}"
        if name in self.schemas:
            raise Problem(400, "SCHEMA_ALREADY_EXISTS")
        self.schemas[name] = body
        return body

    def _list(self, query: Mapping[str, str], body: Node) -> Node:
        """Return a page of two."""
        within = f"{query['catalog_name']}.{query['schema_name']}"
        names = sorted(name for name in self.tables if name.startswith(f"{within}."))
        start = int(query.get("page_token") or 0)
        page = [{"name": name.rpartition(".")[2]} for name in names[start : start + 2]]
        return {"tables": page, "next_page_token": str(start + 2) if start + 2 < len(names) else None}

    def _named(self, name: str) -> StoredTable:
        if name not in self.tables:
            raise Problem(404, "NoSuchTableException", f"Table not found: {name}")
        return self.tables[name]

    def _table(self, catalog: str, schema: str, table: str) -> StoredTable:
        found = self._named(f"{catalog}.{schema}.{table}")
        if found.kind == "OLD":
            raise Problem(400, "UnsupportedTableFormatException")
        return found

    def _old_table(self, name: str, query: Mapping[str, str], body: Node) -> Node:
        found = self._named(name)
        kind = found.properties.get("format", "DELTA")
        return {
            "name": found.name.rpartition(".")[2],
            "table_id": found.uuid,
            "storage_location": found.location,
            "data_source_format": kind,
        }

    def _old_credentials(self, query: Mapping[str, str], body: Node) -> Node:
        if body["table_id"] not in {each.uuid for each in self.tables.values()}:
            raise Problem(404, "TABLE_NOT_FOUND")
        keys = {
            "access_key_id": self.config.get("s3.access-key-id"),
            "secret_access_key": self.config.get("s3.secret-access-key"),
        }
        return {"aws_temp_credentials": keys, "expiration_time": int((time.time() + self.lifetime) * 1000)}

    def _drop(self, name: str, query: Mapping[str, str], body: Node) -> Node:
        self._named(name)
        del self.tables[name]
        return {}

    def _rename(self, catalog: str, schema: str, table: str, query: Mapping[str, str], body: Node) -> Node:
        found = self._table(catalog, schema, table)
        new = f"{catalog}.{schema}.{body['new-name']}"
        self.tables[new] = self.tables.pop(found.name)
        found.name = new
        return {}

    def _credentials(self, catalog: str, schema: str, table: str, query: Mapping[str, str], body: Node) -> Node:
        return self.credentials(self._table(catalog, schema, table).location, query["operation"])

    def _staging_credentials(self, table_id: str, query: Mapping[str, str], body: Node) -> Node:
        if table_id not in self.staging:
            raise Problem(404, "NoSuchTableException")
        return self.credentials(self.staging[table_id][1], "READ_WRITE")

    def _stage(self, catalog: str, schema: str, query: Mapping[str, str], body: Node) -> Node:
        if f"{catalog}.{schema}" not in self.schemas:
            raise Problem(404, "NoSuchSchemaException")
        name = f"{catalog}.{schema}.{body['name']}"
        if name in self.tables:
            raise Problem(409, "AlreadyExistsException", f"{name} exists")
        table_id = str(uuid.uuid4())
        location = f"{self.root}/{table_id}"
        self.staging[table_id] = name, location
        return {
            "table-id": table_id,
            "table-type": "MANAGED",
            "location": location,
            **self.credentials(location, "READ_WRITE"),
            "required-protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": list(_OF_READERS),
                "writer-features": list(_FEATURES),
            },
            "required-properties": {**_PROPERTIES, "io.unitycatalog.tableId": table_id},
            "suggested-properties": {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"},
        }

    def _create(self, catalog: str, schema: str, query: Mapping[str, str], body: Node) -> Node:
        name = f"{catalog}.{schema}.{body['name']}"
        if name in self.tables:
            raise Problem(409, "AlreadyExistsException", f"{name} exists")
        protocol, properties, table_id = body["protocol"], dict(body["properties"]), str(uuid.uuid4())
        if body["table-type"] == "MANAGED":
            table_id = properties.get("io.unitycatalog.tableId", "")
            if self.staging.get(table_id) != (name, body["location"]):
                raise Problem(400, "InvalidParameterValueException", "no staging table")
            for each, value in _PROPERTIES.items():
                if properties.get(each) != value:
                    raise Problem(400, "InvalidParameterValueException", each)
            self._check_protocol(protocol)
        table = StoredTable(
            name,
            table_id,
            body["location"],
            body["table-type"],
            _checked(body["columns"]),
            {**properties, **_derived(protocol)},
            body.get("partition-columns") or [],
            body.get("comment"),
        )
        int(body["last-commit-timestamp-ms"])
        self.tables[name] = table
        return self._loaded(table)

    def _check_protocol(self, protocol: Node) -> None:
        if protocol["min-reader-version"] < 3 or protocol["min-writer-version"] < 7:
            raise Problem(400, "InvalidParameterValueException", "versions")
        missing = {*_OF_READERS} - {*protocol["reader-features"]} | {*_FEATURES} - {*protocol["writer-features"]}
        if missing or set(protocol["reader-features"]) - set(protocol["writer-features"]):
            raise Problem(400, "InvalidParameterValueException", f"features {missing}")

    def _loaded(self, table: StoredTable) -> Node:
        found = {
            "metadata": {
                "etag": f"etag-{table.latest}",
                "table-type": table.kind,
                "table-uuid": table.uuid,
                "location": table.location,
                "created-time": 0,
                "updated-time": 0,
                "columns": table.columns,
                "partition-columns": table.partition_columns,
                "properties": table.properties,
            }
        }
        if table.kind == "MANAGED":
            found |= {"commits": table.unpublished, "latest-table-version": table.latest}  # type: ignore[operator]
        return found

    def _update(self, catalog: str, schema: str, name: str, query: Mapping[str, str], body: Node) -> Node:
        table = self._table(catalog, schema, name)
        required = {each["type"]: each for each in body["requirements"]}
        updates = {each["action"]: each for each in body["updates"]}
        if len(updates) != len(body["updates"]) or not updates or "assert-table-uuid" not in required:
            raise Problem(400, "InvalidParameterValueException", "shape of the request")
        if required["assert-table-uuid"]["uuid"] != table.uuid:
            raise Problem(409, "UpdateRequirementConflictException", "assert-table-uuid failed")
        published = updates.get("set-latest-backfilled-version", {}).get("latest-published-version")
        if "add-commit" in updates:
            commit = updates["add-commit"]["commit"]
            if self._is_replay(table, commit):
                return self._loaded(table)
            self._check_new(table, commit, published)
            self._apply(table, updates)
            table.commits[commit["version"]] = commit
            table.latest = commit["version"]
        if published is not None:
            if published > table.latest or not table.commits:
                raise Problem(400, "InvalidParameterValueException", "backfilled version")
            table.published = max(table.published, published)
            table.commits = {v: each for v, each in table.commits.items() if v > published or v == table.latest}
        return self._loaded(table)

    def _is_replay(self, table: StoredTable, commit: Node) -> bool:
        version = commit["version"]
        if version > table.latest or not table.commits:
            return False
        if version in table.commits:
            return bool(table.commits[version]["file-name"] == commit["file-name"])
        log = Path(table.location.removeprefix("file://")) / "_delta_log"
        staged = log / "_staged_commits" / commit["file-name"]
        if not staged.exists():
            raise Problem(500, "CommitStateUnknownException")
        return staged.read_bytes() == (log / f"{version:020d}.json").read_bytes()

    def _check_new(self, table: StoredTable, commit: Node, published: int | None) -> None:
        for name in ("timestamp", "file-size", "file-modification-timestamp", "version"):
            assert isinstance(commit[name], int), name
        assert re.fullmatch(r"\d{20}\.[0-9a-f-]{36}\.json", commit["file-name"])
        if table.commits and commit["version"] <= table.latest:
            raise Problem(409, "CommitVersionConflictException", f"version {commit['version']} is taken")
        if table.commits and commit["version"] > table.latest + 1:
            raise Problem(400, "InvalidParameterValueException", "not the next version")
        if commit["version"] - max(table.published, published or 0) > self.most_unpublished:
            raise Problem(429, "ResourceExhaustedException", "too many unbackfilled commits")

    def _apply(self, table: StoredTable, updates: Mapping[str, Node]) -> None:
        if set_ := updates.get("set-properties", {}).get("updates"):
            assert not any(each.startswith("delta.feature.") for each in set_)
            table.properties.update(set_)
        for each in updates.get("remove-properties", {}).get("removals", ()):
            del table.properties[each]
        if "set-columns" in updates:
            table.columns = _checked(updates["set-columns"]["columns"])
        if "set-partition-columns" in updates:
            table.partition_columns = updates["set-partition-columns"]["partition-columns"]
        if "set-table-comment" in updates:
            table.comment = updates["set-table-comment"]["comment"]
        if "set-protocol" in updates:
            self._check_protocol(updates["set-protocol"]["protocol"])
            kept = {n: v for n, v in table.properties.items() if not n.startswith("delta.feature.")}
            table.properties = {**kept, **_derived(updates["set-protocol"]["protocol"])}
        for name, value in updates.get("set-domain-metadata", {}).get("updates", {}).items():
            assert name in ("delta.clustering", "delta.rowTracking")
            table.properties[name] = json.dumps(value)


def _derived(protocol: Node) -> dict[str, str]:
    features = {*protocol.get("reader-features", ()), *protocol.get("writer-features", ())}
    return {f"delta.feature.{each}": "supported" for each in features}


def _checked(columns: Node) -> Node:
    """Check that the columns have the member names of the API, and return them."""
    assert columns["type"] == "struct"
    for each in columns["fields"]:
        assert set(each) == {"name", "type", "nullable", "metadata"}
        _check_type(each["type"])
    return columns


def _check_type(kind: Any) -> None:
    if isinstance(kind, dict):
        members = {
            "array": {"type", "element-type", "contains-null"},
            "map": {"type", "key-type", "value-type", "value-contains-null"},
            "struct": {"type", "fields"},
        }
        assert set(kind) == members[kind["type"]], kind
        for name in ("element-type", "key-type", "value-type"):
            if name in kind:
                _check_type(kind[name])
        if kind["type"] == "struct":
            _checked(kind)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the head and the body of an answer are two writes
    state: UnityServer

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        path = parts.path.removeprefix(BASE)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(data) if data else {}
        fault = self._fault(path, body)
        if fault is not None and fault.what == "dropped":
            return self._hang_up()
        status, answer, headers = 200, {}, {}
        try:
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                raise Problem(401, "NotAuthorizedException", "the token is wrong or has expired")
            if fault is not None and isinstance(fault.what, int):
                headers = dict(fault.headers)
                raise Problem(fault.what, fault.kind, "as the test asks")
            with self.state.lock:
                self.state.requests.append((self.command, path, body))
            answer = self.state.answer(self.command, path, query, body)
        except Problem as error:
            status = error.status
            answer = {"error": {"message": str(error), "type": error.kind, "code": status}}
            if not path.startswith("/delta"):
                answer = {"error_code": error.kind, "message": str(error)}
        if fault is not None and fault.what == "lost":
            return self._hang_up()
        sent = json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(sent)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)
        return None

    def _fault(self, path: str, body: Node) -> Fault | None:
        with self.state.lock:
            for each in self.state.faults:
                is_meant = each.method == self.command and re.search(each.path, path) and each.when(body)
                if is_meant and each.times > 0:
                    each.times -= 1
                    return each
        return None

    def _hang_up(self) -> None:
        self.close_connection = True

    do_GET = do_POST = do_PATCH = do_DELETE = _handle

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


@contextmanager
def unity_server(root: str, config: Mapping[str, str] | None = None) -> Iterator[UnityServer]:
    """Start a server whose managed tables are under `root`; `config` are the credentials that it vends."""
    state = UnityServer(root, config)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"state": state}))
    state.uri = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
