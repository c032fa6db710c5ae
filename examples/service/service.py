"""A service over a table, in one process: orders are read, added and changed over HTTP, without Spark or a JVM.

    python service.py [--folder ./service-data] [--port 8080]     serves until stopped
    python service.py --check                                      sends itself each request once, and ends

`Orders` does not depend on HTTP: with FastAPI, its methods are the bodies of the routes (see the README).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

import lakescan
from lakescan import errors

# The status of each error. Other errors are faults of the service: 500.
STATUS = {
    errors.InvalidFilter: 400,
    errors.InvalidOption: 400,
    errors.SchemaMismatch: 400,
    errors.AmbiguousMerge: 400,  # two rows of one order in a request
    errors.NoSuchSnapshot: 404,
    errors.CommitConflict: 409,  # other processes were repeatedly faster: the client may retry
    errors.StorageError: 503,
    errors.CommitStateUnknown: 503,
}
MOST_ROWS = 1000
MOST_BYTES = 10 << 20  # limit of a request
ROWS = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("country", pa.string()),
        ("amount", pa.decimal128(12, 2)),
    ]
)


class Orders:
    """The service's operations. Methods may be called from many threads: each opens the table's newest state.

    Threads of this process write one after the other; commits of other processes may still conflict.
    """

    def __init__(self, folder: Path) -> None:
        self._writing = threading.Lock()
        self.catalog = lakescan.catalog("service", warehouse=folder)
        self.catalog.create_namespace("shop", exist_ok=True)
        self.catalog.create_table_if_not_exists(
            "shop.orders",
            "order_id BIGINT NOT NULL, day DATE, country STRING, amount DECIMAL(12, 2), PRIMARY KEY (order_id)",
            partition_by="month(day)",
        )

    def table(self) -> lakescan.Table:
        """Open the table in its current state."""
        return self.catalog.load_table("shop.orders")

    def one(self, order_id: int) -> dict[str, Any] | None:
        """Return an order, or None. Only files whose bounds include the number are read."""
        found = self.table().scan().where(lakescan.col("order_id") == order_id).to_arrow().to_pylist()
        return found[0] if found else None

    def some(self, *, country: str | None, since: date | None, version: int | None, limit: int) -> list[dict[str, Any]]:
        """Return at most `MOST_ROWS` orders, of a version or the current state. Values never become SQL text."""
        scan = self.table().scan()
        if version is not None:
            scan = scan.as_of(version=version)
        if country is not None:
            scan = scan.where(lakescan.col("country") == country)
        if since is not None:
            scan = scan.where(lakescan.col("day") >= since)
        return scan.limit(max(0, min(limit, MOST_ROWS))).to_arrow().to_pylist()

    def save(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Insert new orders and replace those with existing numbers, in one commit or none."""
        given = _arrow(rows)
        with self._writing:
            table = self.table()
            result = table.upsert(given)
        return {"inserted": result.inserted, "updated": result.updated, "version": _version(table)}

    def delete(self, order_id: int) -> dict[str, Any]:
        """Delete an order."""
        with self._writing:
            return {"deleted": self.table().delete(lakescan.col("order_id") == order_id).deleted}

    def report(self, since: date) -> list[dict[str, Any]]:
        """Return the revenue by country, in SQL with a parameter."""
        text = """SELECT country, count(*) AS orders, sum(amount) AS revenue FROM service.shop.orders
                  WHERE day >= :since GROUP BY country ORDER BY country"""
        return lakescan.sql(text, {"since": since}).to_arrow().to_pylist()

    def health(self) -> dict[str, Any]:
        """Return whether the table can be opened, and suggestions to make it faster to read."""
        table = self.table()
        return {
            "version": _version(table),
            "rows": table.count(),
            "advice": [str(each) for each in table.health().findings],
        }


def _version(table: lakescan.Table) -> str | None:
    """Return the version as text, because JavaScript's numbers are too short for it; None before the first commit."""
    return None if table.version is None else str(table.version)


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    """Convert the rows of a request to a table; raise `InvalidOption` for invalid rows."""
    try:
        unknown = {name for row in rows for name in row} - set(ROWS.names)
        missing = {name for row in rows for name in ROWS.names if name not in row}
        if missing:
            raise ValueError(f"missing members: {', '.join(sorted(missing))}")
        typed = [
            {
                "order_id": row["order_id"],
                "day": date.fromisoformat(row["day"]),
                "country": row["country"],
                "amount": Decimal(row["amount"]),
            }
            for row in rows
        ]
        if unknown:
            raise ValueError(f"unknown members: {', '.join(sorted(unknown))}")
        return pa.Table.from_pylist(typed, ROWS)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise errors.InvalidOption(f"the rows are not orders: {type(error).__name__}: {error}") from error


