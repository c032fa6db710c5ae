"""ORC data and delete files, read by stripe, since Arrow decodes the columns of a stripe as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakescan.common import types as t
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.schema import Schema
from lakescan.errors import CorruptData, LakescanError, UnsupportedFeature
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match
from lakescan.planning.split import NO_END
from lakescan.reading.avro.codecs import TooLarge
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.field_ids import FileField
from lakescan.reading.orc_footer import Stripes, StripeStatistics, read_statistics, read_stripes
from lakescan.reading.projection import Projection, prune_members
from lakescan.reading.record_batches import batch_of
from lakescan.reading.type_promotion import cast_leaf
from lakescan.storage import Storage
from lakescan.storage.encrypted_files import open_stream
from lakescan.storage.encryption import FileKey
from lakescan.storage.errors import redact


@dataclass(frozen=True)
class OrcData:
    """An open ORC data or delete file (`DataFile`). Its chunks are stripes.

    Field ids are in the column attribute `iceberg.id`.
    """

    file: orc.ORCFile
    handle: pa.NativeFile
    path: str

    @property
    def schema(self) -> pa.Schema:
        """The file's Arrow schema, with field ids in the fields' metadata (`iceberg.id`)."""
        return self.file.schema

    @property
    def rows(self) -> int:
        """The row count in the footer."""
        return int(self.file.nrows)

    def chunks(self, start: int, stop: int) -> list[int]:
        """Return the stripes whose first byte is in [start, stop). If offsets are unknown, all stripes are at byte 0.

        The footer is only read for the offsets if the range is not the whole file. Raises `CorruptData` if it is
        damaged.
        """
        if (start, stop) != (0, NO_END) and self._stripes is not None:
            return self._stripes.find_stripes(start, stop)
        return list(range(self.file.nstripes)) if start == 0 else []

    def batches(
        self, chunks: Sequence[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the file position of the first row, and a batch of the projection's columns.

        `chunks` are stripes. One stripe is in memory at a time. Raises `CorruptData` if a stripe cannot be decoded, or
        the row count differs from the footer's, and `UnsupportedFeature` for timestamps that Arrow cannot represent.
        """
        is_whole = len(chunks) == self.file.nstripes
        stripes = None if is_whole else self._stripes
        end = 0
        for stripe in chunks:
            position = end if stripes is None else int(stripes.first_rows[stripe])
            rows = self._read(stripe, projection.read)
            end = position + rows.num_rows
            if stripes is not None and end != stripes.first_rows[stripe + 1]:
                expected = stripes.first_rows[stripe + 1] - position
                raise self._count_error(f"stripe {stripe} has {rows.num_rows:,} rows", expected)
            for start in range(0, rows.num_rows, batch_size):
                yield position + start, rows.slice(start, batch_size)
        if is_whole and end != self.rows:
            raise self._count_error(f"its stripes have {end:,} rows", self.rows)

    def statistics(self, columns: Mapping[int, pa.DataType]) -> dict[int, list[StripeStatistics]]:
        """Return the statistics of top-level columns by index, one entry per stripe.

        `columns` maps the indices of the columns to their Arrow types. The result is empty if the file has no
        trustworthy statistics. Raises `CorruptData` if they are damaged.
        """
        if self._stripes is None:
            return {}
        rows = np.diff(self._stripes.first_rows).tolist()
        with decoding(self.path, "the statistics of its stripes"):
            try:
                return read_statistics(self.handle, self.file, columns, rows)
            except TooLarge:
                return {}

    def rows_of(self, chunks: Sequence[int]) -> list[int]:
        """Return the row counts of these stripes. Only call it if `statistics` returned some."""
        assert self._stripes is not None
        counts: list[int] = np.diff(self._stripes.first_rows)[list(chunks)].tolist()
        return counts

    @cached_property
    def _stripes(self) -> Stripes | None:
        with decoding(self.path, "its footer"):
            return read_stripes(self.handle, self.file, self.path)

    def _count_error(self, found: str, rows: int) -> CorruptData:
        return CorruptData(
            f"{redact(self.path)}: {found}, but its footer records {rows:,}. "
            "The file is damaged: restore it, or rewrite its rows."
        )

    def _read(self, stripe: int, fields: tuple[FileField, ...]) -> pa.RecordBatch:
        """Read columns of a stripe, with the members to read; raises `CorruptData`, `UnsupportedFeature`.

        If any name has a dot, which Arrow treats as nesting, all columns are decoded.
        """
        dotted = any("." in name for name in _names(self.schema))
        with decoding(self.path, f"stripe {stripe}"):
            paths = [path for field in fields for path in _paths(field, "")]
            with _far_timestamps(self.path):
                rows = self.file.read_stripe(stripe, columns=None if dotted or not paths else paths)
            rows = rows.select([rows.schema.get_field_index(field.name) for field in fields])
            _refuse_wrapped(self.path, rows.schema)
            if not dotted:
                return rows
            arrays = [prune_members(column, field) for column, field in zip(rows.columns, fields, strict=True)]
            return batch_of(
                arrays, pa.schema([(f.name, a.type) for f, a in zip(fields, arrays, strict=True)]), rows.num_rows
            )


