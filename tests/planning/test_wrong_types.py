"""Values of wrong types are refused by name: none selects another state, and none is silently ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakescan
from lakescan.errors import InvalidFilter, InvalidOption, NoSuchSnapshot

ROWS = pa.table({"id": [1, 2], "s": ["it's", "b"]})


def local_catalog(folder: Path) -> lakescan.Catalog:
    """Make an embedded catalog `local` with the namespace `db`."""
    lake = lakescan.catalog("local", warehouse=str(folder / "lake"))
    lake.create_namespace("db")
    return lake


@pytest.fixture
def delta(tmp_path: Path) -> str:
    write_deltalake(tmp_path / "t", ROWS)
    return str(tmp_path / "t")


def test_an_integer_of_numpy_selects_the_state_of_that_number(tmp_path: Path) -> None:
    local_catalog(tmp_path)
    lakescan.save(ROWS, "local.db.t")
    table = lakescan.table("local.db.t")
    first: Any = np.int64(table.snapshot_id or 0)
    table.append(ROWS)
    assert table.scan().as_of(version=first).count() == 2
    assert table.changes(first).to_arrow().num_rows == 2


@pytest.mark.parametrize("version", [1.5, True, b"1", [1]])
def test_a_version_of_another_type_is_refused(delta: str, version: Any) -> None:
    table = lakescan.table(delta)
    with pytest.raises(InvalidOption, match="is not a version"):
        table.scan().as_of(version=version)
    with pytest.raises(InvalidOption, match="is not a version"):
        table.changes(version)


def test_partition_fields_of_one_name_are_refused_before_the_table_is_created(tmp_path: Path) -> None:
    lake = local_catalog(tmp_path)
    for terms in (["id", "id"], ["truncate(2, s)", "truncate(3, s)"], ["bucket(4, id)"]):
        with pytest.raises(InvalidOption, match="would be called"):
            lake.create_table("db.t", "id BIGINT, s STRING, id_bucket INT", partition_by=terms)
        assert not lake.table_exists("db.t")


def test_an_argument_and_an_option_must_agree(tmp_path: Path, delta: str) -> None:
    assert lakescan.table(delta, format="delta", Format="delta").count() == 2
    with pytest.raises(InvalidOption, match="'format' is given twice"):
        lakescan.table(delta, format="delta", Format="iceberg")
    for twice in ({"Format": "iceberg"}, {"partition-by": "s"}, {"table-property.a": "2"}):
        with pytest.raises(InvalidOption, match="is given twice"):
            lakescan.save(ROWS, tmp_path / "new", format="delta", partition_by="id", properties={"a": "1"}, **twice)  # type: ignore[arg-type]


def test_a_predicate_object_is_accepted_as_an_option(delta: str) -> None:
    assert lakescan.table(delta, where=lakescan.col("s") == "it's").count() == 1


@pytest.mark.parametrize("where", [5, b"id", ["id"], None])
def test_a_filter_is_text_or_a_predicate(delta: str, where: Any) -> None:
    with pytest.raises(InvalidFilter, match="is not a filter"):
        lakescan.table(delta).scan().where(where)
    with pytest.raises(InvalidOption):
        lakescan.table(delta, where=where)


@pytest.mark.parametrize(
    "options",
    [
        {"timestampAsOf": "0001-01-01T00:00:00+14:00"},
        {"columns": "[" * 20_000},
        {"storage-options": "[" * 20_000},
        {"key-manager": "../x"},
    ],
)
def test_values_beyond_the_range_of_python_are_invalid(delta: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        lakescan.table(delta, **options).count()


def test_huge_limits_are_accepted(delta: str) -> None:
    assert lakescan.table(delta, limit=10**30, file_open_cost=10**30).to_arrow().num_rows == 2


def test_a_number_with_too_many_digits_is_not_a_snapshot(tmp_path: Path) -> None:
    local_catalog(tmp_path)
    lakescan.save(ROWS, "local.db.t")
    for version in ("9" * 5000, "--5"):
        with pytest.raises(NoSuchSnapshot):
            lakescan.table("local.db.t", version_as_of=version).count()
    with pytest.raises(InvalidOption, match="between the years 1 and 9999"):
        lakescan.table("local.db.t", as_of_timestamp=10**15).count()
    with pytest.raises(InvalidOption, match="retain_last"):
        lakescan.table("local.db.t").expire_snapshots(retain_last="3")  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", ["64m", None, 1.5])
def test_a_cache_limit_is_a_whole_number(limit: Any) -> None:
    with pytest.raises(InvalidOption, match="number of bytes"):
        lakescan.set_cache_limit(limit)


def test_a_split_size_of_zero_is_named() -> None:
    from lakescan.planning.split import ReadProperties

    with pytest.raises(InvalidOption, match=r"read\.split\.target-size"):
        _ = ReadProperties({"read.split.target-size": "0"}, "t").split_size


def test_an_invalid_regular_expression_is_named(delta: str) -> None:
    with pytest.raises(InvalidOption, match="excludeRegex"):
        lakescan.table(delta).stream(wait=False, excludeRegex="(")