class Handler(BaseHTTPRequestHandler):
    """Map HTTP to `Orders`: paths to methods, and errors to status codes."""

    orders: Orders
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_DELETE(self) -> None:
        self._answer(self._delete)

    def _get(self, path: list[str], asked: dict[str, str]) -> Any:
        match path:
            case ["health"]:
                return self.orders.health()
            case ["report"]:
                return self.orders.report(_day(asked.get("since", "1970-01-01")))
            case ["orders"]:
                return self.orders.some(
                    country=asked.get("country"),
                    since=_day(asked["since"]) if "since" in asked else None,
                    version=_number(asked["version"]) if "version" in asked else None,
                    limit=_number(asked.get("limit", "100")),
                )
            case ["orders", number]:
                return self.orders.one(_number(number))
        return None

    def _post(self, path: list[str], asked: dict[str, str]) -> Any:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MOST_BYTES:
            self.close_connection = True  # the body is not read
            raise errors.InvalidOption(f"the request has {length} bytes; at most {MOST_BYTES} are accepted")
        rows = json.loads(self.rfile.read(length))
        if path != ["orders"]:
            return None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise errors.InvalidOption("send a list of orders")
        return self.orders.save(rows)

    def _delete(self, path: list[str], asked: dict[str, str]) -> Any:
        match path:
            case ["orders", number]:
                return self.orders.delete(_number(number))
        return None

    def _answer(self, call: Callable[[list[str], dict[str, str]], Any]) -> None:
        url = urlsplit(self.path)
        try:
            body = call([part for part in url.path.split("/") if part], dict(parse_qsl(url.query)))
        except ValueError as error:  # invalid numbers, dates and JSON
            self._send(400, {"error": str(error)})
        except errors.LakescanError as error:
            status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
            self._send(status, {"error": str(error)})
        else:
            self._send(200, body) if body is not None else self._send(404, {"error": "there is no such thing"})

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body, default=_text).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: a real service logs here."""


def _number(text: str) -> int:
    return int(text)


def _day(text: str) -> date:
    return date.fromisoformat(text)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def serve(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server that is bound to this machine only; port 0 chooses a free port."""
    handler = type("OrdersHandler", (Handler,), {"orders": Orders(folder)})
    return ThreadingHTTPServer(("127.0.0.1", port), handler)


def ask(url: str, rows: Any = None, method: str | None = None) -> tuple[int, Any]:
    """Send a request and return its status and body."""
    data = None if rows is None else json.dumps(rows).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, method=method), timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def check(folder: Path) -> None:
    """Send each request once to a server in this process, and print the answers."""
    server = serve(folder, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    rows = [
        {"order_id": 1, "day": "2026-01-05", "country": "FR", "amount": "10.00"},
        {"order_id": 2, "day": "2026-02-07", "country": "DE", "amount": "24.50"},
    ]
    _, first = ask(f"{url}/orders", rows)
    for path, body, method in (
        ("/orders", [{**rows[0], "amount": "12.00"}], None),
        ("/orders/1", None, None),
        ("/orders?country=FR&since=2026-01-01", None, None),
        (f"/orders?version={first['version']}", None, None),
        ("/report?since=2026-01-01", None, None),
        ("/orders", [{"order_id": 3, "day": "soon"}], None),
        ("/orders/2", None, "DELETE"),
        ("/orders/2", None, None),
        ("/health", None, None),
    ):
        print(method or ("POST" if body else "GET"), path, *ask(f"{url}{path}", body, method))
    server.shutdown()
    server.server_close()


def main(arguments: list[str] | None = None) -> None:
    """Serve, or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("service-data"))
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(arguments)
    if given.check:
        with tempfile.TemporaryDirectory() as folder:
            check(Path(folder))
        return
    server = serve(given.folder, given.port)
    print(f"http://127.0.0.1:{server.server_address[1]}/health")
    server.serve_forever()


if __name__ == "__main__":
    main()
