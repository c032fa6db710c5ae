"""Make Delta tables that declare rules for their columns, as Spark would create them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lakescan
from tests.support.delta_state import commit, first_actions, state

FEATURES = ("allowColumnDefaults", "checkConstraints", "generatedColumns", "identityColumns", "invariants")
ALWAYS = {"start": 1, "step": 1, "allowExplicitInsert": False}
NOT_NULL = {"nullable": False}


def table_with_rules(
    folder: Path, columns: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]] | None = None, **more: Any
) -> lakescan.Table:
    """Make a table whose columns have these rules as metadata; the rule `nullable` sets the column's nullability."""
    actions = first_actions(columns, features=FEATURES, **more)
    metadata = actions[1]["metaData"]
    schema = json.loads(metadata["schemaString"])
    for field in schema["fields"]:
        own = dict((rules or {}).get(field["name"], {}))
        field["nullable"] = own.pop("nullable", True)
        field["metadata"] = own
    metadata["schemaString"] = json.dumps(schema)
    commit(folder, *actions)
    return lakescan.table(folder)


def identity(**members: Any) -> dict[str, Any]:
    return {f"delta.identity.{name}": value for name, value in {**ALWAYS, **members}.items()}


def mark_of(folder: Path, column: str) -> int | None:
    _, metadata, _ = state(folder)
    fields = json.loads(metadata.schema_string)["fields"]
    return next(field["metadata"].get("delta.identity.highWaterMark") for field in fields if field["name"] == column)
