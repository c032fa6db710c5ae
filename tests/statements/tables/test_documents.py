"""The SQL reference page matches the grammar."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_statements_is_made_from_the_grammar() -> None:
    spec = importlib.util.spec_from_file_location("statements_doc", ROOT / "scripts" / "statements_doc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "sql.md").read_text() == module.page(), "run: python scripts/statements_doc.py"
