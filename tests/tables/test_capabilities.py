"""A table supports the operations that its format implements; one function refuses the rest and names alternatives."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.rows import as_rows
from lakescan.catalogs.committer import CatalogCommitter
from lakescan.catalogs.formats import FORMATS, open_target
from lakescan.common.identifiers import Identifier
from lakescan.definition.table_definition import TableDefinition, assign_ids
from lakescan.errors import UnsupportedFeature
from lakescan.options.write import WriteOptions
from lakescan.tables import capabilities
from lakescan.tables.base import Target
from lakescan.tables.capabilities import find_capability, require
from lakescan.tables.commit_files import prepare_target
from lakescan.tables.write_rows import append_rows

ROWS = pa.table({"id": [1, 2]})
CAPABILITIES = [
    each
    for each in vars(capabilities).values()
    if getattr(each, "_is_protocol", False) and each.__module__ == capabilities.__name__
]


@pytest.fixture(params=sorted(FORMATS))
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    lake = lakescan.catalog("able", warehouse=str(tmp_path))
    lake.create_namespace("db")
    lake.create_with("db.t", TableDefinition(()), ROWS, format=request.param)
    return open_target("able.db.t", None, WriteOptions(), {})


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda each: each.__name__)
def test_a_format_has_a_capability_or_names_an_alternative(target: Target, capability: Any) -> None:
    if find_capability(target, capability) is not None:
        assert require(target, capability) is target
        assert target.refusal(capability, "") is None
        return
    with pytest.raises(UnsupportedFeature) as refused:
        require(target, capability)
    assert capability.__name__ not in str(refused.value)  # the format's own message, not a generic one


class OnlyAppends:
    """A target of a format that supports only appends."""

    def __init__(self, real: Target) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def refusal(self, capability: Any, what: str) -> None:
        """Return None: the format has no message for any capability."""


def test_a_format_that_only_appends_needs_nothing_else(target: Target) -> None:
    simple: Any = OnlyAppends(target)
    assert append_rows(simple, as_rows(ROWS), WriteOptions()).rows == 2
    assert append_rows(simple, as_rows(ROWS.slice(0, 0)), WriteOptions()).rows == 0
    assert lakescan.table("able.db.t").scan().count() == 4
    for capability in CAPABILITIES:
        with pytest.raises(UnsupportedFeature, match=rf"{capability.__name__} of able\.db\.t"):
            require(simple, capability)
    wider = pa.schema([*ROWS.schema, pa.field("more", pa.string())])
    options = WriteOptions.parse({"merge_schema": True}, None)
    with pytest.raises(UnsupportedFeature, match="ColumnChanges"):
        prepare_target(simple, wider, options)


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_another_process_can_commit_by_name(format: str, tmp_path: Path) -> None:
    lakescan.catalog("able", warehouse=str(tmp_path)).create_namespace("db")
    chosen, committer = FORMATS[format], CatalogCommitter(Identifier("able", ("db",), "t"))
    definition = TableDefinition(assign_ids(chosen.columns(ROWS.schema, {})))
    new = pickle.loads(pickle.dumps(chosen.new_table(committer, definition, WriteOptions())))
    new.commit([])
    assert lakescan.table("able.db.t").schema.names == ["id"]
