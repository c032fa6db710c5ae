"""A column reference written as text means the same wherever a column is accepted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan import col
from lakescan.common.references import dotted_path, parse_reference, split_list
from lakescan.definition.table_definition import SortTerm, Term

NAMES = st.text("a.`B ,(\n", min_size=1, max_size=5)


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_joined_names_are_split_into_the_same_names(names: list[str]) -> None:
    assert parse_reference(dotted_path(names)) == tuple(names)


@given(st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_lists_are_split_outside_of_quoted_names(paths: list[list[str]]) -> None:
    quoted = ["`" + "`.`".join(name.replace("`", "``") for name in path) + "`" for path in paths]
    assert split_list(", ".join(quoted)) == tuple(quoted)
    assert split_list(", ".join(f"bucket(4, {each})" for each in quoted), keep_calls=True) == tuple(
        f"bucket(4, {each})" for each in quoted
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("day", Term("day")),
        ("`day`", Term("day")),
        ("`a.b`", Term("`a.b`")),
        ("`a`.b", Term("a.b")),
        ("`days(ts)`", Term("`days(ts)`")),
        ("days(`a.b`)", Term("`a.b`", "day")),
        ("bucket(4, `a,b`)", Term("`a,b`", "bucket", 4)),
        ("truncate(`4`, 8)", Term("4", "truncate", 8)),
    ],
)
def test_terms_keep_the_quotes_that_a_name_needs(text: str, expected: Term) -> None:
    assert Term.parse(text) == expected
    assert SortTerm.parse(f"{text} desc nulls first") == SortTerm(expected, descending=True, nulls_first=True)


ROWS = pa.table({"s": [{"b": 1}, {"b": 2}], "a.b": [20, 10], "Id": [1, 2]})


@pytest.fixture
def lake(tmp_path: Path) -> lakescan.Catalog:
    made = lakescan.catalog("local", warehouse=tmp_path / "lake")
    made.create_namespace("db")
    return made


def test_a_quoted_name_is_the_column_in_filters_selections_and_partitions(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.t", ROWS.schema, partition_by="`a.b`", sort_by="bucket(4, `a.b`) desc, Id")
    table.append(ROWS)
    assert "`a.b`" in table.partitioning or table.partitioning == "a.b"
    for scan in (table.scan().where("`a.b` = 10"), table.scan().where(col("`a.b`") == 10)):
        assert scan.plan().report.skipped_by_partition == 1
        assert scan.select("`a.b`", "Id").to_arrow().to_pylist() == [{"a.b": 10, "Id": 2}]
    assert table.scan().where("s.b = 1").to_arrow()["Id"].to_pylist() == [1]
    assert table.changes(identity="`a.b`").to_arrow().num_rows == 2
    with pytest.raises(lakescan.NoSuchColumn, match="only whole columns identify rows"):
        table.changes(identity=["s.b"])


def test_a_dotted_name_is_the_member_even_if_a_column_is_named_so(tmp_path: Path) -> None:
    """Delta allows both in one table; Iceberg refuses to create such a table."""
    rows = ROWS.rename_columns(["a", "a.b", "Id"])
    lakescan.save(rows, tmp_path / "d", format="delta", partition_by="`a.b`")
    table = lakescan.table(tmp_path / "d")
    assert table.inspect("detail")["partitionColumns"].to_pylist() == [["a.b"]]
    assert table.scan().where("a.b = 1").to_arrow()["Id"].to_pylist() == [1]
    assert table.scan().where("`a.b` = 10").to_arrow()["Id"].to_pylist() == [2]
    assert table.scan().where("`a.b` = 10").plan().report.skipped_by_partition == 1


@pytest.mark.parametrize("clause", ["PARTITIONED BY (`a.b`)", "PARTITIONED BY (bucket(4, Id), truncate(`a.b`, 10))"])
def test_sql_partitions_by_quoted_names_and_keeps_their_case(lake: lakescan.Catalog, clause: str) -> None:
    lakescan.sql(None, f"CREATE TABLE local.db.t (Id BIGINT, `a.b` BIGINT, s STRUCT<b: BIGINT>) {clause}")
    table = lake.load_table("db.t")
    table.append(ROWS.select(["Id", "a.b", "s"]))
    assert table.scan().where("`a.b` = 10").count() == 1
    assert table.scan().where("`a.b` = 10").plan().report.skipped_by_partition == 1


def test_a_member_can_be_a_partition_of_iceberg_but_not_of_delta(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.t", ROWS.schema, partition_by=["s.b"])
    table.append(ROWS)
    assert table.scan().where("s.b = 1").plan().report.skipped_by_partition == 1
    with pytest.raises(lakescan.UnsupportedFeature, match="no nested partition columns"):
        lake.create_table("db.d", ROWS.schema, partition_by=["s.b"], format="delta")
    delta = lake.create_table("db.d", ROWS.schema, partition_by=["`a.b`"], format="delta")
    assert delta.inspect("detail")["partitionColumns"].to_pylist() == [["a.b"]]


def test_a_key_in_sql_may_have_a_dot_in_its_name(lake: lakescan.Catalog) -> None:
    lakescan.sql(None, "CREATE TABLE local.db.t (`a.b` BIGINT NOT NULL, s STRUCT<b: BIGINT>, PRIMARY KEY (`a.b`))")
    assert lake.load_table("db.t").schema.names == ["a.b", "s"]


def test_an_unknown_name_is_refused_with_the_quoted_nearest_name(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.t", "`net.price` DOUBLE, id BIGINT")
    with pytest.raises(lakescan.NoSuchColumn, match=r"Did you mean '`net\.price`'"):
        table.scan().where("net.prices > 1").to_arrow()
    with pytest.raises(lakescan.NoSuchColumn, match=r"Did you mean '`net\.price`'"):
        table.scan().select('"net.price"').to_arrow()
    with pytest.raises(lakescan.InvalidFilter, match="names are quoted with backquotes"):
        table.scan().where('"net.price" > 1')