def _refuse_wrapped(path: str, schema: pa.Schema) -> None:
    """Raise `UnsupportedFeature` if the schema has timestamps and pyarrow is older than 25.

    These versions silently wrap out-of-range timestamps of ORC.
    """
    if int(pa.__version__.partition(".")[0]) < 25 and any("timestamp" in str(kind) for kind in schema.types):
        raise UnsupportedFeature(
            f"timestamps in ORC files with pyarrow {pa.__version__}",
            f"It misreads those of {redact(path)} before 1677-09-21 or after 2262-04-11. Install pyarrow 25 or later.",
        )


@contextmanager
def _far_timestamps(path: str) -> Iterator[None]:
    """Context manager: raise `UnsupportedFeature` for timestamps that are valid in ORC, but out of Arrow's range."""
    try:
        yield
    except pa.ArrowInvalid as error:
        if "nanosecond resolution" not in str(error):
            raise
        raise UnsupportedFeature(
            "timestamps before 1677-09-21 or after 2262-04-11 in ORC files",
            f"{redact(path)} has one, which Arrow cannot represent. Select other columns, or rewrite the file as "
            "Parquet with another engine.",
        ) from error


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """Yield the names of the fields, and of the members of their structs at any depth."""
    for field in fields:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from _names(field.type)


def _paths(field: FileField, parent: str) -> Iterator[str]:
    """Yield the dotted names that make `read_stripe` read a field with its members. `parent` precedes them.

    A name includes everything below it.
    """
    path = f"{parent}{field.name}"
    if not pa.types.is_struct(field.type) or not field.children:
        yield path
    else:
        for member in field.children:
            yield from _paths(member, f"{path}.")


def matching_stripes(
    data: OrcData,
    stripes: Sequence[int],
    predicate: Predicate,
    fields: tuple[FileField, ...],
    projection: Projection,
    schema: Schema,
) -> list[int]:
    """Return the stripes that may have rows matching `predicate`, by the statistics in the file's footer.

    `fields` are the file's columns. The projection finds those of the table's `schema` among them. Raises
    `CorruptData`.
    """
    ids = {leaf.bound_id for leaf in leaves(predicate)} - RESERVED_IDS  # row lineage may be inherited, not stored
    found = {i: at[1] for i in ids if (at := projection.leaf_of(i, fields)) is not None and at[1] in fields}
    recorded = data.statistics({field.index: field.type for field in found.values()}) if len(stripes) > 1 else {}
    if not recorded:
        return list(stripes)
    stats = {}
    for field_id, field in found.items():
        chosen = [recorded[field.index][each] for each in stripes]
        nulls = pa.array([each.nulls for each in chosen], pa.int64())
        target = schema.by_id[field_id]
        lower, upper = (_bound([getattr(each, side) for each in chosen], field, target) for side in ("lower", "upper"))
        stats[field_id] = ColumnStats(lower, upper, nulls, None, pa.array(data.rows_of(stripes), pa.int64()))
    mask = might_match(predicate, stats, len(stripes)).to_pylist()
    return [stripe for stripe, kept in zip(stripes, mask, strict=True) if kept]


def _bound(values: list[Any], source: FileField, target: t.Field) -> pa.Array | None:
    """Return the lower or upper bounds (`values`, None if unknown) as an Arrow array of the table column's type.

    None if the type in the file (`source`) does not convert exactly to that of the table (`target`).
    """
    if not isinstance(target.type, t.Atomic | t.Decimal | t.Timestamp) or target.type in (t.UUID, t.BINARY):
        return None
    kind = pa.timestamp("ms", source.type.tz) if pa.types.is_timestamp(source.type) else source.type
    try:
        return cast_leaf(pa.array(values, kind), target.type, target.name)
    except (pa.ArrowException, LakescanError, TypeError, ValueError, ArithmeticError):
        return None


@contextmanager
def open_orc(storage: Storage, path: str, key: FileKey | None = None) -> Iterator[OrcData]:
    """Context manager: open a data or delete file, decrypted with `key` if it is not None.

    Raises `MissingFile`, and `CorruptData` if it is not ORC.
    """
    with open_stream(storage, path, key) as handle:
        with decoding(path, "its footer"):
            file = orc.ORCFile(handle)
        yield OrcData(file, handle, path)
