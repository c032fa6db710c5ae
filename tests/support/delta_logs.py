"""Deliberately damaged Delta logs: texts of commits, and tables whose log is changed in place."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lakescan
from lakescan.delta.log.log_text import LogText

VECTOR = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 4, "cardinality": 1}
ADD = {"path": "a", "partitionValues": {"p": "x"}, "size": 1, "modificationTime": 1, "dataChange": True}
MISSING = object()


def text(*lines: Any, version: int = 0) -> LogText:
    content = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    return LogText(f"{version:020d}.json", content.encode(), version)


def with_member(node: dict[str, Any], member: str, value: Any) -> dict[str, Any]:
    """Return the node with one member replaced; dots separate the path. `MISSING` removes the member."""
    node = copy.deepcopy(node)
    *path, last = member.split(".")
    inner = node
    for name in path:
        inner = inner[name]
    inner.pop(last, None)
    if value is not MISSING:
        inner[last] = value
    return node


def commit_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def rewrite(file: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the parsed lines of a log file in place."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    file.write_text("\n".join(json.dumps(line) for line in lines))


def change_action(name: str, member: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    def change(lines: list[dict[str, Any]]) -> None:
        at = next(i for i, line in enumerate(lines) if name in line)
        lines[at] = with_member(lines[at], f"{name}.{member}" if member else name, value)

    return change


def read(table: Path) -> list[int]:
    found: list[int] = sorted(lakescan.table(table).scan().to_arrow()["n"].to_pylist())
    return found
