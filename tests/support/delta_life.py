"""Random lives of a Delta table, checked against a model: features, columns, rows and restored versions change.

The model is a list of rows. Columns hold numbers: `id`, and others with new names. One of them may be the partition
column.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
from lakescan.delta.log.segment import list_log
from lakescan.storage import Storage
from tests.support.delta_state import newest_version, state

WIDE = 2**40
FEATURES = ("deletionVectors", "columnMapping", "typeWidening", "v2Checkpoint", "vacuumProtocolCheck", "rowTracking")
WIDER = {"INT": "BIGINT", "SMALLINT": "INT", "FLOAT": "DOUBLE", "DATE": "TIMESTAMP_NTZ"}
ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "SMALLINT": pa.int16(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "STRING": pa.string(),
}


@dataclass
class Model:
    """The expected table: its columns and their types, and its rows."""

    columns: dict[str, str]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def value(self, kind: str, number: int) -> Any:
        if kind in ("FLOAT", "DOUBLE"):
            return number + 0.5
        if kind == "STRING":
            return f"s{number}"
        if kind == "DATE":
            return datetime(2026, 1, 1, tzinfo=UTC).date() + timedelta(days=number)
        if kind == "TIMESTAMP_NTZ":
            return datetime(2026, 1, 1) + timedelta(hours=number)
        return number


class Life:
    """One table, and the model of each of its versions."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random, self.names, self.number = folder, random.Random(seed), 0, 0
        self.log: list[str] = []
        self.model = Model({"id": "INT", "f": "FLOAT", "d": "DATE", "s": "STRING", "p": "INT"})
        self.partition = self.random.choice([None, "p"])
        self.models: dict[int, Model] = {}
        properties = {"delta.checkpointInterval": str(self.random.choice([2, 3, 10]))}
        if self.random.random() < 0.5:
            properties["delta.columnMapping.mode"] = "name"
        schema = pa.schema([(name, ARROW[kind]) for name, kind in self.model.columns.items()])
        by = [self.partition] if self.partition else []
        lakescan.save(schema.empty_table(), folder, format="delta", partition_by=by, properties=properties)
        self.recorded()

    @property
    def table(self) -> lakescan.Table:
        return lakescan.table(self.folder)

    def features(self) -> frozenset[str]:
        found: frozenset[str] = state(self.folder)[0].features
        return found

    def is_mapped(self) -> bool:
        return str(self.table.properties.get("delta.columnMapping.mode", "none")) != "none"

    def recorded(self) -> None:
        self.models[newest_version(self.folder)] = deepcopy(self.model)

    def step(self) -> None:
        """Make a random change, if it is possible, and check the rows."""
        act: Callable[[], object] = self.random.choice(self.actions)
        before = newest_version(self.folder)
        self.log.append(act.__name__)
        act()
        for version in range(before + 1, newest_version(self.folder) + 1):
            self.models.setdefault(version, None)  # type: ignore[arg-type]
        self.recorded()
        self.check(self.table.to_arrow(), self.model)
        version = self.random.choice(self.known())
        self.check(self.table.scan().as_of(version=version).to_arrow(), self.models[version])

    def known(self) -> list[int]:
        """Return the versions in the log whose rows are known."""
        first = list_log(str(self.folder), Storage()).checkpoints[:1]
        commits = {int(file.name[:20]) for file in (self.folder / "_delta_log").glob("*.json")}
        oldest = 0 if 0 in commits else first[0].version
        return [version for version, model in self.models.items() if model is not None and version >= oldest]

    def check(self, found: pa.Table, model: Model) -> None:
        assert found.schema.names == list(model.columns), self.log
        assert {n: found.schema.field(n).type for n in found.schema.names} == {
            name: ARROW[kind] for name, kind in model.columns.items()
        }, self.log
        assert sorted(map(repr, found.to_pylist())) == sorted(
            repr({name: _as(kind, row[name]) for name, kind in model.columns.items()}) for row in model.rows
        ), self.log

    @property
    def actions(self) -> list[Callable[[], object]]:
        return [
            *[self.append] * 4,
            *[self.delete] * 3,
            self.update,
            self.merge,
            self.overwrite,
            self.add_column,
            self.drop_column,
            self.rename_column,
            self.widen,
            self.widen,
            *[self.switch_on] * 3,
            *[self.drop_feature] * 3,
            self.restore,
            self.compact,
            self.purge,
            self.checkpoint,
            self.vacuum,
            self.cluster,
            self.constrain,
            self.clone,
        ]

    # Rows

    def new_rows(self, count: int) -> list[dict[str, Any]]:
        made = []
        for _ in range(count):
            self.number += 1
            row = {name: self.model.value(kind, self.number) for name, kind in self.model.columns.items()}
            row[self.partitioned()] = self.random.choice([1, 2, None]) if self.partition else row[self.partitioned()]
            for name in row:
                if name != self.key and name != self.partitioned() and self.random.random() < 0.2:
                    row[name] = None
            made.append(row)
        return made

    @property
    def key(self) -> str:
        return next(iter(self.model.columns)) if "id" not in self.model.columns else "id"

    def partitioned(self) -> str:
        found = self.table.partitioning
        return str(found) if self.partition and found else self.key

    def as_table(self, rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, pa.schema([(n, ARROW[kind]) for n, kind in self.model.columns.items()]))

    def append(self) -> None:
        new = self.new_rows(self.random.randint(1, 4))
        self.table.append(self.as_table(new))
        self.model.rows += new

    def chosen(self) -> int:
        return self.random.randint(1, max(1, self.number))

    def delete(self) -> None:
        number = self.chosen()
        if self.random.random() < 0.3 and self.partition:
            name = self.partitioned()
            self.table.delete(f"`{name}` = 1")
            self.model.rows = [row for row in self.model.rows if row[name] != 1]
            return
        self.table.delete(f"id = {number} OR id = {number + 1}")
        self.model.rows = [row for row in self.model.rows if row["id"] not in (number, number + 1)]

    def update(self) -> None:
        number = self.chosen()
        name = self.random.choice(
            [n for n, kind in self.model.columns.items() if n != "id" and kind != "STRING"] or ["id"]
        )
        self.table.update({f"`{name}`": "NULL"} if name != "id" else {"id": "id"}, where=f"id <= {number}")
        for row in self.model.rows:
            if name != "id" and row["id"] <= number:
                row[name] = None

    def merge(self) -> None:
        new = self.new_rows(2)
        if self.model.rows:
            new[0]["id"] = self.random.choice(self.model.rows)["id"]
        self.table.upsert(self.as_table(new), "id")
        keys = {row["id"] for row in new}
        self.model.rows = [row for row in self.model.rows if row["id"] not in keys] + new

    def overwrite(self) -> None:
        new, number = self.new_rows(1), self.chosen()
        new[0]["id"] = number
        self.table.overwrite(self.as_table(new), where=f"id = {number}")
        self.model.rows = [row for row in self.model.rows if row["id"] != number] + new

    # Columns

    def other(self) -> str | None:
        names = [n for n in self.model.columns if n not in ("id", self.partitioned())]
        return self.random.choice(names) if names else None

    def new_name(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def add_column(self) -> None:
        kind, name = self.random.choice(["INT", "SMALLINT", "FLOAT", "DATE", "STRING"]), self.new_name()
        self.table.alter().add_column(name, kind).commit()
        self.model.columns[name] = kind
        for row in self.model.rows:
            row[name] = None

    def drop_column(self) -> None:
        name = self.other()
        if name is None or not self.is_mapped() or len(self.model.columns) < 4 or self.is_clustered_by(name):
            return
        self.table.alter().drop_column(name).commit()
        del self.model.columns[name]
        for row in self.model.rows:
            del row[name]

    def rename_column(self) -> None:
        name = self.random.choice([self.partitioned(), self.other()])
        if name in (None, "id") or not self.is_mapped():
            return
        # Sometimes the name of an earlier column is reused.
        new = self.random.choice(["f", "d", "s", "p", self.new_name()])
        if new in self.model.columns:
            return
        self.table.alter().rename_column(name, new).commit()
        self.model.columns = {new if n == name else n: kind for n, kind in self.model.columns.items()}
        self.model.rows = [{new if n == name else n: v for n, v in row.items()} for row in self.model.rows]

    def widen(self) -> None:
        checked = "delta.constraints.c" in self.table.properties  # a condition depends on a type
        names = [n for n, kind in self.model.columns.items() if kind in WIDER and not (checked and n == "id")]
        if not names:
            return
        name = self.random.choice(names)
        if self.table.properties.get("delta.enableTypeWidening") != "true":
            self.table.alter().set_properties({"delta.enableTypeWidening": True}).commit()
        new = WIDER[self.model.columns[name]]
        self.table.alter().change_column(name, type=new).commit()
        self.model.columns[name] = new

    # Features

    def switch_on(self) -> None:
        properties = {
            "deletionVectors": {"delta.enableDeletionVectors": "true"},
            "columnMapping": {"delta.columnMapping.mode": "name"},
            "typeWidening": {"delta.enableTypeWidening": "true"},
            "v2Checkpoint": {"delta.checkpointPolicy": "v2"},
            "vacuumProtocolCheck": {"delta.feature.vacuumProtocolCheck": "supported"},
            "rowTracking": {"delta.enableRowTracking": "true"},
            "changes": {"delta.enableChangeDataFeed": "true"},
            "times": {"delta.enableInCommitTimestamps": "true"},
        }
        self.table.alter().set_properties(properties[self.random.choice(list(properties))]).commit()

    def drop_feature(self) -> None:
        name = self.random.choice([*FEATURES, "inCommitTimestamp"])
        if name not in self.features():
            return
        self.log.append(name)
        truncates = self.random.random() < 0.2 and name not in ("rowTracking", "inCommitTimestamp")
        try:
            self.table.alter().drop_feature(name, truncate_history=truncates).commit()
        except lakescan.FeatureInUse:
            assert truncates, self.log

    # Versions and files

    def restore(self) -> None:
        version = self.random.choice(self.known())
        if version == newest_version(self.folder):
            return
        self.log.append(str(version))
        self.table.restore(version)
        self.model = deepcopy(self.models[version])

    def compact(self) -> None:
        self.table.compact(rewrite_all=self.random.random() < 0.5, min_input_files=2)

    def purge(self) -> None:
        self.table.compact(purge=True)

    def checkpoint(self) -> None:
        self.table.checkpoint()

    def vacuum(self) -> None:
        """Run VACUUM ten days later: then only the newest version is sure to have its files."""
        then = time.time() - 10 * 86400
        for file in self.folder.rglob("*"):
            if file.is_file():
                os.utime(file, (min(file.stat().st_mtime - 10 * 86400, then),) * 2)
        self.table.remove_orphans(lite=self.random.random() < 0.5)
        self.models = {}

    def cluster(self) -> None:
        if not self.partition:
            self.table.alter().cluster_by(*self.random.choice([["id"], ["id", "s"], []])).commit() if (
                "s" in self.model.columns
            ) else None

    def is_clustered_by(self, name: str) -> bool:
        if self.partition:
            return False
        columns = self.table.inspect("detail")["clusteringColumns"][0].as_py() or []
        return name in [each.strip("`") for each in columns]

    def constrain(self) -> None:
        names = self.table.properties
        if "delta.constraints.c" in names:
            self.table.alter().drop_constraint("c").commit()
        else:
            self.table.alter().add_constraint("c", "id > 0").commit()

    def clone(self) -> None:
        """Continue with a clone, which has a history of its own."""
        target = self.folder.with_name(f"{self.folder.name}c")
        if target.exists():
            return
        self.table.clone(target)
        self.folder, self.models = target, {}


def _as(kind: str, value: Any) -> Any:
    """Convert a value of the model to its current type."""
    if value is None:
        return None
    if kind == "TIMESTAMP_NTZ" and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value
