"""Libraries are used through public names: a name with an underscore may vanish or change its meaning at any time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
LIBRARIES = ("pyiceberg", "deltalake")
# Allowed: Spark's context, a type of the standard library, sqlglot's parser, and parts of pyiceberg that have no public
# name: there it would obey values from tables and servers, or open connections that never end.
OTHERS = {
    "lakescan/catalogs/glue_catalog.py": ["_get_glue_table", "_update_glue_table"],
    "lakescan/catalogs/hive_metastore.py": [
        "_init_thrift_transport",
        "_kerberos_auth",
        "_kerberos_service_name",
        "_transport",
        "_uri",
    ],
    "lakescan/catalogs/properties.py": ["_load_file_io"],
    "lakescan/catalogs/registry.py": ["_ENV_CONFIG"],
    "lakescan/expressions/scalar/parse.py": ["_prev"],  # of sqlglot
    "lakescan/spark/connect/hook.py": ["_analyze", "_plan", "_session_hooks"],  # nothing is installed without them
    "lakescan/spark/optimizer_rules.py": [
        "_desc",
        "_of_lakescan",
    ],  # the text of PySpark's errors, and a mark of lakescan
    "lakescan/spark/workers.py": ["_sc"],
    "lakescan/reading/avro/codecs.py": ["_Decompress"],
    "lakescan/conformance/child.py": ["_exit"],  # of os
    # PySpark's methods are replaced for jobs of the JARs: its readers, writers, columns, errors and sessions have no
    # public names for what they were given, and runpy none for `python -m`.
    "lakescan/cli/first_use.py": ["_start_connect_server"],
    "lakescan/cli/job.py": ["_run_module_as_main"],
    "lakescan/spark/column_sql/column_text.py": [
        "_1",
        "_2",
        "_alias",
        "_args",
        "_arguments",
        "_branches",
        "_child",
        "_dataType",
        "_data_type",
        "_else_value",
        "_eval_mode",
        "_expr",
        "_extraction",
        "_function",
        "_is_distinct",
        "_name",
        "_name_parts",
        "_plan_id",
        "_unparsed_identifier",
        "_value",
    ],
    "lakescan/spark/column_sql/source_names.py": ["_alias", "_child", "_plan", "_plan_id"],
    "lakescan/spark/drop_in/catalog.py": ["_sparkSession"],
    "lakescan/spark/drop_in/errors.py": [
        "_active_spark_context",
        "_contexts",
        "_desc",
        "_errorClass",
        "_lakescan_about",
        "_lakescan_classes",
        "_lakescan_text",
        "_messageParameters",
        "_sqlState",
    ],
    "lakescan/spark/drop_in/read.py": ["_client", "_spark"],
    "lakescan/spark/drop_in/sessions.py": ["_client", "_jsc"],
    "lakescan/spark/drop_in/stream.py": ["_child", "_df", "_session", "_spark", "_write_stream"],
    "lakescan/spark/drop_in/write.py": ["_df", "_spark"],
}
# PySpark's access to its JVM has no public names. Code that uses it works without it.
TO_THE_JVM = {"_gateway", "_jc", "_jdf", "_jsparkSession", "_jvm"}
BY_NAME = ("getattr", "setattr", "hasattr", "delattr")


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("_")


def private_uses(text: str) -> list[str]:
    """Return the private names in a module that may belong to a library's modules and objects.

    The owner of an attribute is not decidable. A name that no class of the module defines counts as foreign.
    """
    tree = ast.parse(text)
    own = set(own_members(tree))
    found = (name for node in ast.walk(tree) for name in (*imported(node), *used(node)))
    return sorted({name for name in found if is_private(name) and name not in own and name not in TO_THE_JVM})


def own_members(tree: ast.Module) -> Iterator[str]:
    """Yield the methods and attributes of the module's own classes."""
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield name
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    yield name
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                    yield name


def imported(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] in LIBRARIES:
            yield from (*module.split("."), *(each.name for each in names))
        case ast.Import(names=names):
            for each in names:
                yield from each.name.split(".") if each.name.partition(".")[0] in LIBRARIES else ()


def used(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="cls" | "self")):
            return
        case ast.Attribute(attr=name):
            yield name
        case ast.Call(func=ast.Name(id=function), args=[_, ast.Constant(value=str(name)), *_]) if function in BY_NAME:
            yield name
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars")), slice=ast.Constant(value=str(name))):
            yield name
        case ast.Subscript(value=ast.Attribute(attr="__dict__"), slice=ast.Constant(value=str(name))):
            yield name


@pytest.mark.parametrize("module", sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py")))
def test_the_source_uses_no_private_names_of_pyiceberg_and_deltalake(module: str) -> None:
    assert private_uses((SOURCE / module).read_text()) == OTHERS.get(module, [])


@pytest.mark.parametrize(
    "text",
    [
        "from pyiceberg.catalog import _load",
        "import pyiceberg._inner",
        "from pyiceberg._inner import thing",
        "transaction._updates",
        "table.catalog._delete_old_metadata(io)",
        "def _updates(): ...\ntransaction._updates",
        "vars(catalog)['_write_metadata'] = write",
        "catalog.__dict__['_write_metadata']",
        "getattr(catalog, '_write_metadata')",
        "setattr(catalog, '_write_metadata', write)",
    ],
)
def test_each_way_to_use_a_private_name_is_found(text: str) -> None:
    assert len(private_uses(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    _own = 1\nA()._own",
        "class A:\n    def __init__(self): self._own = 1\nother._own",
        "x.__dict__",
        "_f()",
    ],
)
def test_own_and_public_names_are_not_reported(text: str) -> None:
    assert private_uses(text) == []
