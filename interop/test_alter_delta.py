"""ALTER TABLE of Delta tables: lakescan makes the same changes as Delta on Spark, and Delta reads the result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.support.delta_state import newest_version, state
from tests.support.rows import differences

import lakescan
from interop.test_delta import written
from interop.test_delta_commits import checked, forget
from lakescan.api.alter import AlterBuilder

MADE = [
    "CREATE TABLE {t} (id INT COMMENT 'key', s STRUCT<a: INT, b: STRING>, l ARRAY<INT>, f FLOAT, d DATE, part STRING) "
    "USING delta PARTITIONED BY (part)",
    "INSERT INTO {t} VALUES (1, named_struct('a', 1, 'b', 'x'), array(1), 0.5, DATE '2026-01-01', 'p')",
    "INSERT INTO {t} VALUES (2, null, array(2, null), null, null, null)",
]
PLAIN = [MADE[0].replace("PARTITIONED BY (part)", ""), *MADE[1:]]
MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode'='name')"
WIDENING = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening'='true')"
ZONELESS = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.timestampNtz'='supported')"
DEFAULTS = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults'='supported')"
Change = Callable[[AlterBuilder], AlterBuilder]
# The statements before, the JVM's statement, and lakescan's change.
CASES: dict[str, tuple[list[str], str, Change]] = {
    "add": (MADE, "ADD COLUMNS (n STRING COMMENT 'new')", lambda t: t.add_column("n", "STRING", comment="new")),
    "add first": (MADE, "ADD COLUMNS (n DECIMAL(5, 2) FIRST)", lambda t: t.add_column("n", "DECIMAL(5,2)", first=True)),
    "add after": (MADE, "ADD COLUMNS (n BIGINT AFTER id)", lambda t: t.add_column("n", "BIGINT", after="id")),
    "add member": (MADE, "ADD COLUMNS (s.c DOUBLE AFTER a)", lambda t: t.add_column("s.c", "DOUBLE", after="a")),
    "add two": (
        MADE,
        "ADD COLUMNS (m MAP<STRING, INT>, n STRUCT<x: DATE>)",
        lambda t: t.add_column("m", "MAP<STRING, INT>").add_column("n", "STRUCT<x: DATE>"),
    ),
    "add a type with a feature": (
        [*MADE, ZONELESS],
        "ADD COLUMNS (n TIMESTAMP_NTZ)",
        lambda t: t.add_column("n", "TIMESTAMP_NTZ"),
    ),
    "map columns": (
        MADE,
        "SET TBLPROPERTIES ('delta.columnMapping.mode'='name')",
        lambda t: t.set_properties({"delta.columnMapping.mode": "name"}),
    ),
    "add to mapped": ([*MADE, MAPPED], "ADD COLUMNS (n STRUCT<x: INT>)", lambda t: t.add_column("n", "STRUCT<x: INT>")),
    "drop": ([*MADE, MAPPED], "DROP COLUMN f", lambda t: t.drop_column("f")),
    "drop member": ([*MADE, MAPPED], "DROP COLUMNS (s.a, d)", lambda t: t.drop_column("s.a").drop_column("d")),
    "rename": ([*MADE, MAPPED], "RENAME COLUMN id TO key", lambda t: t.rename_column("id", "key")),
    "rename member": ([*MADE, MAPPED], "RENAME COLUMN s.a TO x", lambda t: t.rename_column("s.a", "x")),
    "rename partition": ([*MADE, MAPPED], "RENAME COLUMN part TO p", lambda t: t.rename_column("part", "p")),
    "widen": ([*MADE, WIDENING], "ALTER COLUMN id TYPE BIGINT", lambda t: t.change_column("id", type="BIGINT")),
    "widen a float": ([*MADE, WIDENING], "ALTER COLUMN f TYPE DOUBLE", lambda t: t.change_column("f", type="DOUBLE")),
    "widen a date": (
        [*MADE, WIDENING, ZONELESS],
        "ALTER COLUMN d TYPE TIMESTAMP_NTZ",
        lambda t: t.change_column("d", type="TIMESTAMP_NTZ"),
    ),
    "widen an element": (
        [*MADE, WIDENING],
        "ALTER COLUMN l.element TYPE BIGINT",
        lambda t: t.change_column("l.element", type="BIGINT"),
    ),
    "widen a member": (
        [*MADE, WIDENING],
        "ALTER COLUMN s.a TYPE DECIMAL(12, 2)",
        lambda t: t.change_column("s.a", type="DECIMAL(12, 2)"),
    ),
    "widen twice": (
        [*MADE, WIDENING, "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"],
        "ALTER COLUMN id TYPE DECIMAL(22, 1)",
        lambda t: t.change_column("id", type="DECIMAL(22, 1)"),
    ),
    "comment": (MADE, "ALTER COLUMN id COMMENT 'other'", lambda t: t.change_column("id", comment="other")),
    "move": (MADE, "ALTER COLUMN d FIRST", lambda t: t.change_column("d", first=True)),
    "move member": (MADE, "ALTER COLUMN s.a AFTER b", lambda t: t.change_column("s.a", after="b")),
    "default": ([*MADE, DEFAULTS], "ALTER COLUMN id SET DEFAULT 5", lambda t: t.change_column("id", default=5)),
    "no default": (
        [*MADE, DEFAULTS, "ALTER TABLE {t} ALTER COLUMN id SET DEFAULT 5"],
        "ALTER COLUMN id DROP DEFAULT",
        lambda t: t.change_column("id", default=None),
    ),
    "replace": (
        [*PLAIN, MAPPED],
        "REPLACE COLUMNS (f FLOAT, id INT COMMENT 'new', part STRING)",
        lambda t: t.replace_columns("f FLOAT, id INT COMMENT 'new', part STRING"),
    ),
    "constraint": (MADE, "ADD CONSTRAINT Positive CHECK (id > 0)", lambda t: t.add_constraint("Positive", "id > 0")),
    "no constraint": (
        [*MADE, "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)"],
        "DROP CONSTRAINT c",
        lambda t: t.drop_constraint("c"),
    ),
    "cluster": (PLAIN, "CLUSTER BY (id, s.b)", lambda t: t.cluster_by("id", "s.b")),
    "cluster mapped": ([*PLAIN, MAPPED], "CLUSTER BY (id)", lambda t: t.cluster_by("id")),
    "cluster by other columns": (
        [*PLAIN, "ALTER TABLE {t} CLUSTER BY (id)"],
        "CLUSTER BY (d)",
        lambda t: t.cluster_by("d"),
    ),
    "cluster by none": ([*PLAIN, "ALTER TABLE {t} CLUSTER BY (id)"], "CLUSTER BY NONE", lambda t: t.cluster_by()),
    "unset": (
        [*MADE, "ALTER TABLE {t} SET TBLPROPERTIES ('own'='1', 'delta.checkpointInterval'='20')"],
        "UNSET TBLPROPERTIES IF EXISTS ('own', 'delta.checkpointinterval', 'other')",
        lambda t: t.unset_properties("own", "delta.checkpointinterval", "other"),
    ),
    "drop the feature of constraints": (
        [*MADE, "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.checkConstraints'='supported')"],
        "DROP FEATURE checkConstraints",
        lambda t: t.drop_feature("checkConstraints"),
    ),
    "versions": (
        MADE,
        "SET TBLPROPERTIES ('delta.minReaderVersion'='2', 'delta.minWriterVersion'='5')",
        lambda t: t.set_properties({"delta.minReaderVersion": 2, "delta.minWriterVersion": 5}),
    ),
}
PROPERTIES = [
    {"own": "1"},
    {"comment": "what it is"},
    {"delta.appendOnly": "true"},
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableDeletionVectors": "true"},
    {"delta.enableTypeWidening": "true"},
    {"delta.checkpointPolicy": "v2", "own": "2"},
    {"delta.enableInCommitTimestamps": "true"},
    {"delta.feature.deletionVectors": "supported"},
    {"delta.feature.allowColumnDefaults": "supported", "delta.logRetentionDuration": "interval 13 days"},
]
for _each in PROPERTIES:
    _text = ", ".join(f"'{n}'='{v}'" for n, v in _each.items())
    CASES[f"set {_text}"] = (MADE, f"SET TBLPROPERTIES ({_text})", lambda t, p=_each: t.set_properties(p))


MADE_ONCE: dict[str, tuple[tuple[str, Path], tuple[str, Path]]] = {}


def both(jvm: Any, warehouse: Path, name: str) -> tuple[tuple[str, Path], tuple[str, Path]]:
    """Make two tables of one case: one that Delta changed, and one that lakescan changed."""
    if name not in MADE_ONCE:
        MADE_ONCE[name] = _both(jvm, warehouse, name)
    return MADE_ONCE[name]


def _both(jvm: Any, warehouse: Path, name: str) -> tuple[tuple[str, Path], tuple[str, Path]]:
    before, statement, change = CASES[name]
    theirs = written(jvm, warehouse, f"alter jvm {name}", [*before, f"ALTER TABLE {{t}} {statement}"])
    mine = written(jvm, warehouse, f"alter own {name}", before)
    change(lakescan.table(mine[1]).alter()).commit()
    forget(jvm)
    return (theirs[0], Path(theirs[1])), (mine[0], Path(mine[1]))


@pytest.mark.parametrize("name", CASES)
def test_the_commit_equals_that_of_delta(jvm: Any, warehouse: Path, name: str) -> None:
    (_, theirs), (_, mine) = both(jvm, warehouse, name)
    expected, found = last_commit(theirs), last_commit(mine)
    assert found == expected


@pytest.mark.parametrize("name", CASES)
def test_delta_and_other_readers_read_tables_changed_by_lakescan(jvm: Any, warehouse: Path, name: str) -> None:
    (theirs, _), (mine, folder) = both(jvm, warehouse, name)
    rows = jvm.sql(f"SELECT * FROM {mine}").toArrow()
    assert differences(rows, jvm.sql(f"SELECT * FROM {theirs}").toArrow()) == ""
    assert differences(lakescan.table(folder).to_arrow(), rows) == ""
    checked(jvm, str(folder))
    if not state(folder)[0].features & {"typeWidening"}:  # deltalake does not open such tables
        assert DeltaTable(folder).version() == newest_version(folder)


def test_lakescan_and_delta_alter_a_table_in_turn(jvm: Any, warehouse: Path) -> None:
    identifier, location = written(jvm, warehouse, "alter in turn", PLAIN)
    table = lakescan.table(location)
    table.alter().set_properties({"delta.columnMapping.mode": "name", "delta.enableTypeWidening": True}).commit()
    table.alter().rename_column("id", "key").change_column("key", type="BIGINT").drop_column("f").commit()
    forget(jvm)
    jvm.sql(f"INSERT INTO {identifier} VALUES (5000000000, null, null, null, 'q')")
    jvm.sql(f"ALTER TABLE {identifier} ADD COLUMNS (f STRING)")
    table.refresh().append(pa.table({"key": [4], "f": ["new"]}), merge_schema=True)
    table.alter().add_constraint("some", "key > 0").cluster_by("key").commit()
    forget(jvm)
    with pytest.raises(Exception, match="some"):
        jvm.sql(f"INSERT INTO {identifier} VALUES (-1, null, null, null, null, null)")
    jvm.sql(f"UPDATE {identifier} SET f = 'old' WHERE key = 1")
    assert differences(table.refresh().to_arrow(), jvm.sql(f"SELECT * FROM {identifier}").toArrow()) == ""
    assert {r["key"]: r["f"] for r in table.to_arrow().to_pylist()} == {1: "old", 2: None, 4: "new", 5000000000: None}


def test_delta_tracks_the_rows_of_a_table_that_lakescan_gave_ids(jvm: Any, warehouse: Path) -> None:
    identifier, location = written(jvm, warehouse, "alter row tracking", PLAIN)
    table = lakescan.table(location)
    table.alter().set_properties({"delta.enableRowTracking": True}).commit()
    forget(jvm)
    ids = f"SELECT id, _metadata.row_id AS row FROM {identifier} ORDER BY id"
    before = {r.id: r.row for r in jvm.sql(ids).collect()}
    assert sorted(before.values()) == [0, 1]
    checked(jvm, location)
    jvm.sql(f"INSERT INTO {identifier} SELECT 3, s, l, f, d, part FROM {identifier} WHERE id = 1")
    jvm.sql(f"OPTIMIZE {identifier}")
    after = {r.id: r.row for r in jvm.sql(ids).collect()}
    assert {key: after[key] for key in before} == before
    found = table.refresh().scan().select("id", "_row_id").to_arrow().to_pylist()
    assert {r["id"]: r["_row_id"] for r in found} == after
    table.alter().drop_feature("rowTracking").commit()
    checked(jvm, location)
    jvm.sql(f"INSERT INTO {identifier} VALUES (7, null, null, null, null, null)")
    assert differences(table.refresh().to_arrow(), jvm.sql(f"SELECT * FROM {identifier}").toArrow()) == ""


def last_commit(folder: Path) -> dict[str, Any]:
    """Return the newest commit and the resulting table, without names and times that differ each time."""
    text = (folder / "_delta_log" / f"{newest_version(folder):020d}.json").read_text()
    actions: dict[str, Any] = {}
    for line in text.splitlines():
        actions.update(json.loads(line))
    info = actions.pop("commitInfo")
    protocol, metadata, _ = state(folder)
    domain = actions.get("domainMetadata", {"configuration": "{}"})
    return {
        "operation": info["operation"],
        "parameters": parameters(info["operationParameters"]),
        "description": metadata.description,
        "partitioned by": metadata.partition_columns,
        "schema": json.loads(without_names(metadata.schema_string)),
        "properties": {n: without_names(v) for n, v in metadata.configuration.items() if "Enablement" not in n},
        "features": protocol.features,
        "domain": {**domain, "configuration": json.loads(domain["configuration"])},
    }


def parameters(given: dict[str, Any]) -> dict[str, Any]:
    """Parse the JSON texts among the parameters."""
    parsed: dict[str, Any] = {}
    for name, value in given.items():
        try:
            parsed[name] = json.loads(without_names(value)) if isinstance(value, str) else value
        except ValueError:
            parsed[name] = value
    return parsed


def without_names(text: str) -> str:
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "uuid", text)
