"""What writers are told of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.predicate import Predicate
from lakescan.storage.storage import Storage
from lakescan.write.statistics import FileStatistics

Key = tuple[Any, ...]  # the values of a partition, one a partition field; times as numbers (`partition_key.physical`)


@dataclass(frozen=True)
class WrittenFile:
    """A data file that was written: its location, its partition, and what the format wants to commit of it."""

    location: str
    key: Key
    rows: int
    size: int
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


class ByOptions:
    """What the options of a write say by themselves, whatever the format."""

    overrides: Mapping[str, str]

    @property
    def max_rows(self) -> int | None:
        """As the option `maxRecordsPerFile` says."""
        said = self.overrides.get("max-records-per-file")
        return None if said is None else int(said)

    @property
    def is_fanned_out(self) -> bool:
        """As the option says."""
        return self.overrides.get("fanout-enabled", "True") == "True"


class TableWrites(Protocol):
    """A table to write to, as its format has it; it is sent to workers."""

    @property
    def schema(self) -> Schema:
        """The columns."""

    @property
    def storage(self) -> Storage:
        """Where files go."""

    @property
    def target_size(self) -> int:
        """The bytes of a file past which the next one is begun."""

    @property
    def constraints(self) -> Mapping[str, Predicate]:
        """What has to be true of all rows, by name."""

    @property
    def max_rows(self) -> int | None:
        """The rows of a file at most."""

    @property
    def is_fanned_out(self) -> bool:
        """Whether files of many partitions are open at once; otherwise one, for rows that come by partition."""

    @property
    def is_clustered(self) -> bool:
        """Whether rows of a data frame are brought together by partition before they are written."""

    @property
    def partition_sources(self) -> Sequence[str]:
        """The columns that partitions are made of."""

    @property
    def parquet_options(self) -> Mapping[str, Any]:
        """Arguments of `pyarrow.parquet.ParquetWriter`."""

    def columns_for(self, rows: pa.Schema) -> Sequence[t.Field]:
        """The columns that the table can be given for rows."""

    def file_columns(self) -> Sequence[tuple[int, pa.Field]]:
        """The columns that files hold, by their place in the schema, under the names that files have them by."""

    def in_order(self, rows: pa.Table) -> pa.Table:
        """Rows of a file, sorted as the table asks its writers to; as they are where it does not."""

    def partition_keys(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """The partition values of rows that fit the schema, an array a partition field."""

    @property
    def spec_id(self) -> int:
        """The partition spec of new files."""

    @property
    def partition_names(self) -> Sequence[str]:
        """The partition fields, as file tables name them."""

    def new_location(self, key: Key, name: str) -> str:
        """Where a file of a partition goes."""

    @property
    def data_folder(self) -> str:
        """The folder that new files are under."""

    @property
    def of_moved_rows(self) -> TableWrites:
        """How rows of other files are written anew, with what the table keeps of each beside its columns."""

    def describe(self, found: FileStatistics) -> Mapping[str, Any]:
        """What is to be committed of a file beside its location, partition and size."""
