"""Return types of public functions are themselves public: exported, for annotations and reference pages."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest

import lakescan
import lakescan.spark

MODULES = (lakescan, lakescan.spark)
# Classes of other libraries that modules import only for type checkers.
EXTERNAL = {"pandas", "polars", "duckdb", "ray", "dask", "daft", "DataFrame", "SparkSession", "StreamingQuery"}
# Engines read these objects through their attributes, whose types are internal.
FOR_ENGINES = {"FileScanTask", "ScanPlan", "ScanReport", "ScanTask", "Snapshot", "TaskGroup", "TaskGroups", "Scan"}


def function_of(member: Any) -> Any:
    """Return the function behind a method, property or static method; None for other members."""
    if isinstance(member, property):
        return member.fget
    if isinstance(member, cached_property):
        return member.func
    member = getattr(member, "__func__", member)
    return member if inspect.isfunction(member) else None


def annotated() -> Iterator[tuple[str, ModuleType, str]]:
    """Yield the name, module and annotation of each public function's result and each public attribute."""
    for module in MODULES:
        for name in module.__all__:
            found = getattr(module, name)
            members = vars(found).items() if inspect.isclass(found) else [("", found)]
            for member, value in members:
                function = function_of(value)
                if member.startswith("_") or function is None:
                    continue
                yield f"{name}.{member}".rstrip("."), sys.modules[function.__module__], returned(function)
            if dataclasses.is_dataclass(found) and name not in FOR_ENGINES:
                for field in (each for each in dataclasses.fields(found) if not each.name.startswith("_")):
                    yield f"{name}.{field.name}", sys.modules[found.__module__], str(field.type)  # type: ignore[union-attr]


def returned(function: Any) -> str:
    return str(function.__annotations__.get("return", "nothing is said"))


PUBLIC = list(annotated())


@pytest.mark.parametrize(("name", "module", "annotation"), PUBLIC, ids=[name for name, _, _ in PUBLIC])
def test_return_types_are_annotated_and_exported(name: str, module: ModuleType, annotation: str) -> None:
    assert annotation != "nothing is said", f"{name} has no return annotation"
    exported = {id(getattr(each, known)) for each in MODULES for known in each.__all__}
    for word in re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", annotation):
        known = getattr(module, word, getattr(lakescan, word, vars(builtins).get(word)))
        if known is None and word != "None":
            assert word in EXTERNAL, f"{name} returns {word}, which {module.__name__} does not know"
        is_own = inspect.isclass(known) and known.__module__.startswith("lakescan")
        assert not is_own or id(known) in exported, f"{name} returns {word}, which lakescan does not export"


def test_the_walk_finds_methods_properties_and_attributes() -> None:
    names = {name for name, _, _ in PUBLIC}
    assert {"Table.scan", "Table.version", "BatchStream.backlog", "WriteResult.files", "doctor", "read"} <= names
