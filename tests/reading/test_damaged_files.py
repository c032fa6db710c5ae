"""Damaged data files raise an error that names the file and the damage: never other rows, never a crash."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc
from samples.iceberg_deletes import local

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptData, NotEnoughMemory, StorageError
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import check_rows, open_data_file
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.field_ids import read_fields
from lakescan.reading.parquet.file import open_parquet
from lakescan.reading.parquet.footer import Footer, decode_bounds
from lakescan.reading.projection import resolve
from lakescan.storage import Storage
from tests.support.catalog import local_catalog
from tests.support.faulty import faulty_storage

COLUMNS = Schema((t.Field(1, "n", t.LONG), t.Field(2, "s", t.STRING)))
ROWS = pa.table({"n": pa.array(range(9000), pa.int64()), "s": [f"text {n % 700}" for n in range(9000)]})


def rows_of(path: Path, file_format: str = "parquet", *, storage: Storage | None = None, stop: int = NO_END) -> int:
    """Count the rows of a file with all columns decoded; check that the batches' positions are right."""
    matching, found = FieldMatching(by_id=False), 0
    with open_data_file(storage or Storage(), str(path), file_format) as data:
        projection = resolve(read_fields(data.schema, matching), COLUMNS, matching, {})
        for first, batch in data.batches(data.chunks(0, stop), projection, 1000):
            assert first == found
            found += batch.num_rows
    return found


def varint(number: int) -> bytes:
    """Encode a number as in a footer: zigzag, seven bits per byte."""
    value, found = number << 1, bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def written(path: Path, **options: Any) -> bytes:
    """Write the rows as a Parquet file of two row groups and return its bytes."""
    pq.write_table(ROWS, path, row_group_size=4500, **options)
    return path.read_bytes()


def written_as(path: Path, file_format: str) -> None:
    """Write the rows as a compressed file of any format."""
    if file_format == "orc":
        orc.write_table(ROWS, path, compression="zstd")
    elif file_format == "parquet":
        written(path, compression="zstd", use_dictionary=False)
    else:
        fields = [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]
        with path.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "r", "fields": fields}, ROWS.to_pylist(), codec="deflate")


def test_pages_with_fewer_rows_than_in_the_footer_are_noticed(tmp_path: Path) -> None:
    data = written(tmp_path / "f", compression="none", use_dictionary=False, write_statistics=False)
    length = int.from_bytes(data[-8:-4], "little")
    pages, end = data[: -8 - length], data[-8 - length :]
    assert varint(4500) in pages
    (tmp_path / "f").write_bytes(pages.replace(varint(4500), varint(4400)) + end)
    with pytest.raises(CorruptData, match=r"200 rows fewer than"):
        rows_of(tmp_path / "f")


@pytest.mark.parametrize(("old", "new"), [(9000, 9001), (4500, 4400)])
def test_a_footer_that_contradicts_itself_is_refused(tmp_path: Path, old: int, new: int) -> None:
    data = written(tmp_path / "f")
    (tmp_path / "f").write_bytes(data.replace(varint(old), varint(new)))
    with pytest.raises(CorruptData, match=r"footer records .* rows, but its row groups have"):
        rows_of(tmp_path / "f")


