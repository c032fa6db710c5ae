"""The example projects do what their READMEs describe, can run again, and resume where they stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from examples.lakehouse import lakehouse
from examples.service import service

import lakescan

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(folder: Path, days: int) -> dict[str, int]:
    return lakehouse.main(["--folder", str(folder), "--days", str(days), "--orders", "40"])


def test_the_lakehouse_matches_its_raw_files_and_a_run_without_new_files_changes_nothing(tmp_path: Path) -> None:
    assert run(tmp_path, 2) == {"bronze": 42 + 52, "silver": 40 + 50 - _repeated(tmp_path), "gold": 10}
    assert run(tmp_path, 2) == {"bronze": 0, "silver": 0, "gold": 0}
    later = run(tmp_path, 3)
    assert later["bronze"] == 52
    assert 40 <= later["silver"] <= 50
    assert lakescan.table(tmp_path / "lake" / "silver" / "refused").count() == 2 * 3


def _repeated(folder: Path) -> int:
    """Return how many of the second day's changes concern an order that the same file changes again."""
    lines = (folder / "raw" / "2026-01-02.jsonl").read_text().splitlines()[:-2]
    numbers = [json.loads(line)["order_id"] for line in lines]
    return len(numbers) - len(set(numbers))


def test_the_lakehouse_loads_nothing_twice_if_a_run_ends_before_storing_its_offset(tmp_path: Path) -> None:
    run(tmp_path, 2)
    (tmp_path / "silver.offset").unlink()
    assert run(tmp_path, 2) == {"bronze": 0, "silver": 0, "gold": 0}


ORDER = {"order_id": 1, "day": "2026-01-05", "country": "FR", "amount": "10.00"}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """Start the service over an empty table and yield its address."""
    server = service.serve(tmp_path, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_service_returns_no_version_for_a_table_without_commits(url: str) -> None:
    assert service.ask(f"{url}/health") == (200, {"version": None, "rows": 0, "advice": []})


def test_the_service_names_the_members_that_an_order_lacks(url: str) -> None:
    status, body = service.ask(f"{url}/orders", [{"order_id": 1, "day": "2026-01-05"}])
    assert status == 400
    assert body["error"].endswith("missing members: amount, country")


def test_the_service_reads_saved_orders_now_and_as_of_each_version(url: str) -> None:
    _, first = service.ask(f"{url}/orders", [ORDER, {**ORDER, "order_id": 2, "country": "DE"}])
    status, second = service.ask(f"{url}/orders", [{**ORDER, "amount": "12.00"}])
    assert (status, second["inserted"], second["updated"]) == (200, 0, 1)
    assert service.ask(f"{url}/orders/1") == (200, {**ORDER, "amount": "12.00"})
    assert service.ask(f"{url}/orders?version={first['version']}&country=FR") == (200, [ORDER])
    assert service.ask(f"{url}/report?since=2026-01-01")[1] == [
        {"country": "DE", "orders": 1, "revenue": "10.00"},
        {"country": "FR", "orders": 1, "revenue": "12.00"},
    ]
    assert service.ask(f"{url}/orders/1", method="DELETE") == (200, {"deleted": 1})
    assert service.ask(f"{url}/orders/1")[0] == 404


@pytest.mark.parametrize(
    ("path", "rows", "method", "status"),
    [
        ("/orders", [{"order_id": 1, "day": "soon", "country": "FR", "amount": "1"}], None, 400),
        ("/orders", [{**ORDER, "colour": "red"}], None, 400),
        ("/orders", [{**ORDER, "order_id": None}], None, 400),
        ("/orders", [ORDER, {**ORDER, "amount": "2.00"}], None, 400),
        ("/orders", {"order_id": 1}, None, 400),
        ("/orders?since=soon", None, None, 400),
        ("/orders?version=17", None, None, 404),
        ("/orders/x", None, None, 400),
        ("/orders", None, "DELETE", 404),
        ("/nothing", None, None, 404),
    ],
)
def test_the_service_answers_errors_with_a_status_and_saves_nothing(
    url: str, path: str, rows: object, method: str | None, status: int
) -> None:
    found, body = service.ask(f"{url}{path}", rows, method)
    assert (found, list(body)) == (status, ["error"])
    assert service.ask(f"{url}/orders") == (200, [])


def test_the_service_saves_the_orders_of_many_concurrent_clients(url: str) -> None:
    def save(number: int) -> int:
        return service.ask(f"{url}/orders", [{**ORDER, "order_id": number}])[0]

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(save, range(8))) == {200}
    assert sorted(row["order_id"] for row in service.ask(f"{url}/orders")[1]) == list(range(8))


def test_the_service_answers_conflict_for_a_commit_of_another_process(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*_: object, **__: object) -> None:
        raise lakescan.CommitConflict("another writer was faster")

    monkeypatch.setattr(lakescan.Table, "upsert", overtaken)
    assert service.ask(f"{url}/orders", [ORDER]) == (409, {"error": "another writer was faster"})


@pytest.mark.parametrize(
    ("example", "arguments", "end"),
    [
        ("lakehouse/lakehouse.py", ["--days", "2", "--orders", "20"], "10 rows of gold are what the raw files say"),
        ("service/service.py", ["--check"], "GET /health 200"),
    ],
)
def test_one_command_runs_an_example_in_an_empty_folder(
    tmp_path: Path, example: str, arguments: list[str], end: str
) -> None:
    command = [sys.executable, str(EXAMPLES / example), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert end in done.stdout
