"""The Python data sources: a table's schema, its task groups as partitions, and their batches.

Spark pickles a reader before it asks for partitions, so what `read` needs travels in each partition; the reader itself
is sent without the table's metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from lakescan.catalogs.registry import give_all
from lakescan.errors import InvalidOption, LakescanError, UnsupportedFeature
from lakescan.formats.metadata_table import MetadataTable
from lakescan.opening import split_metadata_name, table
from lakescan.options.read import normalised
from lakescan.scan_spec import ScanSpec
from lakescan.spark.filters import usable_predicate
from lakescan.spark.partitions import group_partitions, read_partition
from lakescan.spark.sink import BatchWriter, MicroBatchWriter, Sink
from lakescan.spark.stream import CommitReader
from lakescan.spark.types import as_spark_batch, schema_of, schema_of_rows, spark_schema
from lakescan.streaming.stream import without_stream_options


class TableSource(DataSource):
    """A table as a Spark data source; `source_class` makes the one that fits a session."""

    format_name: str
    pushdown: bool
    parallelism: int
    time_zone: str
    catalogs: Mapping[str, Mapping[str, str]]
    _pinned: tuple[ScanSpec, str | None] | None = None
    _is_planned = False

    @classmethod
    def name(cls) -> str:
        """What `format(...)` and `USING` call it."""
        return cls.format_name

    def schema(self) -> StructType:
        """The columns that the options ask for, of a batch or a stream.

        Spark asks when it makes a frame or a view: the state that the table has now is what that reads, always.
        """
        scan, name = self._target()
        with suppress(LakescanError):  # a stream's options may select no state; a batch is refused when it is read
            self._pin(scan, name)
        if name is not None:
            return spark_schema(scan.metadata_table(name).schema)
        return schema_of(without_stream_options(scan))  # it is not said whether this is a stream

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of `schema`: the table's own, or those of a user's narrower schema."""
        scan, name = self._pinned or self._target()
        self._is_planned = True
        if name is not None:
            return MetadataReader(scan.metadata_table(name), schema)
        if "distributed" in (scan.options.get("data-planning-mode"), scan.options.get("delete-planning-mode")):
            raise UnsupportedFeature(
                "distributed planning by a Python data source",
                "Spark asks one worker for the partitions, and that has no session: use Scan.to_spark(spark).",
            )
        if list(schema.names) != scan.output.names:
            scan = scan.select(*schema.names)
        _check_types(schema_of(scan), schema)
        kind = FilteringReader if self.pushdown else TableReader
        return kind(scan, schema, self.parallelism)

    def _pin(self, scan: ScanSpec, name: str | None) -> None:
        """Read the state that the scan sees now, whatever is committed before a query is planned."""
        scan.snapshot  # noqa: B018  resolved here, and kept with the scan
        self._pinned = scan, name

    def __getstate__(self) -> dict[str, Any]:
        """What Spark keeps with a frame, and sends to the workers that plan its queries: the pinned scan, too.

        Where a user gave the schema, Spark asks for none, and the first query's state is pinned. Once a query is
        planned, its tasks are sent the source without the table's metadata: partitions carry what they need.
        """
        if self._is_planned:
            return {**self.__dict__, "_pinned": None}
        if self._pinned is None:
            with suppress(LakescanError):  # the reader is what raises it
                self._pin(*self._target())
        return self.__dict__

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A reader of what the table gains, commit by commit."""
        scan, name = self._target()
        if name is not None:
            raise UnsupportedFeature(f"a stream of the metadata table {name!r}", "Read it with spark.read.")
        return CommitReader(scan, schema, self.parallelism)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer of rows with a schema, which replace others where `overwrite` is set."""
        return BatchWriter(self._sink(), schema_of_rows(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """A writer of micro-batches, each committed once."""
        return MicroBatchWriter(self._sink(), schema_of_rows(schema), overwrite)

    def _sink(self) -> Sink:
        options = dict(self.options)
        path = options.pop("path", None)
        if path is None:
            raise InvalidOption(f"format {self.format_name!r} needs a path: .save(path), or .start(path)")
        given = options.pop("format", None)
        storage = _json(options.pop("storage-options", options.pop("storageoptions", None)))
        name = given if self.format_name == "lakescan" else self.format_name
        return Sink(path, name, options, storage or {}, self.catalogs)

    def _target(self) -> tuple[ScanSpec, str | None]:
        """The scan that the options describe, and the metadata table that the path names, if it does."""
        options: dict[str, Any] = {normalised(name): value for name, value in self.options.items()}
        path = options.pop("path", None)
        if path is None:
            raise InvalidOption(f"format {self.format_name!r} needs a path: .load(path), or OPTIONS (path '...')")
        path, name = split_metadata_name(path)
        options.setdefault("timezone", self.time_zone)
        give_all(self.catalogs)
        given = options.pop("format", None)
        opened = table(
            path,
            format=given if self.format_name == "lakescan" else self.format_name,
            relocate=_json(options.pop("relocate", None)),
            storage_options=_json(options.pop("storageoptions", None)),
            **options,
        )
        return opened.scan().spec, name


def source_class(
    name: str,
    *,
    pushdown: bool,
    parallelism: int,
    time_zone: str,
    catalogs: Mapping[str, Mapping[str, str]] | None = None,
) -> type[TableSource]:
    """A data source class for one format name. Made anew, so that it is sent to workers with these settings."""
    return type(
        f"{name.title()}Source",
        (TableSource,),
        {
            "format_name": name,
            "pushdown": pushdown,
            "parallelism": parallelism,
            "time_zone": time_zone,
            "catalogs": catalogs or {},
        },
    )


class TableReader(DataSourceReader):
    """Plans a scan and reads its groups."""

    def __init__(self, scan: ScanSpec, schema: StructType, parallelism: int) -> None:
        self._scan: ScanSpec | None = scan
        self._schema, self._parallelism = schema, parallelism

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scan": None}

    def partitions(self) -> Sequence[InputPartition]:
        """The plan's task groups."""
        assert self._scan is not None
        parallelism = int(self._scan.options.get("parallelism", self._parallelism))
        return group_partitions(self._scan, parallelism)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group as batches of Spark's Arrow schema."""
        return read_partition(partition, self._schema)


class FilteringReader(TableReader):
    """A reader that prunes by the filters of the query; Spark refuses it where filter pushdown is off."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use what planning can, and leave every filter to Spark as well."""
        assert self._scan is not None
        self._scan = self._scan.where(usable_predicate(filters, self._scan.snapshot.schema))
        return filters


@dataclass
class MetadataPartition(InputPartition):
    """A part of a metadata table."""

    part: Any


class MetadataReader(DataSourceReader):
    """Reads a metadata table, a part a partition; `schema` may leave columns out."""

    def __init__(self, table: MetadataTable, schema: StructType) -> None:
        self._table, self._schema = table, schema

    def partitions(self) -> Sequence[InputPartition]:
        """The table's parts."""
        return [MetadataPartition(part) for part in self._table.parts()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a part."""
        if isinstance(partition, MetadataPartition):
            by_name = {f.name: f for f in self._table.schema.fields}
            names = self._schema.names
            for batch in self._table.read(partition.part):
                yield as_spark_batch(batch.select(names), [by_name[n] for n in names], self._schema)


def _json(text: str | None) -> dict[str, Any] | None:
    import json

    return None if text is None else json.loads(text)


def _check_types(own: StructType, wanted: StructType) -> None:
    for mine, theirs in zip(own.fields, wanted.fields, strict=True):
        if mine.dataType.simpleString() != theirs.dataType.simpleString():
            raise InvalidOption(
                f"the schema given says {theirs.name} is {theirs.dataType.simpleString()}, and the table says "
                f"{mine.dataType.simpleString()}: a schema may leave columns out, not change them"
            )
