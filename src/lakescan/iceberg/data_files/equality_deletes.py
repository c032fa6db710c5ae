"""Equality delete files: the keys of rows that are upserted or deleted (specification, "Equality Delete Files").

An equality delete file contains only the key columns, and is sorted by them. It deletes the rows with these keys from
all data files with lower sequence numbers, but not from those of its own commit. So a commit can replace rows without
reading the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.data_files.metrics import file_metrics
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.manifests.manifest_file import EQUALITY_DELETES
from lakescan.writing.file_statistics import FileStatistics
from lakescan.writing.sort_keys import SortKey, sort_order


@dataclass(frozen=True)
class EqualityDeleteWrites(IcebergWrites):
    """The settings for writing equality deletes: `IcebergWrites` with only the key columns, `keys`."""

    keys: tuple[str, ...] = ()

    @staticmethod
    def create(writes: IcebergWrites, keys: Sequence[str], name: str) -> EqualityDeleteWrites:
        """Return the settings for equality deletes of a table, named `name` in messages.

        Raises `UnsupportedFeature` if the deletes could miss rows: if the table is partitioned by columns that are not
        keys, or has several partition specs. Also raises it for keys that do not compare exactly (floating-point and
        nested types), for a delete file format other than Parquet, and for format version 1.
        """
        metadata, schema = writes.metadata, writes.schema
        if int(metadata.format_version) < 2:
            raise UnsupportedFeature(
                f"equality deletes in {name}, of format version 1", "Upgrade the table to version 2."
            )
        if writes.properties.delete_format not in (None, "parquet"):
            raise UnsupportedFeature(
                f"writing {writes.properties.delete_format} delete files in {name}",
                "They are written as Parquet: set 'write.delete.format.default'='parquet'.",
            )
        for key in keys:
            kind = schema.column(key).type
            if kind in t.FLOATING or isinstance(kind, t.Struct | t.ListOf | t.MapOf):
                raise UnsupportedFeature(f"equality deletes by {key!r} of type {kind}", "Use upsert-mode=merge.")
        found = EqualityDeleteWrites(metadata, writes.storage, writes.options, keys=tuple(keys))
        if metadata.spec().is_unpartitioned():
            return found
        ids = {schema.column(key).id for key in keys}
        if others := [each for each in metadata.spec().fields if each.source_id not in ids]:
            raise UnsupportedFeature(
                f"equality deletes in {name}, which is partitioned by {others[0].name!r}",
                "A row that moves to another partition would be duplicated: partition only by keys, or use "
                "upsert-mode=merge.",
            )
        if len(metadata.partition_specs) > 1:
            raise UnsupportedFeature(
                f"equality deletes in {name}, which was partitioned in another way before",
                "They would not apply to older files: use upsert-mode=merge.",
            )
        return found

    @cached_property
    def schema(self) -> Schema:
        """The key columns."""
        whole = super().schema
        return Schema(tuple(whole.column(key) for key in self.keys))

    @property
    def target_size(self) -> int:
        """The property `write.delete.target-file-size-bytes`."""
        return self.properties.target_delete_file_size

    @cached_property
    def parquet_options(self) -> Mapping[str, Any]:
        """The Parquet options of delete files, else those of data files."""
        return self.delete_parquet_options

    def sort_rows(self, rows: pa.Table) -> pa.Table:
        """Sort the rows by the keys."""
        return rows.take(pa.array(sort_order([SortKey(name) for name in rows.column_names], rows)))

    def describe(self, statistics: FileStatistics) -> Mapping[str, Any]:
        """Return the metrics of the keys and their field ids, for the manifest entry."""
        metrics = file_metrics(statistics, self.properties)
        ids = [each.id for each in self.schema.fields]
        return {**metrics, "spec_id": self.spec_id, "content": EQUALITY_DELETES, "equality_ids": ids}
