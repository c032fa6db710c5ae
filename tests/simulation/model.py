"""The model of a table: the rows after each commit, and the allowed effects of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.simulation.plan import Step
from tests.simulation.world import Broken

State = dict[int, tuple[str | None, int]]  # id: part, amount
BLIND = ("append", "stream", "create", "transaction")  # commits that read nothing
NAMED = ("make", "make if missing", "replace", "drop", "purge", "rename")  # which tables are there, by name
STREAMS = ("stream", "merging stream")
SAME = {  # steps that do not change the rows of the main branch
    *("branch", "checkpoint", "column", "compact", "convert", "deletes", "expire"),
    *("field", "follow", "manifests", "orphans", "property", "read", "trail"),
}
NEVER: State = {0: ("never", 0)}  # a state that no table has: the step should have been refused
BANK = range(1, 5)  # ids of rows that only transfers change
MONEY = 400  # their total amount


@dataclass
class Version:
    """The rows after a commit, and the step that made it. `state` is None if the name has no table."""

    state: State | None
    step: Step | None


@dataclass
class Record:
    """The outcome of a step."""

    step: Step
    began: int  # the newest version when it began
    commits: list[int] = field(default_factory=list)
    outcome: str = "killed"  # made, refused, unknown, killed


class Model:
    """All versions of a table name, in order. The name may have had several tables in turn."""

    def __init__(
        self, first: Sequence[State | None], *, name: str = "t", is_serializable: bool = True, has_bank: bool = True
    ) -> None:
        self.name = name
        self.versions = [Version(each, None) for each in first]
        self.records: dict[int, Record] = {}
        self._is_serializable, self._has_bank = is_serializable, has_bank
        self._batches: set[int] = set()  # committed batches of streams

    @property
    def newest(self) -> int:
        return len(self.versions) - 1

    def begin(self, step: Step) -> Record:
        made = self.records.setdefault(step.number, Record(step, self.newest))
        made.outcome = "killed"
        return made

    def was_there(self, since: int) -> bool:
        """Return whether the name had a table in that version or a later one."""
        return any(each.state is not None for each in self.versions[since:])

    def was_missing(self, since: int) -> bool:
        """Return whether the name lacked a table in that version or a later one."""
        return any(each.state is None for each in self.versions[since:])

    def commit(self, step: Step, found: list[tuple[int, str | None, int]]) -> None:
        """Record that a commit of a step made these rows; raise `Broken` if it must not."""
        state = state_of(found, has_bank=self._has_bank)
        expected = [applied(step, self.versions[-1].state, self.name)]
        if not self._is_serializable and step.kind not in BLIND:
            expected += self._weaker(step, self.records[step.number].began)
        self.change(step, state, expected)

    def change(self, step: Step, state: State | None, expected: Sequence[State | None]) -> None:
        """Record that a step made this version, one of the expected ones; raise `Broken` otherwise."""
        record = self.records[step.number]
        if record.outcome in ("made", "refused"):
            raise Broken(f"{step} had ended ({record.outcome}), and was committed afterwards")
        most = 1 if step.kind not in SAME else 99
        if len(record.commits) >= most:
            raise Broken(f"{step} was committed twice")
        if step.kind in STREAMS:
            if step.values[0] <= max(self._batches, default=0):
                raise Broken(f"the stream's batch {step.values[0]} was committed after it, or a later one, was")
            self._batches.add(step.values[0])
        if state not in expected:
            raise Broken(f"{step} made other rows than it should have: {difference(state, expected[0])}")
        record.commits.append(len(self.versions))
        self.versions.append(Version(state, step))

    def _weaker(self, step: Step, began: int) -> list[State | None]:
        """Return the allowed results of a statement that read an earlier version, with rows only appended since."""
        found: list[State | None] = []
        for base in range(began, self.newest):
            since = self.versions[base + 1 :]
            if all(each.step is not None and each.step.kind in (*BLIND, *SAME) for each in since):
                then = self.versions[base].state or {}
                kept = {k: v for k, v in (self.versions[-1].state or {}).items() if k not in then}
                found.append({**kept, **(applied(step, then, self.name) or {})})
        return found

    def end(self, record: Record, outcome: str) -> None:
        """Record that a step returned or raised; raise `Broken` if the table contradicts that."""
        record.outcome = outcome
        step = record.step
        if outcome == "refused" and record.commits and step.kind not in SAME:
            raise Broken(f"{step} raised a definite error, but is committed")
        if outcome == "made" and not record.commits and step.kind not in SAME:
            seen = [each.state for each in self.versions[record.began :]]
            if step.kind in STREAMS and step.values[0] <= max(self._batches, default=0):
                return
            if all(applied(step, each, self.name) != each for each in seen):
                raise Broken(f"{step} returned, but is not committed")

    def check_read(self, found: list[tuple[int, str | None, int]], began: int) -> None:
        """Check that a reader that began at a version saw that version or a later one as a whole."""
        state = state_of(found, has_bank=self._has_bank)
        seen = [each.state for each in self.versions[began:]]
        if state not in seen:
            raise Broken(f"a reader saw rows that no version has: {difference(state, seen[-1])}")


def state_of(rows: list[tuple[int, str | None, int]], *, has_bank: bool = True) -> State:
    """Return the rows by id; raise `Broken` if an id occurs twice or the total amount changed."""
    state = {each[0]: (each[1], each[2]) for each in rows}
    if len(state) != len(rows):
        doubled = sorted({each[0] for each in rows if sum(other[0] == each[0] for other in rows) > 1})
        raise Broken(f"rows are there twice: ids {doubled}")
    if has_bank and sum(state[each][1] for each in BANK if each in state) != MONEY:
        raise Broken(f"transfers made or lost money: {[state.get(each) for each in BANK]}")
    return state


def applied(step: Step, state: State | None, table: str = "t") -> State | None:
    """Return the rows of a table after the step ran alone."""
    if step.kind in NAMED or state is None:
        return _named(step, state, table)
    values = step.values
    match step.kind:
        case "move":
            return (
                {**state, **_rows(values[1:])} if table == "u" else {k: v for k, v in state.items() if k != values[0]}
            )
        case "append" | "transaction":
            return {**state, **_rows(values)}
        case "stream" | "merging stream" | "create":
            return {**state, **_rows(values[1:])}
        case "overwrite":
            bank = {k: v for k, v in state.items() if k in BANK}
            return {**bank, **_rows(values)}
        case "overwrite part":
            kept = {k: v for k, v in state.items() if v[0] != values[0]}
            return {**kept, **_rows(values[1:])}
        case "delete":
            return {k: v for k, v in state.items() if k not in values}
        case "delete part":
            return {k: v for k, v in state.items() if v[0] != values[0]}
        case "update":
            return {k: (v[0], v[1] + values[0]) if k in values[1:] else v for k, v in state.items()}
        case "transfer":
            giver, taker, amount = values
            moved = {giver: -amount, taker: amount}
            return {k: (v[0], v[1] + moved.get(k, 0)) for k, v in state.items()}
        case "upsert" | "equality":
            return {**state, **_rows(values)}
    assert step.kind in SAME, step.kind
    return state


def _named(step: Step, state: State | None, table: str) -> State | None:
    """Return the state of a name after a step that creates, drops or does not find its table."""
    match step.kind:
        case "make":
            return {} if state is None else NEVER
        case "make if missing":
            return {} if state is None else state
        case "replace":
            return {}
        case "drop" | "purge":
            return None
        case "rename":  # the run knows the new name's content
            return None if table == f"n{step.values[0]}" and state is not None else NEVER
        case "create":
            return _rows(step.values[1:])
    return state if step.kind in SAME else NEVER


def _rows(values: tuple[tuple[int, str | None, int], ...]) -> State:
    return {each[0]: (each[1], each[2]) for each in values}


def difference(found: State | None, expected: State | None) -> str:
    """Describe the difference in words."""
    if found is None or expected is None or expected == NEVER:
        return f"{found}, not {'a refusal' if expected == NEVER else expected}"
    lost = sorted(expected.keys() - found.keys())
    more = sorted(found.keys() - expected.keys())
    other = [
        f"{k}: {found[k]}, not {expected[k]}" for k in sorted(found.keys() & expected.keys()) if found[k] != expected[k]
    ]
    parts = [f"lost {lost}"] * bool(lost) + [f"too many {more}"] * bool(more) + other
    return "; ".join(parts) or "nothing differs"
