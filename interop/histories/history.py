"""One history: take steps, read both sides after each, and find differences."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

import lakescan
from interop.histories.canonical import difference
from interop.histories.sides import Sides
from interop.histories.steps import Step, Steps
from interop.histories.tables import creation, steps_of
from interop.histories.values import condition


class Difference(AssertionError):
    """Both sides read different rows, a statement leaves unexpected rows, or lakescan fails with an unnamed error."""


@dataclass
class Tally:
    """Counts of the steps and comparisons."""

    counts: Counter[str] = field(default_factory=Counter)
    refused: dict[str, list[str]] = field(default_factory=dict)

    def refusal(self, what: str, error: BaseException, text: str) -> None:
        """Record a refusal by name."""
        self.counts[f"refused: {what}"] += 1
        words = " ".join(str(error).split("\n")[:2])  # Py4J's first line only names a call
        self.refused.setdefault(f"{what}: {type(error).__name__}: {words[:160]}", []).append(text[:400])


@dataclass
class History:
    """A table and the steps taken so far, starting with its creation."""

    jvm: Any
    format: str
    seed: int
    folder: Path
    tally: Tally
    on_spark: bool = False  # whether lakescan also takes steps on Spark, whose workers take long to start

    def grown(self) -> list[Step]:
        """Take random steps and return them. A raised `Difference` has them as `steps`."""
        random = Random(f"{self.format} {self.seed}")
        steps = steps_of(self.format, random)
        steps.engines = ("here", "jvm", *(["spark"] if self.on_spark else []))
        taken = [creation(random, steps)]
        sides = Sides.of(self.jvm, self.format, self.folder, f"h{self.seed}")
        count = random.randint(6, 15)

        def following(number: int) -> Step | None:
            if number > count:
                return None
            schema = self.jvm.table(sides.name).schema
            made = steps.step(schema, len(sides.states())) if number > 1 else Step("jvm", *_first(steps, schema))
            taken.append(made)
            return made

        try:
            self._run(sides, taken[0], following, random)
        except Difference as error:
            error.steps = list(taken)  # type: ignore[attr-defined]
            raise
        return taken

    def replayed(self, steps: Sequence[Step], name: str) -> None:
        """Take these steps, skipping those that now fail."""
        sides = Sides.of(self.jvm, self.format, self.folder, name)
        self._run(sides, steps[0], lambda n: steps[n] if n < len(steps) else None, Random(f"{self.seed} again"))

    def _run(self, sides: Sides, first: Step, following: Callable[[int], Step | None], random: Random) -> None:
        if not self._taken(sides, first, []):
            return
        self.tally.counts["histories"] += 1
        number = 1
        while (step := following(number)) is not None:
            states = sides.states()
            before = self._rows(sides, step, states)
            changed = self._taken(sides, step, states)
            if changed:
                self.tally.counts["steps"] += 1
                self.tally.counts[f"steps of {step.engine}"] += 1
                self._expected(sides, step, before)
            self._compare(sides, random)
            number += 1
        self._compare_all(sides, random)

    # Steps

    def _rows(self, sides: Sides, step: Step, states: list[int]) -> pa.Table | None:
        """Return the rows that the step should leave, computed before it is taken."""
        if step.expected is None or step.engine == "jvm":
            return None
        try:
            return sides.query(sides.text(step.expected, states))
        except Exception as error:
            self.tally.refusal("expectation", error, step.expected)
            return None

    def _expected(self, sides: Sides, step: Step, expected: pa.Table | None) -> None:
        if expected is None:
            return
        found = sides.query(f"SELECT * FROM {sides.name}")
        if found.column_names != expected.column_names:
            self.tally.counts["statements not checked: they changed the columns"] += 1
            return
        if text := difference(found, expected, types=False):
            raise Difference(f"after {step.engine}: {step.text}\n  the rows are not the expected ones: {text}")
        self.tally.counts["statements checked"] += 1

    def _taken(self, sides: Sides, step: Step, states: list[int]) -> bool:
        """Return whether the step was taken; the JVM takes steps that lakescan refuses."""
        text = sides.text(step.text, states)
        if step.engine != "jvm":
            try:
                if step.engine == "spark":
                    sides.run_on_spark(text)
                else:
                    sides.run_here(text, sides.query(step.rows) if step.rows else None)
                return True
            except lakescan.LakescanError as error:
                self.tally.refusal(f"a step {step.engine}", error, step.text)
            except Exception as error:
                if _of_jvm(error):
                    self.tally.refusal("a step on Spark, by Spark", error, step.text)
                else:
                    raise Difference(f"{step.engine}: {text}\n{traceback.format_exc(limit=-6)}") from error
        try:
            sides.run_there(text)
        except Exception as error:
            self.tally.refusal("a step by the JVM", error, step.text)
            return False
        return True

    # Comparisons

    def _compare(self, sides: Sides, random: Random) -> None:
        schema = self.jvm.table(sides.name).schema
        conditions = [condition(random, schema) for _ in range(3)]
        ours, theirs = sides.rows(["", *conditions])
        for each in ["", *conditions]:
            self._same("filters" if each else "rows", each or "all rows", (partial(ours, each), partial(theirs, each)))
        states = sides.states()
        if len(states) > 1 and random.random() < 0.5:
            state = random.choice(states)
            self._same("states", f"the state {state}", sides.state(state))
        if len(states) > 1 and random.random() < 0.25:
            self._changes(sides, random, states)
        if random.random() < 0.5:
            self._same("metadata", name := random.choice(sides.metadata_tables), sides.metadata(name))

    def _compare_all(self, sides: Sides, random: Random) -> None:
        states = sides.states()
        for state in states:
            self._same("states", f"the state {state}", sides.state(state))
        for name in sides.metadata_tables:
            self._same("metadata", name, sides.metadata(name))
        if self._has_ids(sides):
            self._same("row ids", "row ids", sides.lineage())
        for _ in range(2):
            if len(states) > 1:
                self._changes(sides, random, states)

    def _changes(self, sides: Sides, random: Random, states: list[int]) -> None:
        if sides.format == "delta" and sides.table.properties.get("delta.enableChangeDataFeed") != "true":
            return
        start, end = sorted(random.sample(range(len(states)), 2))
        self._same("changes", f"changes {start} to {end}", sides.changes(states[start], states[end]))

    def _has_ids(self, sides: Sides) -> bool:
        if sides.format == "iceberg":
            return sides.table.format_version == "3"
        return sides.table.properties.get("delta.enableRowTracking") == "true"

    def _same(self, what: str, label: str, pair: tuple[Callable[[], pa.Table], Callable[[], pa.Table]]) -> None:
        ours, theirs = pair
        refusal: Exception | None = None
        try:
            found: pa.Table | None = ours()
        except (
            lakescan.UnsupportedFeature,
            lakescan.InvalidFilter,
            lakescan.NoSuchSnapshot,
            lakescan.InvalidOption,
        ) as error:
            self.tally.refusal(what, error, label)
            found, refusal = None, error
        except Exception:
            found = self._broken(what, label, theirs)
        try:
            expected = theirs()
        except Exception as error:
            self.tally.refusal(f"{what} by the JVM", error, label)
            return
        if isinstance(refusal, lakescan.NoSuchSnapshot) and what == "states":  # a state that it has listed itself
            raise Difference(f"{what}: {label}: only the JVM has it: {refusal}")
        if found is None:
            return
        if text := difference(found, expected, types=what in ("rows", "states")):
            raise Difference(f"{what}: {label}: {text}")
        self.tally.counts[what] += 1

    def _broken(self, what: str, label: str, theirs: Callable[[], pa.Table]) -> None:
        words = traceback.format_exc(limit=-6)
        try:
            theirs()
        except Exception as error:
            self.tally.refusal(f"{what} by both", error, label)
            return
        raise Difference(f"{what}: {label}: only the JVM reads it:\n{words}")


def _first(steps: Steps, schema: Any) -> tuple[str, str | None, str | None]:
    made = steps.append(schema)
    return made.text, made.expected, None


def _of_jvm(error: Exception) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))
