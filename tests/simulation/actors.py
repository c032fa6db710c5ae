"""What actors do: each kind of step as calls of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.simulation.model import BANK, Record
from tests.simulation.plan import Step

if TYPE_CHECKING:
    from tests.simulation.run import Run

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("amount", pa.int64())])
_LAST_OF_BANK = BANK[-1]


def rows_of(values: Any) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "part": p, "amount": a} for i, p, a in values], COLUMNS)


def _ids(values: Any) -> str:
    return ", ".join(map(str, values))


def append(run: Run, step: Step, record: Record) -> None:
    run.table().append(rows_of(step.values))


def overwrite(run: Run, step: Step, record: Record) -> None:
    run.table().overwrite(rows_of(step.values), where=f"id > {_LAST_OF_BANK}")


def overwrite_part(run: Run, step: Step, record: Record) -> None:
    run.table().overwrite(rows_of(step.values[1:]), where=f"part = '{step.values[0]}'")


def delete(run: Run, step: Step, record: Record) -> None:
    run.table().delete(f"id IN ({_ids(step.values)})")


def delete_part(run: Run, step: Step, record: Record) -> None:
    run.table().delete(f"part = '{step.values[0]}'")


def update(run: Run, step: Step, record: Record) -> None:
    run.table().update({"amount": f"amount + {step.values[0]}"}, f"id IN ({_ids(step.values[1:])})")


def transfer(run: Run, step: Step, record: Record) -> None:
    giver, taker, amount = step.values
    moved = f"CASE WHEN id = {giver} THEN amount - {amount} ELSE amount + {amount} END"
    run.table().update({"amount": moved}, f"id IN ({giver}, {taker})")


def upsert(run: Run, step: Step, record: Record) -> None:
    run.table().upsert(rows_of(step.values), "id")


def compact(run: Run, step: Step, record: Record) -> None:
    run.table().compact()


def read(run: Run, step: Step, record: Record) -> None:
    run.model.check_read(run.rows(), record.began)


ACTIONS: dict[str, Callable[[Run, Step, Record], None]] = {
    "append": append,
    "overwrite": overwrite,
    "overwrite part": overwrite_part,
    "delete": delete,
    "delete part": delete_part,
    "update": update,
    "transfer": transfer,
    "upsert": upsert,
    "compact": compact,
    "read": read,
}
