"""Change values of table metadata and commits to unexpected ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# If one of these is missing or has another type, the table's rows cannot be determined.
_ESSENTIAL = {
    "path", "partitionValues", "storageType", "pathOrInlineDv", "sizeInBytes", "cardinality", "schemaString",
    "partitionColumns", "minReaderVersion", "format-version", "current-snapshot-id", "snapshots", "manifest-list",
    "schemas", "current-schema-id", "snapshot-id",
}  # fmt: skip
_VALUES: list[Any] = [
    None, True, 0, -1, 7, 2**31, 2**63, -(2**63), 10**30, 1.5, "", "x", "x" * 5000, "\x00", "é" * 9, [], {}, [[]],
    {"a": 1}, "NaN", "1e999", "../../x", "%zz",
]  # fmt: skip
_TEXTS = ["NaN", "Infinity", "1e999999", "01", "'a'", "{", "[1,]", '"\\ud800"', "9" * 5000]
_PLACEHOLDER = "a value to be replaced"


def change(rng: random.Random, path: Path) -> tuple[str, bool]:
    """Change a value in a JSON file or in one line of a commit; return a description, and whether reading must fail."""
    if rng.random() < 0.1:
        return _break(rng, path), False
    lines = path.read_text().splitlines() if "_delta_log" in str(path) else [path.read_text()]
    number = rng.randrange(len(lines))
    node = json.loads(lines[number])
    places = list(_places(node))
    holder, key = (
        rng.choice([p for p in places if p[1] in _ESSENTIAL] or places) if rng.random() < 0.4 else rng.choice(places)
    )
    how = rng.choice(["drop", "null", "type", "value", "value", "text"])
    old = holder[key]
    new: Any = {"null": None, "text": _PLACEHOLDER}.get(how)
    if how == "drop":
        del holder[key]
    else:
        if how == "type":
            new = rng.choice([v for v in _VALUES if v is not None and type(v) is not type(old)])
        elif how == "value":
            new = rng.choice(_VALUES)
        holder[key] = new
    text = json.dumps(node)
    if how == "text":
        new = rng.choice(_TEXTS)
        text = text.replace(json.dumps(_PLACEHOLDER), new)
    lines[number] = text
    path.write_text("\n".join(lines) + "\n")
    essential = key in _ESSENTIAL and (how in ("drop", "null") or (how == "type" and not _is_like(old, new)))
    return f"line {number} {key!r} {how} {str(new)[:30]!r}", essential


def set_path(rng: random.Random, folder: Path, new: str) -> str:
    """Give an action of a commit another path."""
    commits = sorted(folder.glob("_delta_log/*.json"))
    path = rng.choice(commits)
    nodes = [json.loads(line) for line in path.read_text().splitlines()]
    found = [n[kind] for n in nodes for kind in ("add", "remove") if kind in n]
    if found:
        rng.choice(found)["path"] = new
    path.write_text("".join(json.dumps(n) + "\n" for n in nodes))
    return f"a path of {path.name}"


def _break(rng: random.Random, path: Path) -> str:
    """Make a text invalid JSON."""
    text = path.read_text()
    at = rng.randrange(len(text))
    new = rng.choice(["[" * 100_000, '{"a":' * 100_000, "\x00", "}", '"', "\n\n", "\ufeff", "x" * 70_000])
    path.write_text(text[:at] + new + text[at:])
    return f"{new[:5]!r} ({len(new)}) at {at}"


def _is_like(old: Any, new: Any) -> bool:
    """Return whether parsers accept one type for the other: numbers and booleans, numbers and texts of digits."""
    plain = (bool, int, float, str)
    return isinstance(old, plain) and isinstance(new, plain)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    children = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in children:
        yield node, key
        yield from _places(value)
