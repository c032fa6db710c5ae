from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.statements import procedures
from tests.tables.support import maker, rows

Called = Callable[..., pa.Table]


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    """A table of two snapshots: the first has the row 1, the second 1 and 2."""
    table = maker("iceberg", local)()
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    return table


@pytest.fixture
def call(local: lakescan.Catalog) -> Called:
    """Return a function that calls a procedure of the catalog, with arguments by position or by name."""

    def called(name: str, *positional: Any, **named: Any) -> pa.Table:
        return procedures.call(local, name, positional, named)

    return called


@pytest.fixture(autouse=True)
def _only_own_catalogs(no_other_catalogs: None) -> None:
    """Tests of this folder see only the catalogs that they register."""
