"""Spark's Python data sources: the schema of a table, its task groups as partitions, and their batches.

Spark pickles the reader for its workers, without the table's metadata: each partition carries the data that `read`
needs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
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

from lakescan.api.open import open_table, split_metadata_name
from lakescan.api.stream import batch_scan
from lakescan.catalogs.registry import CatalogConfiguration, catalog_names, is_known, register_catalogs
from lakescan.common import types as t
from lakescan.common.identifiers import split_name
from lakescan.errors import InvalidOption, LakescanError, NoSuchCatalog, UnsupportedFeature, nearest
from lakescan.expressions.predicate import has_sql, predicate_fields
from lakescan.expressions.text_casts import name_of_zone, zone_of_name
from lakescan.formats.metadata_table import MetadataTable
from lakescan.options.read import ReadOptions
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.spark.following import CATALOG, FOLLOW, LATE, FollowingRead, newest_table
from lakescan.spark.source.partitions import SharedContext, group_partitions, read_partition
from lakescan.spark.source.pushdown import usable_predicate
from lakescan.spark.source.stream import TableStreamReader
from lakescan.spark.types import as_spark_batch, schema_of, schema_of_rows, spark_schema
from lakescan.spark.wap import StagedReads, settings_in_task
from lakescan.spark.writing.sink import BatchWriter, MicroBatchWriter, Sink
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.wap import apply_session_reads


class TableSource(DataSource):
    """A table as a Spark data source; `source_class` creates the class for a session, with these class attributes.

    - `format_name`: 'iceberg', 'delta' or 'lakescan'. `pushdown`: whether readers take filters from Spark.
    - `parallelism`: the number of tasks to split for. `time_zone`: the session's, as a name.
    - `session`: the session's staging settings and Iceberg options. `catalogs`: the properties of known catalogs, by
      name.
    - `_pinned`: the scan of the pinned snapshot or version, and the metadata table's name, if any.
    """

    format_name: str
    pushdown: bool
    parallelism: int
    time_zone: str
    session: SessionSettings
    catalogs: Mapping[str, CatalogConfiguration]
    _pinned: tuple[ScanSpec, str | None] | None = None
    _is_planned = False

    @classmethod
    def name(cls) -> str:
        """Return the format's name in `format(...)` and `USING`."""
        return cls.format_name

    def schema(self) -> StructType:
        """Return the Spark schema of the columns that the options select, of a batch or a stream.

        Spark calls this when it creates a frame or a view, and this pins the snapshot or version that the frame reads.
        """
        scan, name = self.open_scan()
        if not self._follows:
            with suppress(LakescanError):  # options of a stream may select no snapshot; a batch raises when it is read
                self._pin(scan, name)
        if name is not None:
            return spark_schema(scan.metadata_table(name).schema)
        return schema_of(batch_scan(scan))  # Spark does not tell sources whether they read a stream

    def reader(self, schema: StructType | pa.Schema) -> DataSourceReader:
        """Return a batch reader of the columns of `schema`, which may be narrower than the table's.

        Raises `UnsupportedFeature` for distributed planning, and `InvalidOption` if a column has another type in
        `schema`.
        """
        if self._follows:
            return self._following_reader(schema)
        scan, name = self._pinned or self.open_scan()
        self._is_planned = True
        if name is not None:
            table = scan.metadata_table(name)
            if isinstance(schema, pa.Schema):
                by_name = {each.name: each for each in spark_schema(table.schema).fields}
                schema = StructType([by_name[each] for each in schema.names])
            return MetadataReader(table, schema)
        if "distributed" in (scan.options.data_planning_mode, scan.options.delete_planning_mode):
            raise UnsupportedFeature(
                "distributed planning by a Python data source",
                "Spark plans it in one worker, which has no Spark session: use Scan.to_spark(spark).",
            )
        scan, staged = self._apply_session_reads(scan)
        return self._reader_of(scan, staged, schema)

    def _reader_of(
        self, scan: ScanSpec, staged: StagedReads | None, schema: StructType | pa.Schema
    ) -> DataSourceReader:
        if list(schema.names) != scan.output.names:
            scan = scan.narrow_columns(schema.names)
        if isinstance(schema, pa.Schema):
            schema = schema_of(scan)  # Sail passes the columns with Arrow types
        _check_types(schema_of(scan), schema)
        kind = FilteringReader if self.pushdown else TableReader
        return kind(scan, schema, self.parallelism, staged)

    @property
    def _follows(self) -> bool:
        return any(name.lower() == FOLLOW for name in self.options)

    @property
    def following(self) -> FollowingRead | None:
        """The read that follows its table, opened now; None for a pinned read."""
        if not self._follows:
            return None
        text = next(value for name, value in self.options.items() if name.lower() == FOLLOW)
        scan, name = self.open_scan()
        return FollowingRead(scan, name, StructType.fromJson(json.loads(text)))

    def _following_reader(self, schema: StructType | pa.Schema) -> DataSourceReader:
        """Return a reader of the table's state of now, where no rule or hook replaces the read.

        With the option `follow-late`, a task opens the table instead.
        """
        if any(name.lower() == LATE for name in self.options):
            return LateReader(self, schema)
        return self.open_reader(schema)

    def open_reader(self, schema: StructType | pa.Schema) -> DataSourceReader:
        """Return a reader of the current state of the table that the read follows."""
        read = self.following
        assert read is not None
        table = newest_table(read.spec, read.spec.table)
        if read.metadata is not None:
            found = read.metadata_at(table)
            return MetadataReader(found, StructType([read.schema[name] for name in schema.names]), read)
        scan = read.scan_at(table, lambda: self.session)
        return self._reader_of(scan, StagedReads.record(replace(scan, state=None), self.session), schema)

    @property
    def batch_scan(self) -> tuple[ScanSpec, StagedReads | None] | None:
        """The pinned scan, and the check of the session's WAP branch by its tasks (None without one).

        None for a metadata table, or if no scan is pinned.
        """
        if self._pinned is None or self._pinned[1] is not None:
            return None
        return self._apply_session_reads(self._pinned[0])

    def _apply_session_reads(self, scan: ScanSpec) -> tuple[ScanSpec, StagedReads | None]:
        return apply_session_reads(scan, self.session), StagedReads.record(scan, self.session)

    def _pin(self, scan: ScanSpec, name: str | None) -> None:
        """Pin the snapshot or version that the scan resolves to now, so that later commits do not change the rows."""
        scan.snapshot  # noqa: B018  resolves the snapshot, which the scan caches
        self._pinned = scan, name

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that Spark pickles with a frame for the workers that plan its queries, with the pinned scan.

        If the user passed a schema, Spark does not ask for one, and the first query pins the scan. Once a query is
        planned, the state omits the pinned scan with the table's metadata, since partitions carry the data that tasks
        need.
        """
        if self._is_planned:
            return {**self.__dict__, "_pinned": None}
        if self._pinned is None and not self._follows:
            with suppress(LakescanError):  # `reader` raises the same error
                self._pin(*self.open_scan())
        return self.__dict__

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of the stream of the table's commits; raises `UnsupportedFeature` for a metadata table."""
        scan, name = self.open_scan()
        if name is not None:
            raise UnsupportedFeature(f"streaming the metadata table {name!r}", "Read it with spark.read.")
        staged = StagedReads.record(scan, self.session, is_stream=True)
        scan = apply_session_reads(scan, self.session, is_stream=True)
        return TableStreamReader(scan, schema, self.parallelism, staged)

    def writer(self, schema: StructType | pa.Schema, overwrite: bool) -> DataSourceArrowWriter:
        """Return a batch writer that appends rows with the schema, or with `overwrite` replaces the table's rows."""
        return BatchWriter(self._sink(), schema_of_rows(schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return a writer that commits each micro-batch once."""
        return MicroBatchWriter(self._sink(), schema_of_rows(schema), overwrite)

    def _sink(self) -> Sink:
        options = WriteOptions.parse(self.options).apply_session(self.session.options_only)
        if options.path is None:
            raise InvalidOption(f"format {self.format_name!r} needs a path: .save(path), or .start(path)")
        name = options.format if self.format_name == "lakescan" else self.format_name
        register_catalogs(self.catalogs)
        check_catalog_name(options.path)
        return Sink(options.path, name, options, self.catalogs)

    def open_scan(self) -> tuple[ScanSpec, str | None]:
        """Open the scan that the options describe; also return the metadata table's name, None without one.

        The path names a metadata table after `#`. Raises `InvalidOption` without a path, and the errors of
        `lakescan.table`.
        """
        given = {name: value for name, value in self.options.items() if name.lower() not in (FOLLOW, CATALOG, LATE)}
        options = ReadOptions.parse({"time-zone": self.time_zone}).merge(given)
        if options.path is None:
            raise InvalidOption(f"format {self.format_name!r} needs a path: .load(path), or OPTIONS (path '...')")
        path, name = split_metadata_name(options.path)
        register_catalogs(self.catalogs)
        check_catalog_name(path)
        if self.format_name != "lakescan":
            options = options.merge({"format": self.format_name})
        return replace(open_table(path, options).scan().spec, zone=zone_of_name(self.time_zone)), name


def source_class(
    name: str,
    *,
    pushdown: bool,
    parallelism: int,
    time_zone: str,
    session: SessionSettings = NO_SESSION,
    catalogs: Mapping[str, CatalogConfiguration] | None = None,
) -> type[TableSource]:
    """Create a data source class for a format name. Its settings are class attributes, which are pickled with it.

    For the settings, see `TableSource`.
    """
    return type(
        f"{name.title()}Source",
        (TableSource,),
        {
            "format_name": name,
            "pushdown": pushdown,
            "parallelism": parallelism,
            "time_zone": time_zone,
            "session": session,
            "catalogs": catalogs or {},
        },
    )


class ScanSource(TableSource):
    """The data source of one frame, which is pickled with its scan. It has no options, because plans show options."""

    format_name = "lakescan"
    pushdown = False

    def __init__(self, scan: ScanSpec, parallelism: int) -> None:
        super().__init__({})
        self.parallelism = parallelism
        self._pin(scan, None)

    def _apply_session_reads(self, scan: ScanSpec) -> tuple[ScanSpec, StagedReads | None]:
        return scan, None  # the session's settings were applied when the frame was made


class FollowingSource(TableSource):
    """The data source of one frame that follows its table, pickled with the read: plans do not show its options."""

    format_name = "lakescan"
    pushdown = False
    session = NO_SESSION

    def __init__(self, read: FollowingRead, parallelism: int) -> None:
        super().__init__({FOLLOW: ""})
        self.parallelism = parallelism
        self._read = read

    @property
    def following(self) -> FollowingRead:
        """The read that the frame was made with."""
        return self._read


class TableReader(DataSourceReader):
    """Plans a scan and reads its task groups, in Spark's Python workers.

    Spark pickles the reader for all tasks, and then asks for the partitions. So the scan is planned when the reader is
    pickled, and the reader carries the context of the plan. With `staged`, tasks check that the session's WAP branch
    has not changed.
    """

    def __init__(self, scan: ScanSpec, schema: StructType, parallelism: int, staged: StagedReads | None) -> None:
        self._scan: ScanSpec | None = scan
        self._schema, self._parallelism, self._staged = schema, parallelism, staged
        self._planned: list[InputPartition] | None = None
        self._carried: tuple[str, bytes] | None = None
        self._zone = scan.zone if depends_on_zone(scan) else None

    def __getstate__(self) -> dict[str, Any]:
        if self._scan is not None and self._planned is None:
            with suppress(Exception):  # `partitions` raises the same error; pickling would hide it
                self._planned, context = self._plan(by_reader=True)
                self._carried = context.reader_payload()
        return {**self.__dict__, "_scan": None, "_planned": None}

    def _plan(self, *, by_reader: bool) -> tuple[list[InputPartition], SharedContext]:
        assert self._scan is not None
        parallelism = self._scan.options.parallelism or self._parallelism
        return group_partitions(self._scan, parallelism, by_reader=by_reader)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per task group of the plan, or a single one for a scan with a limit."""
        if self._planned is None:
            self._planned, self._carried = self._plan(by_reader=False)[0], None
        return self._planned

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, as batches in Spark's Arrow schema.

        Raises `InvalidOption` if the session's staging settings, or a time zone that the filter depends on, have
        changed.
        """
        if self._staged is not None:
            self._staged.check(settings_in_task())
        if self._zone is not None:
            _check_zone(self._zone)
        return read_partition(partition, self._schema, self._carried)


def depends_on_zone(scan: ScanSpec) -> bool:
    """Return whether the scan's filter could select other rows if the session had another time zone.

    This is so for SQL conditions and tests of timestamps with a zone.
    """
    kinds = (scan.selectable.by_id[each].type for each in predicate_fields(scan.filter))
    return has_sql(scan.condition) or any(isinstance(each, t.Timestamp) and each.zoned for each in kinds)


def _check_zone(zone: tzinfo) -> None:
    """Raise `InvalidOption` if the session's time zone is another than when the data source was registered (`zone`).

    Only tasks of Spark can check this; elsewhere nothing is done.
    """
    context = TaskContext.get()
    name = None if context is None else context.getLocalProperty("spark.sql.session.timeZone")
    if name is not None and zone_of_name(name) != zone:
        raise InvalidOption(
            f"the session's time zone is {name} and was {name_of_zone(zone)} when lakescan.spark.register(spark) was "
            "called, and the filter of this read depends on it: call lakescan.spark.register(spark) again"
        )


class FilteringReader(TableReader):
    """A reader that prunes by the filters of the query; Spark refuses such a reader if filter pushdown is disabled."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Prune by the filters that planning supports, and return all of them, so that Spark evaluates them again.

        A scan with a limit is not pruned, as the query's filters apply after the limit.
        """
        assert self._scan is not None
        if self._scan.max_rows is None:  # the query's filters apply after the scan's limit
            self._planned = None
            self._scan = self._scan.where(usable_predicate(filters, self._scan.snapshot.schema, self._scan.selection))
        return filters


@dataclass
class MetadataPartition(InputPartition):
    """A unit of work of a metadata table, as `MetadataTable.parts` returns it (`part`)."""

    part: Any


class MetadataReader(DataSourceReader):
    """Reads a metadata table in Spark's Python workers; `schema` may be narrower than the table's."""

    def __init__(self, table: MetadataTable, schema: StructType, following: FollowingRead | None = None) -> None:
        self._table, self._schema = table, schema
        self._narrow = None if following is None else following.narrow_metadata(table, schema.names)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per unit of work of the metadata table."""
        return [MetadataPartition(part) for part in self._table.parts()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, as batches in Spark's Arrow schema; a placeholder partition has no rows."""
        if isinstance(partition, MetadataPartition):
            by_name = {f.name: f for f in self._table.schema.fields}
            names = self._schema.names
            for batch in self._table.read(partition.part):
                if self._narrow is not None:
                    yield self._narrow(batch)
                else:
                    yield as_spark_batch(batch.select(names), [by_name[n] for n in names], self._schema)


class LateReader(DataSourceReader):
    """Reads a table that it follows in a single task, which opens the table when it runs.

    Spark plans a read in a view, or in the batches of a stream, only once: its partitions would be of the first query.
    """

    def __init__(self, source: TableSource, schema: StructType | pa.Schema) -> None:
        self._source, self._schema = source, schema

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield all rows of the table, as batches in Spark's Arrow schema."""
        reader: Any = self._source.open_reader(self._schema)
        for each in reader.partitions():
            yield from reader.read(each)


def check_catalog_name(path: str) -> None:
    """Raise `NoSuchCatalog` for a path like `catalog.namespace.table` with an unknown catalog, unless it is a folder.

    Spark's workers have the catalogs that were known when `register` was called. Without this check, a write could
    create a Delta table in a folder of that name.
    """
    parts = split_name(path)
    if parts is None or len(parts) < 3 or is_known(parts[0]) or os.path.exists(path):
        return
    raise NoSuchCatalog(
        f"{path!r} is not the name of a table: this data source has no catalog {parts[0]!r}."
        f"{nearest(parts[0], catalog_names())} It has the catalogs of the time of lakescan.spark.register(spark) "
        f"({', '.join(catalog_names()) or 'none'}): connect the catalog by lakescan.catalog first, and call it again. "
        f"A folder of that name is './{path}'."
    )


def _check_types(own: StructType, wanted: StructType) -> None:
    for mine, theirs in zip(own.fields, wanted.fields, strict=True):
        if mine.dataType.simpleString() != theirs.dataType.simpleString():
            raise InvalidOption(
                f"column {theirs.name} has type {theirs.dataType.simpleString()} in the given schema, but "
                f"{mine.dataType.simpleString()} in the table: a schema may leave columns out, not change them"
            )
