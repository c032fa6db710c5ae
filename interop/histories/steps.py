"""Random steps: each statement, and, where it is known, a query of the rows that it should leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from pyspark.sql import types as s

from interop.histories.values import NAMES, PLAIN, condition, ddl, kind, literal, quoted, rows, wider

SAME = "SELECT * FROM {t}"


@dataclass(frozen=True)
class Step:
    """A statement: `{t}` is the table, `{call}` its name for procedures, `{state:3}` a state by its place in history."""

    engine: str  # the engine: here, spark (lakescan on Spark), or jvm
    text: str
    expected: str | None = None  # a query over the table before
    rows: str | None = None  # a query of new rows, if the step is `append(rows)` of the API


Make = Callable[[s.StructType], Step]


@dataclass
class Steps(ABC):
    """Makes steps that fit the table's current columns and number of states."""

    random: Random
    mapped: bool = True  # whether columns may be dropped and renamed, and have odd names
    number: int = 0  # the highest id
    states: int = 0
    engines: tuple[str, ...] = ("here", "jvm")

    @property
    @abstractmethod
    def leaves(self) -> list[s.DataType]:
        """Return the types that columns may have."""

    @abstractmethod
    def own(self) -> list[Make]:
        """Return the steps that only this format has."""

    def new_ids(self, count: int) -> list[int]:
        """Return ids that no row has had."""
        self.number += count
        return list(range(self.number - count + 1, self.number + 1))

    def new_rows(self, schema: s.StructType) -> str:
        """Return a query of a few rows."""
        return rows(self.random, schema, self.new_ids(self.random.randint(1, 6)))

    def step(self, schema: s.StructType, states: int) -> Step:
        """Return the next step."""
        engine = self.random.choice(self.engines)
        shared = [
            *[self.append] * 5,
            self.doubled,
            *[self.delete] * 4,
            *[self.update] * 3,
            *[self.merge] * 3,
            self.overwrite,
            *[self.replaced] * 2,
            self.add,
            self.add,
            self.drop,
            self.rename,
            self.move,
            self.widen,
        ]
        make = self.random.choice([*shared, *self.own()])
        self.states = states
        found = make(schema)
        return Step(engine, found.text, found.expected, found.rows)

    # Rows

    def append(self, schema: s.StructType) -> Step:
        """Append new rows, as a statement or as Arrow data."""
        new = self.new_rows(schema)
        by_api = new if self.random.random() < 0.5 else None
        return Step("", f"INSERT INTO {{t}} {new}", f"{SAME} UNION ALL {new}", by_api)

    def doubled(self, schema: s.StructType) -> Step:
        """Insert the rows again under other ids."""
        self.number += 1000
        names = [
            f"CAST(`id` + {self.number} AS {ddl(f.dataType)})" if f.name == "id" else quoted(f.name) for f in schema
        ]
        query = f"SELECT {', '.join(names)} FROM {{t}} WHERE `id` < 100"
        return Step("", f"INSERT INTO {{t}} {query}", f"{SAME} UNION ALL {query}")

    def where(self, schema: s.StructType) -> str:
        """Return a condition that some rows satisfy."""
        return condition(self.random, schema)

    def delete(self, schema: s.StructType) -> Step:
        """Return a DELETE."""
        where = self.where(schema)
        return Step("", f"DELETE FROM {{t}} WHERE {where}", f"{SAME} WHERE NOT coalesce({where}, false)")

    def update(self, schema: s.StructType) -> Step:
        """Return an UPDATE of one or two columns."""
        where = self.where(schema)
        others = [f for f in schema.fields if f.name != "id"]
        if not others:
            return self.delete(schema)
        chosen = {f.name: literal(self.random, f.dataType) for f in self.random.sample(others, min(len(others), 2))}
        sets = ", ".join(f"{quoted(name)} = {value}" for name, value in chosen.items())
        shown = ", ".join(
            f"CASE WHEN {where} THEN {chosen[f.name]} ELSE {quoted(f.name)} END AS {quoted(f.name)}"
            if f.name in chosen
            else quoted(f.name)
            for f in schema.fields
        )
        return Step("", f"UPDATE {{t}} SET {sets} WHERE {where}", f"SELECT {shown} FROM {{t}}")

    def merge(self, schema: s.StructType) -> Step:
        """Return a MERGE by id, with existing and new rows."""
        old = self.random.sample(range(1, max(self.number, 3) + 1), 2) if self.number < 1000 else [1, 2]
        source = rows(self.random, schema, [*sorted(old), *self.new_ids(1)])
        matched = self.random.choice(["UPDATE SET *", "DELETE", ""])
        inserts = not matched or self.random.random() < 0.7
        gone = condition(self.random, schema, 0, "t.") if self.random.random() < 0.3 else None
        text = f"MERGE INTO {{t}} t USING ({source}) s ON t.`id` = s.`id`"
        text += f" WHEN MATCHED THEN {matched}" if matched else ""
        text += " WHEN NOT MATCHED THEN INSERT *" if inserts else ""
        text += f" WHEN NOT MATCHED BY SOURCE AND {gone} THEN DELETE" if gone else ""
        kept = f"SELECT t.* FROM {{t}} t LEFT ANTI JOIN ({source}) s ON t.`id` = s.`id`"
        kept += f" WHERE NOT coalesce({gone}, false)" if gone else ""
        hit = {"UPDATE SET *": "s.*", "": "t.*"}.get(matched)
        expected = kept
        if hit:
            expected += f" UNION ALL SELECT {hit} FROM {{t}} t JOIN ({source}) s ON t.`id` = s.`id`"
        if inserts:
            expected += f" UNION ALL SELECT s.* FROM ({source}) s LEFT ANTI JOIN {{t}} t ON t.`id` = s.`id`"
        return Step("", text, expected)

    def overwrite(self, schema: s.StructType) -> Step:
        """Replace all rows."""
        new = self.new_rows(schema)
        return Step("", f"INSERT OVERWRITE {{t}} {new}", new)

    def replaced(self, schema: s.StructType) -> Step:
        """Replace rows by a condition that the new rows satisfy."""
        new = self.new_ids(2)
        where = f"`id` IN ({', '.join(map(str, [self.random.randint(1, self.number), *new]))})"
        query = rows(self.random, schema, new)
        expected = f"{SAME} WHERE NOT coalesce({where}, false) UNION ALL {query}"
        return Step("", f"INSERT INTO {{t}} REPLACE WHERE {where} {query}", expected)

    # Columns

    def alter(self, text: str) -> Step:
        """Return an ALTER TABLE."""
        return Step("", f"ALTER TABLE {{t}} {text}")

    def new_name(self, schema: s.StructType) -> str | None:
        """Return an unused column name."""
        taken = {f.name.lower() for f in schema.fields}
        left = [n for n in (NAMES if self.mapped else PLAIN) if n.lower() not in taken]
        return self.random.choice(left) if left else None

    def other(self, schema: s.StructType) -> str | None:
        """Return a column other than the id."""
        names = [f.name for f in schema.fields if f.name != "id"]
        return self.random.choice(names) if names else None

    def add(self, schema: s.StructType) -> Step:
        """Add a column, or a member of a struct."""
        structs = [f.name for f in schema.fields if isinstance(f.dataType, s.StructType)]
        of = ddl(kind(self.random, self.leaves))
        if structs and self.random.random() < 0.4:
            self.number += 1
            return self.alter(f"ADD COLUMN {quoted(self.random.choice(structs), f'm{self.number}')} {of}")
        name = self.new_name(schema)
        if name is None:
            return self.append(schema)
        place = self.random.choice(["", "", " FIRST", f" AFTER {quoted(self.random.choice(schema.names))}"])
        return self.alter(f"ADD COLUMN {quoted(name)} {of}{place}")

    def drop(self, schema: s.StructType) -> Step:
        """Drop a column."""
        name = self.other(schema)
        return self.alter(f"DROP COLUMN {quoted(name)}") if name and len(schema.fields) > 3 else self.append(schema)

    def rename(self, schema: s.StructType) -> Step:
        """Rename a column."""
        name, new = self.other(schema), self.new_name(schema)
        return self.alter(f"RENAME COLUMN {quoted(name)} TO {quoted(new)}") if name and new else self.append(schema)

    def move(self, schema: s.StructType) -> Step:
        """Move a column."""
        name = self.other(schema)
        return self.alter(f"ALTER COLUMN {quoted(name)} FIRST") if name else self.append(schema)

    def widen(self, schema: s.StructType) -> Step:
        """Widen the type of a column or member."""
        found: list[tuple[str, s.DataType]] = [(quoted(f.name), f.dataType) for f in schema.fields]
        for f in schema.fields:
            if isinstance(f.dataType, s.StructType):
                found += [(quoted(f.name, m.name), m.dataType) for m in f.dataType.fields]
        some = [(name, new) for name, of in found if (new := wider(self.random, of))]
        if not some:
            return self.append(schema)
        name, new = self.random.choice(some)
        return self.alter(f"ALTER COLUMN {name} TYPE {ddl(new)}")
