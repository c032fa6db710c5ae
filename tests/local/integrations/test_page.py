"""The engine of `docs/guides/other_engines.md`, whose blocks `test_pages` runs."""

from __future__ import annotations

from pathlib import Path

from examples.own_engine import Engine
from samples.shop import Shop

import lakescan

ENGINE = Path(__file__).parents[3] / "examples" / "own_engine.py"


def test_an_engine_over_scan_tasks_needs_sixty_lines_at_most(shop: Shop) -> None:
    scan = lakescan.table(shop.orders).scan().where("order_id < 3000")
    expected = {row["quantity"]: row["n"] for row in _counted(scan)}
    assert dict(Engine(workers=2).count_by(scan, "quantity")) == expected
    assert len(ENGINE.read_text().splitlines()) <= 60


def _counted(scan: lakescan.Scan) -> list[dict[str, int]]:
    rows = scan.to_arrow().group_by("quantity").aggregate([([], "count_all")])
    return [{"quantity": row["quantity"], "n": row["count_all"]} for row in rows.to_pylist()]
