"""The page of other engines, and the engine of its example, as they stand."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from examples.own_engine import Engine
from samples.shop import Shop

import lakescan

PAGE = Path(__file__).parents[3] / "docs" / "integrations.md"


def test_the_blocks_of_the_page_run(shop: Shop) -> None:
    text = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text.replace("/lake/shop/orders", shop.orders), PAGE.name, "exec"), {})
    count = lakescan.table(shop.orders).scan().where("quantity = 1").count()
    assert printed.getvalue().rstrip().endswith(f"\n{count}")


def test_an_engine_over_scan_tasks_needs_sixty_lines_at_most(shop: Shop) -> None:
    scan = lakescan.table(shop.orders).scan().where("order_id < 3000")
    expected = {row["quantity"]: row["n"] for row in _counted(scan)}
    assert dict(Engine(workers=2).count_by(scan, "quantity")) == expected
    assert len((PAGE.parents[1] / "examples" / "own_engine.py").read_text().splitlines()) <= 60


def _counted(scan: lakescan.Scan) -> list[dict[str, int]]:
    rows = scan.to_arrow().group_by("quantity").aggregate([([], "count_all")])
    return [{"quantity": row["quantity"], "n": row["count_all"]} for row in rows.to_pylist()]
