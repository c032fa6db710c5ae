"""Formats answer for themselves: code above their protocols never checks a table's format."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakescan
from lakescan.planning.explain.page import plan_as_text

SOURCES = Path(lakescan.__file__).parent
NAMES = {"iceberg", "delta"}
OF_ONE_FORMAT = ("iceberg/", "delta/", "catalogs/hive_metastore")
OF_OTHER_ENGINES = ("conformance/",)  # these have one function per format
# The JARs of the formats differ in what they accept, return and raise, and jobs rely on it.
OF_THE_JARS = ("spark/drop_in/", "spark/delta_tables/", "cli/first_use.py", "cli/script_check.py")


def test_no_module_above_the_formats_checks_the_format() -> None:
    """Not by name (`format == "delta"`), by class (`isinstance(target, DeltaTarget)`), or by a dict or match of names.

    `options/` may have such dicts, because options are declared per format.
    """
    modules = [path for path in SOURCES.rglob("*.py") if not _is_of_one_format(path)]
    assert len(modules) > 100
    found = [question for path in modules for question in _questions(ast.parse(path.read_text()), path)]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "if table.name == 'delta': pass",
        "x = format in ('delta', 'hudi')",
        "isinstance(table, DeltaTable)",
        "isinstance(target, (int, IcebergTarget))",
        "WORDS = {'iceberg': 'snapshot', 'delta': 'version'}",
        "match table:\n case DeltaTable(): pass",
        "match name:\n case 'iceberg': pass",
    ],
)
def test_the_check_finds_format_tests(code: str) -> None:
    assert list(_questions(ast.parse(code), SOURCES / "module.py"))


def _is_of_one_format(path: Path) -> bool:
    return path.relative_to(SOURCES).as_posix().startswith(OF_ONE_FORMAT + OF_OTHER_ENGINES + OF_THE_JARS)


def _questions(tree: ast.AST, path: Path) -> Iterator[str]:
    for node in ast.walk(tree):
        if _asks(node, may_list_names="options" in path.parts):
            yield f"{path.relative_to(SOURCES)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node).splitlines()[0]}"


def _asks(node: ast.AST, *, may_list_names: bool) -> bool:
    match node:
        case ast.Compare():
            return any(_names_a_format(side) for side in (node.left, *node.comparators))
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            return any(_is_class_of_a_format(each) for each in ast.walk(kinds))
        case ast.MatchClass():
            return _is_class_of_a_format(node.cls)
        case ast.MatchValue():
            return _names_a_format(node.value)
        case ast.Dict():
            return not may_list_names and any(key is not None and _names_a_format(key) for key in node.keys)
    return False


def _names_a_format(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Constant) and each.value in NAMES for each in ast.walk(node))


def _is_class_of_a_format(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith(("Delta", "Iceberg"))


def _table(tmp_path: Path) -> str:
    DeltaTable.create(tmp_path / "t", pa.schema([("id", pa.int64())]))
    return str(tmp_path / "t")


@pytest.mark.parametrize("name", ["parquet", "hudi", ""])
def test_an_unknown_format_is_refused_wherever_one_is_named(tmp_path: Path, name: str) -> None:
    lake = lakescan.catalog("formats", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    rows = pa.table({"id": [1]})
    attempts: list[Any] = [
        lambda: lakescan.table(_table(tmp_path), format=name),
        lambda: lake.create_table("db.t", rows.schema, format=name),
        lambda: lakescan.save(rows, "formats.db.t", format=name),
        lambda: lakescan.save(rows, tmp_path / "new", format=name),
    ]
    for attempt in attempts:
        with pytest.raises(lakescan.InvalidOption, match="is unknown: use 'iceberg' or 'delta'"):
            attempt()
    assert lake.list_tables("db") == []
    assert not (tmp_path / "new").exists()


def test_a_format_that_contradicts_the_table_is_refused(tmp_path: Path) -> None:
    table = _table(tmp_path)
    with pytest.raises(lakescan.InvalidOption, match="is a table of format delta, not iceberg"):
        lakescan.save(pa.table({"id": [1]}), table, format="iceberg", mode="append")
    assert lakescan.table(table).count() == 0


def test_a_folder_with_metadata_of_both_formats_needs_the_format_option(tmp_path: Path) -> None:
    table = _table(tmp_path)
    (tmp_path / "t" / "metadata").mkdir()
    for path in (table, f"{table}@v0"):
        with pytest.raises(lakescan.InvalidOption, match="choose the format with format="):
            lakescan.table(path)
        assert lakescan.table(path, format="delta").count() == 0


def test_operations_that_a_format_lacks_are_refused_by_name(tmp_path: Path) -> None:
    lake = lakescan.catalog("words", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    iceberg, delta = lake.create_table("db.t", "id BIGINT"), lakescan.table(_table(tmp_path))
    with pytest.raises(lakescan.UnsupportedFeature, match="snapshots of a Delta table to expire"):
        delta.expire_snapshots()
    with pytest.raises(lakescan.UnsupportedFeature, match="checkpoints of Iceberg tables"):
        iceberg.checkpoint()
    with pytest.raises(lakescan.UnsupportedFeature, match="identity columns for Delta's changes"):
        delta.changes(identity=["id"])
    assert "version: 0" in plan_as_text(delta.scan().plan())
    assert "snapshot: none yet" in plan_as_text(iceberg.scan().plan())
