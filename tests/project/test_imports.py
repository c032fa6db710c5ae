"""Import times of modules: they are imported on demand, and reading a table imports no writers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan


def _modules_after(code: str, *arguments: str) -> list[str]:
    """Return the modules that a new process has imported after running some code."""
    script = f"import sys, lakescan\n{code}\nprint('modules:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.rpartition("modules:")[2].split()


def test_importing_the_package_imports_neither_arrow_nor_most_of_its_modules() -> None:
    found = _modules_after("")
    assert not {"pyarrow", "numpy", "lakescan.api.scan", "lakescan.storage"} & set(found)


def test_reading_a_table_imports_nothing_that_writes_or_maintains_one(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2]})
    delta, name = str(tmp_path / "delta"), "imports.n.t"
    lakescan.save(rows, delta, format="delta")
    catalog = lakescan.catalog("imports", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    iceberg = catalog.create_table("n.t", rows.schema)
    iceberg.append(rows)
    code = "for path in sys.argv[1:]: assert lakescan.table(path).scan().where('id > 1').to_arrow().num_rows == 1"
    found = _modules_after(code, delta, iceberg.folder)
    assert str(iceberg.name) == name
    writing = ("dml", "ddl", "maintenance", "health", "alter", "transaction.iceberg", "transaction.delta", "spark")
    assert [each for each in found if each in {f"lakescan.{part}" for part in writing}] == []


def test_each_public_name_is_imported_from_the_module_that_type_checkers_see() -> None:
    tree = ast.parse(Path(lakescan.__file__).read_text())
    block = next(each for each in tree.body if isinstance(each, ast.If))
    seen = {
        name.name: each.module
        for each in block.body
        if isinstance(each, ast.ImportFrom) and each.module != "lakescan"
        for name in each.names
    }
    assert seen == lakescan._WHERE
    assert set(lakescan.__all__) == {*seen, *vars(lakescan.errors).keys() & set(lakescan.__all__)} | {
        "__version__",
        "errors",
        "spark",
    }
    assert set(lakescan.__all__) <= set(dir(lakescan))


@pytest.mark.parametrize("first", ["lakescan.api.table", "lakescan.api.catalog", "lakescan.statements.sql"])
def test_functions_are_found_whichever_module_is_imported_first(first: str) -> None:
    names = "(lakescan.table, lakescan.catalog, lakescan.sql, lakescan.save, lakescan.doctor)"
    _modules_after(f"import {first}\nassert all(map(callable, {names}))\nassert callable(lakescan.spark.sql)")
    with pytest.raises(AttributeError, match="no attribute 'tabel'"):
        lakescan.tabel  # noqa: B018


def test_modules_of_the_package_are_attributes_of_it() -> None:
    """Messages advise users to set limits through `lakescan.limits`."""
    _modules_after("lakescan.limits.WHOLE_FILE += 1\nassert lakescan.errors.LakescanError and lakescan.spark.sql")
