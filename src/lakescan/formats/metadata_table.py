"""Metadata tables (snapshots, files, history, ...): a schema, and parts that are read independently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption, nearest


class MetadataTable(Protocol):
    """A metadata table, whose rows are read in parts.

    It can be pickled, as can its parts, so any worker can read any part.
    """

    @property
    def schema(self) -> Schema:
        """The table's columns."""

    def parts(self) -> Sequence[Any]:
        """Return the units of work to read independently, such as manifests; their type is the table's own."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one part as batches of the schema."""


@dataclass(frozen=True)
class InMemoryMetadataTable:
    """A metadata table with its rows in memory, as a single part."""

    schema: Schema
    rows: tuple[dict[str, Any], ...]

    def parts(self) -> Sequence[Any]:
        """Return one part, which stands for all rows."""
        return (None,)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Yield all rows in one batch."""
        yield pa.RecordBatch.from_pylist(list(self.rows), schema=self.schema.arrow())


def no_such_table(name: str, known: Iterable[str]) -> InvalidOption:
    """Return the error for the unknown metadata table `name`; `known` are the names of the table's metadata tables."""
    names = list(known)
    return InvalidOption(f"no metadata table {name!r}.{nearest(name, names)} Available: {', '.join(names)}")


def as_table(table: MetadataTable) -> pa.Table:
    """Read all rows of a metadata table into an Arrow table."""
    batches = [batch for part in table.parts() for batch in table.read(part)]
    return pa.Table.from_batches(batches, schema=table.schema.arrow())
