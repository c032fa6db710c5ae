"""Rows to write: `Rows`, the interface to engines, and rows from Arrow, pandas, Polars or DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakescan.common.executors import PlanningExecutor
from lakescan.errors import InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.expressions.predicate import Predicate
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.tables.commit_files import check_and_write
from lakescan.writing.table_writes import TableWrites, WrittenFile
from lakescan.writing.upserts import UpsertFiles, write_newest

# Hints for Python collections, by type.
_AS_ARROW: dict[type, str] = {
    dict: ". Of a dict of columns, pyarrow.table(data) makes them",
    list: ". Of a list of dicts, pyarrow.Table.from_pylist(data) makes them",
}


class Rows(Protocol):
    """Rows to write, with the engine that writes them."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @property
    def session(self) -> SessionSettings:
        """The settings of the Spark session that the rows come from (write-audit-publish)."""

    @property
    def executor(self) -> PlanningExecutor | None:
        """The executor that rewrites the remaining rows of replaced files; None for threads of this process."""

    @property
    def can_repeat(self) -> bool:
        """Whether the rows can be written twice; a stream can be read only once."""

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write all rows to data files; raises `SchemaMismatch` if a row does not match `where`.

        `write_id` becomes part of the file names.
        """

    def write_newest(self, writes: TableWrites, keys: TableWrites, write_id: str) -> UpsertFiles:
        """Write the last row of each key to data files, and all keys to equality delete files.

        `writes` are the settings for the data files, and `keys` those for the equality delete files.
        """


class ArrowRows:
    """Record batches in this process. A list of batches can be written twice, a stream only once."""

    executor: None = None
    session: SessionSettings = NO_SESSION

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches
        self.can_repeat: bool = isinstance(batches, list)

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write all rows to data files in this process, as one task; see `Rows.write`."""
        return check_and_write(writes, self._batches, write_id, where)

    def write_newest(self, writes: TableWrites, keys: TableWrites, write_id: str) -> UpsertFiles:
        """Write the last row of each key in this process, as one task; see `Rows.write_newest`."""
        return write_newest(writes, keys, self._batches, write_id)


def arrow_rows(data: Any) -> ArrowRows:
    """Return the rows of Arrow, pandas, Polars (a lazy frame is collected) or DuckDB data.

    Raises `InvalidOption` for data without rows, `SchemaMismatch` and `UnsupportedFeature` for values that Arrow cannot
    represent.
    """
    if isinstance(data, pa.RecordBatch):
        return ArrowRows(data.schema, [data])
    if isinstance(data, pa.Table):
        return ArrowRows(data.schema, data.to_batches())
    match library_of(data):
        case "pandas" if hasattr(data, "columns"):
            table = convert_pandas(data)
            return ArrowRows(table.schema, table.to_batches())
        case "polars":
            data = data.collect() if hasattr(data, "collect") else data
            if hasattr(data, "schema"):
                check_polars(data)
        case "duckdb" if hasattr(data, "types"):
            check_duckdb(data)
    if hasattr(data, "__arrow_c_stream__"):
        reader = open_arrow_stream(data)
        return ArrowRows(reader.schema, stream_batches(reader))
    raise InvalidOption(
        f"{type(data).__name__} holds no rows to save: pass Arrow, pandas, Polars, DuckDB or a Spark data frame"
        f"{_AS_ARROW.get(type(data), '')}"
    )


def library_of(data: Any) -> str:
    """Return the library that defines the type of `data` or one of its base classes; empty for others.

    It is `pyspark`, `pandas`, `polars` or `duckdb`.
    """
    modules = {each.__module__.split(".")[0].lstrip("_") for each in type(data).__mro__}
    return next((name for name in ("pyspark", "pandas", "polars", "duckdb") if name in modules), "")


