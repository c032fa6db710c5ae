"""Misspelled statements do not run as other statements: messages underline the place and suggest the intended word."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakescan
from lakescan.errors import InvalidOption, InvalidStatement, UnsupportedFeature


@pytest.fixture
def lake(tmp_path: Path) -> lakescan.Catalog:
    catalog = lakescan.catalog("lake", warehouse=tmp_path / "lake")
    catalog.create_namespace("shop")
    return catalog


@pytest.fixture(params=["iceberg", "delta"])
def orders(request: pytest.FixtureRequest, lake: lakescan.Catalog) -> lakescan.Table:
    return lake.create_table("shop.orders", "id INT, note STRING", format=request.param)


@pytest.mark.parametrize(
    ("clause", "meant", "underlined"),
    [
        ("id TYP BIGINT", "'TYPE'", "TYP"),
        ("note SET NOT NUL", "'NOT NULL'", "NOT"),
        ("note SET DEFALT 'x'", "'DEFAULT'", "DEFALT"),
        ("note DROP DEFAUL", "'DEFAULT'", "DEFAUL"),
    ],
)
def test_a_misspelled_change_of_a_column_does_not_rename_it(
    orders: lakescan.Table, clause: str, meant: str, underlined: str
) -> None:
    """Only CHANGE has Hive's form with two names; a word after ALTER COLUMN name is an action."""
    with pytest.raises(InvalidStatement, match=f"Did you mean {meant}") as error:
        lakescan.sql(f"ALTER TABLE lake.shop.orders ALTER COLUMN {clause}")
    text, marks = str(error.value).splitlines()[-2:]
    assert text[marks.index("^") : len(marks)] == underlined
    assert orders.refresh().schema.names == ["id", "note"]


def test_change_has_the_forms_of_spark_and_of_hive(lake: lakescan.Catalog) -> None:
    lake.create_table("shop.orders", "id INT, note STRING")
    lakescan.sql("ALTER TABLE lake.shop.orders CHANGE note remark STRING COMMENT 'x'")
    lakescan.sql("ALTER TABLE lake.shop.orders CHANGE COLUMN id TYPE BIGINT, remark FIRST")
    assert lakescan.sql("DESCRIBE lake.shop.orders").to_arrow().to_pylist() == [
        {"col_name": "remark", "data_type": "string", "comment": "x"},
        {"col_name": "id", "data_type": "bigint", "comment": None},
    ]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("CREAT TABLE lake.shop.x (id INT)", " Did you mean CREATE TABLE?"),
        ("SHOW TABLE IN lake.shop", " Did you mean SHOW TABLES?"),
        ("SELEC * FROM lake.shop.orders", " Did you mean SELECT?"),
    ],
)
def test_an_unknown_statement_is_refused_with_the_nearest(text: str, meant: str) -> None:
    with pytest.raises(UnsupportedFeature) as error:
        lakescan.sql(text)
    assert str(error.value).endswith(f"docs/sql.md lists the statements that run.{meant}")


@pytest.mark.parametrize("text", ["", "-- nothing", " ; "])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidStatement, match="a text without a statement"):
        lakescan.sql(text)


@pytest.mark.parametrize(
    "text", ["SELECT ';' AS a; -- done", "/* a; */ SELECT ';' AS a /* ; */ ; ;\n-- done;", "SELECT ';' AS a -- ;"]
)
def test_comments_may_follow_the_semicolon(text: str) -> None:
    assert lakescan.sql(text).to_arrow().to_pylist() == [{"a": ";"}]


def test_adding_an_existing_column_is_refused(orders: lakescan.Table) -> None:
    added = lakescan.sql("ALTER TABLE lake.shop.orders ADD COLUMN IF NOT EXISTS note STRING")
    assert str(added) == "1 change: added column note string, unless it was there"
    assert str(orders.refresh().alter().drop_column("zz", if_exists=True).commit()) == (
        "1 change: dropped column zz, if it was there"
    )


def test_a_default_of_another_type_is_refused_in_plain_words(lake: lakescan.Catalog) -> None:
    with pytest.raises(InvalidOption, match=r"'abc', is not a valid int: not a number$"):
        lakescan.sql("CREATE TABLE lake.shop.x (id INT DEFAULT 'abc') TBLPROPERTIES ('format-version' = '3')")
