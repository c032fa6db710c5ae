"""The actors' steps, each as calls of the library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import lakescan
from tests.simulation.catalog import NAME
from tests.simulation.model import BANK, Record
from tests.simulation.plan import Step
from tests.simulation.world import Broken

if TYPE_CHECKING:
    from tests.simulation.run import Run

COLUMNS = pa.schema([("id", pa.int64()), ("part", pa.string()), ("amount", pa.int64())])
_LAST_OF_BANK = BANK[-1]


def rows_of(values: Any) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "part": p, "amount": a} for i, p, a in values], COLUMNS)


def _ids(values: Any) -> str:
    return ", ".join(map(str, values))


def append(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).append(rows_of(step.values))


def overwrite(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).overwrite(rows_of(step.values), where=f"id > {_LAST_OF_BANK}")


def overwrite_part(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).overwrite(rows_of(step.values[1:]), where=f"part = '{step.values[0]}'")


def delete(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).delete(f"id IN ({_ids(step.values)})")


def delete_part(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).delete(f"part = '{step.values[0]}'")


def update(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).update({"amount": f"amount + {step.values[0]}"}, f"id IN ({_ids(step.values[1:])})")


def transfer(run: Run, step: Step, record: Record) -> None:
    giver, taker, amount = step.values
    moved = f"CASE WHEN id = {giver} THEN amount - {amount} ELSE amount + {amount} END"
    run.table(step.table).update({"amount": moved}, f"id IN ({giver}, {taker})")


def upsert(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).upsert(rows_of(step.values), "id")


def compact(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).compact(rewrite_all=step.values[0])


def read(run: Run, step: Step, record: Record) -> None:
    run.model_of(step.table).check_read(run.rows(run.table(step.table)), record.began)


def equality(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).upsert(rows_of(step.values), "id", upsert_mode="equality")


def stream(run: Run, step: Step, record: Record) -> None:
    """Write a batch of a stream, which a zombie of the same query may write, too."""
    run.table(step.table).append(rows_of(step.values[1:]), txnAppId="query", txnVersion=step.values[0])


def merging_stream(run: Run, step: Step, record: Record) -> None:
    """Merge the rows of a batch of the same stream."""
    run.table(step.table).upsert(rows_of(step.values[1:]), "id", txnAppId="query", txnVersion=step.values[0])


def create(run: Run, step: Step, record: Record) -> None:
    """Append rows to a table that may not exist yet."""
    properties = {} if run.plan.format == "delta" else {"format-version": run.plan.format.rpartition(" ")[2]}
    lakescan.save(
        rows_of(step.values[1:]),
        run.name_of(f"n{step.values[0]}"),
        mode="append",
        format=run.plan.format.partition(" ")[0],
        properties=properties,
    )


def transaction(run: Run, step: Step, record: Record) -> None:
    """Append the same rows to two tables in one commit."""
    with lakescan.catalog(NAME).transaction() as made:
        for each in ("t", "u"):
            made.load_table(f"db.{each}").append(rows_of(step.values))


def move(run: Run, step: Step, record: Record) -> None:
    """Remove a row from one table and add others to another, in one commit."""
    with lakescan.catalog(NAME).transaction() as made:
        made.load_table("db.t").delete(f"id = {step.values[0]}")
        made.load_table("db.u").append(rows_of(step.values[1:]))


def make(run: Run, step: Step, record: Record) -> None:
    """Create an empty table, which must not exist yet."""
    _made(run, step, exist_ok=False)


def make_if_missing(run: Run, step: Step, record: Record) -> None:
    _made(run, step, exist_ok=True)


def _made(run: Run, step: Step, **how: bool) -> None:
    if run.plan.format == "delta":  # by its folder, as Delta tables are opened here
        unless = "IF NOT EXISTS " if how["exist_ok"] else ""
        columns = "(id BIGINT, part STRING, amount BIGINT)"
        lakescan.sql(f"CREATE TABLE {unless}delta.`{run.name_of(f'n{step.values[0]}')}` {columns}")
        return
    properties = {"format-version": run.plan.format.rpartition(" ")[2]}
    lakescan.catalog(NAME).create_table(f"db.n{step.values[0]}", COLUMNS, properties=properties, **how)


def replace(run: Run, step: Step, record: Record) -> None:
    """Create an empty table, replacing any existing one."""
    _made(run, step, replace=True)


def drop(run: Run, step: Step, record: Record) -> None:
    lakescan.catalog(NAME).drop_table(f"db.n{step.values[0]}", missing_ok=True, purge=step.values[1])


def purge(run: Run, step: Step, record: Record) -> None:
    """Drop and purge a table that shares the location of another one."""
    run.has_expired = True
    catalog, _, name = run.name_of(step.table).partition(".")
    lakescan.catalog(catalog).drop_table(name, missing_ok=True, purge=True)


def rename(run: Run, step: Step, record: Record) -> None:
    lakescan.catalog(NAME).rename_table(f"db.n{step.values[0]}", f"db.n{step.values[1]}")


def trail(run: Run, step: Step, record: Record) -> None:
    """Follow a table name whose table may be dropped and recreated."""
    run.trail(f"n{step.values[0]}", record.began)


def checkpoint(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).checkpoint()


def expire(run: Run, step: Step, record: Record) -> None:
    run.has_expired = True
    moment = datetime.fromtimestamp(run.world.now / 1000, UTC)
    run.table(step.table).expire_snapshots(moment, retain_last=step.values[0])


def orphans(run: Run, step: Step, record: Record) -> None:
    """Remove old orphans; let days pass first if no other actor is within a step."""
    busy = [each for each in run.world.actors if each.is_busy and each is not run.world.current]
    if not busy and not run.world.pending:
        run.world.now += 10 * 24 * 3_600_000
        run.has_expired = True
    run.table(step.table).remove_orphans()


def manifests(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).rewrite_manifests()


def deletes(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).rewrite_position_deletes()


def convert(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).convert_equality_deletes()


def column(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).alter().add_column(f"c{step.number}", "BIGINT").commit()


def change_property(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).alter().set_properties({"simulated": str(step.number)}).commit()


def partition_field(run: Run, step: Step, record: Record) -> None:
    run.table(step.table).alter().add_partition_field(f"bucket({step.number + 1}, id)").commit()


def branch(run: Run, step: Step, record: Record) -> None:
    """Write to a branch: it has the rows of main and its own, and main does not have the latter."""
    name = f"b{step.number}"
    run.table(step.table).create_branch(name)
    run.table(step.table).append(rows_of(step.values), branch=name)
    found = run.rows(run.table(step.table, branch=name))
    own = {each[0] for each in step.values}
    if own - {each[0] for each in found}:
        raise Broken(f"the branch {name} lost rows")
    run.model_of(step.table).check_read([each for each in found if each[0] not in own], record.began)


def follow(run: Run, step: Step, record: Record) -> None:
    """Read new changes of a change stream and apply them to a replica."""
    run.catch_up(f"follower {step.values[0]}", record.began)


ACTIONS: dict[str, Callable[[Run, Step, Record], None]] = {
    "append": append,
    "branch": branch,
    "checkpoint": checkpoint,
    "column": column,
    "compact": compact,
    "create": create,
    "convert": convert,
    "delete": delete,
    "delete part": delete_part,
    "deletes": deletes,
    "drop": drop,
    "equality": equality,
    "expire": expire,
    "field": partition_field,
    "follow": follow,
    "make": make,
    "make if missing": make_if_missing,
    "manifests": manifests,
    "merging stream": merging_stream,
    "move": move,
    "orphans": orphans,
    "overwrite": overwrite,
    "overwrite part": overwrite_part,
    "property": change_property,
    "purge": purge,
    "read": read,
    "rename": rename,
    "replace": replace,
    "stream": stream,
    "trail": trail,
    "transaction": transaction,
    "transfer": transfer,
    "update": update,
    "upsert": upsert,
}