# DuckDB types, by id, that DuckDB exports to Arrow with other values, and what the user can do instead.
_NOT_DUCKDBS = {
    "time with time zone": "Arrow would get the time without its offset: cast it to TIME or VARCHAR.",
    "uhugeint": "Arrow has no 128-bit integers: cast it to DECIMAL(38, 0) or VARCHAR.",
    "bit": "Arrow would get DuckDB's internal bytes: cast it to VARCHAR or BLOB.",
}
_NOT_POLARS = {
    "Object": "Arrow would get memory addresses: convert it to a column of one type.",
    "Int128": "Arrow has no 128-bit integers: cast it to pl.Decimal(38, 0).",
    "UInt128": "Arrow has no 128-bit integers: cast it to pl.Decimal(38, 0).",
}


def convert_pandas(frame: Any) -> pa.Table:
    """Convert a pandas frame; named levels of its index become the first columns.

    An unnamed index of integers only numbers the rows (as after a filter or a sort), and is dropped. Raises
    `SchemaMismatch` for any other unnamed index, and for an index level with the name of a column.
    """
    index = frame.index
    names = list(index.names)
    if any(name is not None for name in names):
        if None in names:
            raise SchemaMismatch(f"the index has levels {names}: name all of them, or call reset_index()")
        duplicates = [name for name in names if name in frame.columns or names.count(name) > 1]
        if duplicates:
            raise SchemaMismatch(
                f"the name {duplicates[0]!r} occurs twice in the index and the columns: rename one, or drop the "
                "index with reset_index(drop=True)"
            )
        frame = frame.reset_index()
    elif index.nlevels > 1 or (len(index) and index.dtype.kind not in "iu"):
        kind = "several levels" if index.nlevels > 1 else f"values of type {index.dtype}"
        raise SchemaMismatch(
            f"the index has {kind}, and no name: name it with frame.rename_axis(...) to store it as a column, or drop "
            "it with reset_index(drop=True)"
        )
    if frame.columns.nlevels > 1:
        raise SchemaMismatch("the columns have several levels: give each column one name, such as '_'.join(name)")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        why = ". ".join(str(each) for each in error.args)
        raise SchemaMismatch(
            f"the pandas frame cannot be converted to Arrow: {why}. Give each column one type: numbers, strings, "
            "timestamps or lists"
        ) from error


def check_polars(frame: Any) -> None:
    """Raise `UnsupportedFeature` for column types that Polars exports to Arrow with other values."""
    for name, kind in frame.schema.items():
        for path, each in _polars_types(name, kind):
            if (instead := _NOT_POLARS.get(type(each).__name__)) is not None:
                raise UnsupportedFeature(f"writing column {path!r} of Polars type {each}", instead)


def _polars_types(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    yield path, kind
    if (inner := getattr(kind, "inner", None)) is not None:
        yield from _polars_types(f"{path}.element", inner)
    for member in getattr(kind, "fields", None) or ():
        yield from _polars_types(f"{path}.{member.name}", member.dtype)


def check_duckdb(relation: Any) -> None:
    """Raise `UnsupportedFeature` for column types that DuckDB exports to Arrow with other values."""
    for name, kind in zip(relation.columns, relation.types, strict=True):
        for path, each in _duckdb_types(name, kind):
            if (instead := _NOT_DUCKDBS.get(each.id)) is not None:
                raise UnsupportedFeature(f"writing column {path!r} of DuckDB type {each}", instead)


def _duckdb_types(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    yield path, kind
    if kind.id in ("list", "array", "struct", "map", "union"):
        for name, child in kind.children:
            if not isinstance(child, int):  # the size of an array
                yield from _duckdb_types(f"{path}.{name}", child)


def open_arrow_stream(data: Any) -> pa.RecordBatchReader:
    """Open an object that has Arrow's C stream interface as a reader; raises `InvalidOption` for a single column."""
    try:
        if hasattr(data, "to_reader"):  # avoids the C interface, which loses the type of errors
            found = data.to_reader()
            if isinstance(found, pa.RecordBatchReader):
                return found
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidOption(
            f"{type(data).__name__} holds no rows to save, perhaps a single column ({error}): pass a table or a frame"
        ) from error


def stream_batches(reader: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a reader; raises `SchemaMismatch` if reading fails."""
    try:
        yield from reader
    except pa.ArrowException as error:
        raise SchemaMismatch(f"reading the rows failed: {error}") from error