def test_no_row_group_is_lost_between_splits(tmp_path: Path) -> None:
    written(tmp_path / "f")
    size = (tmp_path / "f").stat().st_size
    with open_parquet(Storage(), str(tmp_path / "f")) as data:
        for step in (size // 7, size // 2, size):
            found = [g for n in range(0, size, step) for g in data.chunks(n, n + step if n + step < size else NO_END)]
            assert found == [0, 1]


def test_a_row_group_that_begins_outside_the_file_is_an_error_of_each_split(tmp_path: Path) -> None:
    written(tmp_path / "f")
    with open_parquet(Storage(), str(tmp_path / "f")) as data:
        for size in (0, 4, 100):
            with pytest.raises(CorruptData, match=r"row group \d starts at byte"):
                data.footer.starts(size)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_a_damaged_part_is_named(tmp_path: Path, file_format: str) -> None:
    path = tmp_path / "f"
    written_as(path, file_format)
    assert rows_of(path, file_format) == 9000
    data = bytearray(path.read_bytes())
    size = len(data)
    data[size // 8 : size // 2] = b"\xff" * (size // 2 - size // 8)
    path.write_bytes(data)
    where = {"parquet": "column '[ns]' of row group [01]", "orc": "stripe 0", "avro": "block|marker"}[file_format]
    with pytest.raises(CorruptData, match=rf"{path}.*({where})"):
        rows_of(path, file_format)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("content", [b"", b"x", b"PAR1", b"PAR1" * 9, b"Obj\x01" + b"\xff" * 40, b"ORC" * 30])
def test_a_file_that_is_not_a_data_file_raises_a_lakescan_error(
    tmp_path: Path, file_format: str, content: bytes
) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(CorruptData, match=str(tmp_path / "f")):
        rows_of(tmp_path / "f", file_format)


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("fault", [OSError(5, "input/output error"), ValueError("a client library"), TimeoutError("")])
@pytest.mark.parametrize("after", [0, 1, 2, 4])
def test_a_storage_error_is_not_reported_as_damage(
    tmp_path: Path, file_format: str, fault: Exception, after: int
) -> None:
    path = tmp_path / "f"
    written_as(path, file_format)
    try:
        assert rows_of(path, file_format, storage=faulty_storage("read", fault, after=after)) == 9000
    except StorageError as error:
        told = str(error)
        assert str(path) in told
    else:
        assert after > 0  # there were fewer reads than that


def test_rows_declared_only_by_a_footer_are_not_returned(tmp_path: Path) -> None:
    """A count, or a scan of partition columns, reads no column: 2**40 declared rows would never end."""
    data = written(tmp_path / "f")
    size = int.from_bytes(data[-8:-4], "little")
    footer = data[-8 - size : -8].replace(varint(9000), varint(2**41)).replace(varint(4500), varint(2**40))
    (tmp_path / "f").write_bytes(data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with open_parquet(Storage(), str(tmp_path / "f")) as data_file:
        none = resolve(
            read_fields(data_file.schema, FieldMatching(by_id=False)), Schema(()), FieldMatching(by_id=False), {}
        )
        with pytest.raises(CorruptData, match="rows fewer than the footer records"):
            list(data_file.batches([0, 1], none, 1 << 20))


@pytest.mark.parametrize("recorded", [None, -1, 3])
def test_an_unknown_row_count_is_not_a_contradiction(recorded: int | None) -> None:
    check_rows("f", 3, recorded)
    with pytest.raises(CorruptData, match="f has 3 rows, but the table's metadata records 4"):
        check_rows("f", 3, 4)


@pytest.fixture(params=["iceberg", "delta"])
def table(request: Any, tmp_path: Path) -> tuple[str, Path]:
    """Make a table of one data file; return both."""
    rows = pa.table({"n": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", "c"]})
    if request.param == "delta":
        deltalake.write_deltalake(str(tmp_path / "t"), rows)
        return str(tmp_path / "t"), next((tmp_path / "t").glob("*.parquet"))
    made = local_catalog(tmp_path).create_table("n.t", rows.schema)
    made.append(rows)
    return made.metadata_location, local(next(iter(made.inspect.files()["file_path"].to_pylist())))


@pytest.mark.parametrize("columns", [("n",), (), ("s", "n")])
def test_a_file_with_another_row_count_than_recorded_is_refused(
    table: tuple[str, Path], columns: tuple[str, ...]
) -> None:
    location, path = table
    kept = pq.read_table(path)
    pq.write_table(kept.slice(0, 2), path)
    scan = lakescan.table(location).scan()
    with pytest.raises(CorruptData, match="has 2 rows, but the table's metadata records 3"):
        scan.select(*columns).to_arrow()
    with pytest.raises(CorruptData, match="has 2 rows, but the table's metadata records 3"):
        scan.where("n > 1").to_arrow()


def test_errors_keep_their_message_through_arrows_c_stream(table: tuple[str, Path]) -> None:
    import duckdb
    import polars

    location, path = table
    path.write_bytes(b"not a Parquet file, but a text")
    for consume in (
        lambda reader: duckdb.from_arrow(reader).fetchall(),
        polars.from_arrow,
        lambda reader: pa.RecordBatchReader.from_stream(reader).read_all(),
        lambda reader: reader.read_all(),
    ):
        with pytest.raises(Exception, match="is not a readable Parquet file") as raised:
            consume(lakescan.table(location).scan().to_reader())
        assert path.name in str(raised.value)


def test_a_file_that_needs_too_much_memory_is_named() -> None:
    with pytest.raises(NotEnoughMemory, match=r"f: its contents .* malloc of size 99"), decoding("f"):
        raise pa.ArrowMemoryError("malloc of size 99 failed")


_KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(allow_nan=False, width=32)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(st.characters(codec="utf-8"), max_size=8)),
    (pa.binary(), st.binary(max_size=8)),
    (pa.date32(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.time64("us"), st.times()),
    (pa.decimal128(9, 2), st.decimals(-9999999, 9999999, places=2)),
    (pa.decimal128(38, 5), st.decimals(Decimal(-(10**32)), Decimal(10**32), places=5)),
]


@settings(max_examples=60)
@given(st.data(), st.sampled_from(_KINDS), st.booleans())
def test_bounds_of_footers_equal_those_that_pyarrow_reads(
    data: st.DataObject, kind: tuple[pa.DataType, st.SearchStrategy[Any]], as_integers: bool
) -> None:
    values = data.draw(st.lists(st.none() | kind[1], min_size=1, max_size=4))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": pa.array(values, kind[0])}), sink, store_decimal_as_integer=as_integers)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    raw = sink.getvalue().to_pybytes()
    length = int.from_bytes(raw[-8:-4], "little")
    footer = Footer("f", file.metadata, raw[-8 - length : -8])
    found = footer.statistics([0])[0]
    expected = file.metadata.row_group(0).column(0).statistics
    assert found[0].null_count == expected.null_count
    for side, bound in (("lower", "min"), ("upper", "max")):
        ours = decode_bounds(found, side, file.schema.column(0).physical_type, kind[0], None)
        assert ours is not None
        assert ours.to_pylist() == [getattr(expected, bound) if expected.has_min_max else None]


def test_bounds_of_another_length_or_type_are_ignored() -> None:
    from lakescan.reading.parquet.footer import ChunkStatistics

    for wrong in (b"", b"\x01", b"\x01" * 9):
        short = [ChunkStatistics(2, wrong, wrong, 0, True)]
        assert decode_bounds(short, "lower", "INT64", pa.int64(), None).to_pylist() == [None]
    other = [ChunkStatistics(1, b"\x01" * 8, b"\x01" * 8, 0, True)]
    assert decode_bounds(other, "lower", "INT64", pa.int64(), None).to_pylist() == [None]
    unordered = [ChunkStatistics(6, b"a", b"b", 0, False)]
    assert decode_bounds(unordered, "lower", "BYTE_ARRAY", pa.string(), None).to_pylist() == [None]
