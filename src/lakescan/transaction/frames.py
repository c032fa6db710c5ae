"""What pandas, Polars and DuckDB hold, as Arrow; what Arrow would hold otherwise than they do is refused by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from lakescan.errors import InvalidOption, SchemaMismatch, UnsupportedFeature

# DuckDB's types that it hands to Arrow as others, by their ids, and what to do.
_NOT_DUCKDBS = {
    "time with time zone": "Arrow gets the time without its offset: cast it to TIME, or VARCHAR.",
    "uhugeint": "Arrow has no such integers: cast it to DECIMAL(38, 0), or VARCHAR.",
    "bit": "Arrow gets DuckDB's own bytes: cast it to VARCHAR, or BLOB.",
}
_NOT_POLARS = {
    "Object": "Arrow gets addresses in memory: make it a column of one type.",
    "Int128": "Arrow has no such integers: cast it to pl.Decimal(38, 0).",
    "UInt128": "Arrow has no such integers: cast it to pl.Decimal(38, 0).",
}


def of_pandas(frame: Any) -> pa.Table:
    """A pandas frame; levels of its index that have names are its first columns.

    An index without a name numbers rows, as pandas does after a filter or a sort, and is left out; one that holds
    anything but integers is refused, and so is a name that a column has as well.
    """
    index = frame.index
    names = list(index.names)
    if any(name is not None for name in names):
        if None in names:
            raise SchemaMismatch(f"the index has levels {names}: name all of them, or call reset_index()")
        twice = [name for name in names if name in frame.columns or names.count(name) > 1]
        if twice:
            raise SchemaMismatch(
                f"the index and the columns have both {twice[0]!r}: rename one, or leave the index out with "
                "reset_index(drop=True)"
            )
        frame = frame.reset_index()
    elif index.nlevels > 1 or (len(index) and index.dtype.kind not in "iu"):
        kind = "several levels" if index.nlevels > 1 else f"values of type {index.dtype}"
        raise SchemaMismatch(
            f"the index has {kind}, and no name: name it, frame.rename_axis(...), to keep it as a column, or call "
            "reset_index(drop=True) to leave it out"
        )
    if frame.columns.nlevels > 1:
        raise SchemaMismatch("the columns have several levels: give each a name, such as '_'.join(name)")
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        why = ". ".join(str(each) for each in error.args)
        raise SchemaMismatch(
            f"the pandas frame is not of Arrow's types: {why}. Make each column one of numbers, texts, times or lists"
        ) from error


def check_polars(frame: Any) -> None:
    """Raises `UnsupportedFeature` for what Polars hands to Arrow as something else."""
    for name, kind in frame.schema.items():
        for path, each in _polars_types(name, kind):
            if (instead := _NOT_POLARS.get(type(each).__name__)) is not None:
                raise UnsupportedFeature(f"column {path!r} of Polars type {each} in a table", instead)


def _polars_types(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    yield path, kind
    if (inner := getattr(kind, "inner", None)) is not None:
        yield from _polars_types(f"{path}.element", inner)
    for member in getattr(kind, "fields", None) or ():
        yield from _polars_types(f"{path}.{member.name}", member.dtype)


def check_duckdb(relation: Any) -> None:
    """Raises `UnsupportedFeature` for what DuckDB hands to Arrow as something else."""
    for name, kind in zip(relation.columns, relation.types, strict=True):
        for path, each in _duckdb_types(name, kind):
            if (instead := _NOT_DUCKDBS.get(each.id)) is not None:
                raise UnsupportedFeature(f"column {path!r} of DuckDB type {each} in a table", instead)


def _duckdb_types(path: str, kind: Any) -> Iterator[tuple[str, Any]]:
    yield path, kind
    if kind.id in ("list", "array", "struct", "map", "union"):
        for name, child in kind.children:
            if not isinstance(child, int):  # the size of an array
                yield from _duckdb_types(f"{path}.{name}", child)


def reader_of(data: Any) -> pa.RecordBatchReader:
    """A stream of what has Arrow's interface; raises `InvalidOption` for single columns, which are no rows."""
    try:
        return pa.RecordBatchReader.from_stream(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidOption(
            f"{type(data).__name__} holds no rows to save, but perhaps a column ({error}): give a table or a frame"
        ) from error


def read(reader: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a reader; raises `SchemaMismatch` for what it cannot hand over."""
    try:
        yield from reader
    except pa.ArrowException as error:
        raise SchemaMismatch(f"the rows cannot be read to their end: {error}") from error
