"""Check that every public name has a full docstring: part of `make lint`.

Public names are those of `lakescan.__all__` and `lakescan.spark.__all__`, and the public methods of their classes. A
function with parameters documents each of them under `Args:` and has an `Example:`; everything else has a docstring.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

# Their one-line docstrings describe the parameters, or name a method with the same parameters.
_SHORT = {"Changes.to_pandas", "Table.to_pandas", "Table.to_polars", "Scan.filter", "Scan.limit"}
_FOR_ENGINES = {
    "FileScanTask",
    "ScanPlan",
    "TaskGroup",
    "ScanReport",
    "ScanMetrics",
    "TaskGroups",
    "Predicate",
}  # attributes that are read, not called


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name in module.__all__:
        found = getattr(module, name)
        if isinstance(found, ModuleType | str):
            continue
        yield name, found
        if inspect.isclass(found) and not issubclass(found, BaseException) and name not in _FOR_ENGINES:
            for member, value in vars(found).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", value


def _faults(name: str, found: Any) -> Iterator[str]:
    if isinstance(found, property):
        found = found.fget
    if not (inspect.isfunction(found) or inspect.isclass(found)):
        return
    text = inspect.getdoc(found)
    if not text:
        yield f"{name}: no docstring"
        return
    if (
        not inspect.isfunction(found)
        or name in _SHORT
        or "by its old name" in text
        or text.startswith("Deprecated alias")
    ):
        return
    parameters = [p for p in inspect.signature(found).parameters if p not in ("self", "cls", "spark")]
    for parameter in parameters:
        if not re.search(rf"^ +{parameter}: ", text, re.MULTILINE) and not _is_named_in_summary(parameter, text):
            yield f"{name}: parameter {parameter!r} is not documented under Args"
    if parameters and "Example:" not in text:
        yield f"{name}: no Example"


def _is_named_in_summary(parameter: str, text: str) -> bool:
    """Return whether a short docstring without `Args` names the parameter."""
    return "Args:" not in text and f"`{parameter}`" in text


def main() -> int:
    """Print the missing parts; return 1 if there are any."""
    import lakescan.spark

    found = [fault for module in (lakescan, lakescan.spark) for each in _public(module) for fault in _faults(*each)]
    print("\n".join(found) or "every public name has a full docstring")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
