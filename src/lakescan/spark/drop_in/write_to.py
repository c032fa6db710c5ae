"""`df.writeTo` of lakescan's tables."""

from __future__ import annotations

from typing import Any

from lakescan.common.references import backquote
from lakescan.spark.drop_in.errors import raise_as_spark
from lakescan.spark.drop_in.interception import NOT_OURS, running
from lakescan.spark.drop_in.names import table_parts
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.writing.table_writer import TableWriter

_ACTIONS = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")


class EnabledTableWriter(TableWriter):
    """`df.writeTo(name)`: a `TableWriter` whose methods return None, and raise PySpark's errors."""


def _action(name: str) -> Any:
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        with raise_as_spark(), running():
            getattr(TableWriter, name)(self, *args, **kwargs)

    run.__name__, run.__doc__ = name, getattr(TableWriter, name).__doc__
    return run


for _name in _ACTIONS:
    setattr(EnabledTableWriter, _name, _action(_name))


def write_to(session: EnabledSession, frame: Any, table: str) -> Any:
    """Run `df.writeTo`."""
    parts = table_parts(session, table)
    return NOT_OURS if parts is None else EnabledTableWriter(frame, ".".join(map(backquote, parts)), ())
