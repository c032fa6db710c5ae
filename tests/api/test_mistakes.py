"""Error messages for common mistakes: they name the problem and the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan import errors

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
ROWS = pa.table({"id": [1, 2], "customer": ["Ada", "Ben"], "day": [1, 2]})


@pytest.fixture
def orders(local: lakescan.Catalog) -> lakescan.Table:
    """Make a table with a partition column, which is the cheapest column to read."""
    table = local.create_table("db.orders", "id BIGINT, customer STRING, day BIGINT", partition_by="day")
    table.append(ROWS)
    return table


MISTAKES: dict[str, tuple[Callable[[lakescan.Table], object], type[Exception], str]] = {
    "a word that is no operator": (
        lambda t: t.scan().where("id = 1 adn day = 2"),
        errors.InvalidFilter,
        r"'adn' is not expected after 'id = 1'$",
    ),
    "an operator without its end": (
        lambda t: t.scan().where("id = 1 and"),
        errors.InvalidFilter,
        r"something is missing at 'and', character 8$",
    ),
    "an open parenthesis": (lambda t: t.scan().where("(id = 1"), errors.InvalidFilter, r"expecting \) after '1'$"),
    "no filter": (lambda t: t.scan().where(" "), errors.InvalidFilter, r"it is empty$"),
    "no path": (lambda t: lakescan.table(""), errors.InvalidOption, r"^'' does not name a table: give a path"),
    "a name without its catalog": (
        lambda t: lakescan.table("db.orders"),
        errors.NotATable,
        r"^db.orders does not exist; as a table's name, it needs a catalog: catalog.namespace.table",
    ),
    "a namespace that is not there": (
        lambda t: lakescan.table("local.dbb.orders"),
        errors.NoSuchTable,
        r"It has no namespace 'dbb'. Did you mean 'db'\?$",
    ),
    "a folder within a table": (
        lambda t: lakescan.table(f"{t.scan().spec.table.location}/data"),
        errors.NotATable,
        r"Give the table's own folder, not a file or folder in it$",
    ),
    "a dict": (lambda t: t.append({"id": [1]}), errors.InvalidOption, r"pyarrow.table\(data\) makes them$"),
    "a list of dicts": (lambda t: t.append([{"id": 1}]), errors.InvalidOption, r"pyarrow.Table.from_pylist\(data\)"),
    "rows of another type": (
        lambda t: t.append(pa.table({"id": ["x"]})),
        errors.SchemaMismatch,
        r"Where types differ, cast the values to the table's type.$",
    ),
    "a column of a query that the scan does not read": (
        lambda t: lakescan.sql("SELECT custmer FROM local.db.orders").to_arrow(),
        errors.InvalidStatement,
        r"^there is no column 'custmer'. Did you mean 'customer'\? \(line 1, column 8\)",
    ),
    "a column of a query that is like none": (
        lambda t: lakescan.sql("SELECT id, xyzzy FROM local.db.orders").to_arrow(),
        errors.InvalidStatement,
        r"^there is no column 'xyzzy'. There are: id, customer, day. \(line 1, column 12\)",
    ),
    "a function": (
        lambda t: lakescan.sql("SELECT uper(customer) FROM local.db.orders").to_arrow(),
        errors.UnsupportedFeature,
        r"the function uper\(\) .* Did you mean upper\(\)\?",
    ),
    "rows that SQL was not given": (
        lambda t: lakescan.sql("MERGE INTO local.db.orders t USING s ON t.id = s.id WHEN MATCHED THEN DELETE"),
        errors.NoSuchTable,
        r"Give rows of your own by name: lakescan.sql\(text, s=rows\)",
    ),
    "a text without quotes": (
        lambda t: t.update({"customer": "new name"}),
        errors.InvalidStatement,
        r"^new and name stand side by side: .* a text in single quotes, 'like this'",
    ),
    "other names for the sides of a merge": (
        lambda t: t.merge(ROWS, on="target.id = source.id").when_matched_delete().execute(),
        errors.InvalidStatement,
        r"there is no column 'target.id'. The table is `t` here, the source `s`.",
    ),
    "the type of a catalog": (
        lambda t: lakescan.catalog("other", type="rst", uri="http://127.0.0.1:1").list_namespaces(),
        errors.InvalidOption,
        r"The types are .*glue, .*rest, .*unity$",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_the_error_for_a_mistake_tells_what_to_do(
    orders: lakescan.Table,
    mistake: tuple[Callable[[lakescan.Table], object], type[Exception], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    make, kind, message = mistake
    with pytest.raises(kind, match=message):
        make(orders)
    assert orders.refresh().scan().to_arrow().sort_by("id").equals(ROWS)


def test_a_merge_with_correct_sides_gets_an_error_only_about_the_column(orders: lakescan.Table) -> None:
    with pytest.raises(errors.InvalidStatement, match=r"^there is no column 't.idd'. Did you mean 'id'\?"):
        orders.merge(ROWS, on="t.idd = s.id").when_matched_delete().execute()


def test_an_alias_of_a_column_is_accepted(orders: lakescan.Table) -> None:
    assert lakescan.sql("SELECT id n FROM local.db.orders ORDER BY n").to_arrow()["n"].to_pylist() == [1, 2]
