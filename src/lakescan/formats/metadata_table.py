"""What a metadata table offers to the engines: a schema, and parts that are read one by one, anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakescan.common.schema import Schema
from lakescan.errors import InvalidOption, nearest


class MetadataTable(Protocol):
    """A table about a table. Picklable, as its parts are: any worker can read any part."""

    @property
    def schema(self) -> Schema:
        """Its columns."""

    def parts(self) -> Sequence[Any]:
        """The pieces it is read in, such as manifests or delete files."""

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The rows of one part, as batches of the schema."""


@dataclass(frozen=True)
class Rows:
    """A metadata table whose rows are at hand, in one part."""

    schema: Schema
    rows: tuple[dict[str, Any], ...]

    def parts(self) -> Sequence[Any]:
        """One part."""
        return (None,)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """All rows."""
        yield pa.RecordBatch.from_pylist(list(self.rows), schema=self.schema.arrow())


def no_such_table(name: str, known: Iterable[str]) -> InvalidOption:
    """The error for a metadata table that a format does not have."""
    names = list(known)
    return InvalidOption(f"no metadata table {name!r}.{nearest(name, names)} There are: {', '.join(names)}")


def as_table(table: MetadataTable) -> pa.Table:
    """All rows of a metadata table."""
    batches = [batch for part in table.parts() for batch in table.read(part)]
    return pa.Table.from_batches(batches, schema=table.schema.arrow())
