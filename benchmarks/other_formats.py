"""Read ORC and Avro data files: ORC against pyarrow's own reader, Avro against Parquet files of the same rows.

Each table has 1,000,000 rows of six columns (two longs, an int, a double, a short text, a timestamp) in one file.
`pyarrow.orc` reads the file into one Arrow table. The peer of Avro is an Iceberg table in a zstd Parquet file, also
read by lakescan. Avro blocks have 64 kB before compression, as Java writes them. The last row is `fastavro` without
the extra `fast`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from unittest import mock

import lakescan
from benchmarks.data import FOLDER, rows_of
from benchmarks.harness import Result, compare

ROWS = 1_000_000
_CODECS = ("null", "snappy", "deflate")
_FIELDS = (
    ("id", "long"),
    ("user", "long"),
    ("kind", "int"),
    ("amount", "double"),
    ("word", "string"),
    ("at", "timestamp"),
)
_TWO = ("user", "amount")


def run(rows: int, runs: int) -> list[Result]:
    """Read all columns and two columns, in each format."""
    rows = min(rows, ROWS)
    import polars  # noqa: F401  # what the columnar decoder imports, so that no run does
    from pyarrow import orc

    results = []
    parquet = _table("parquet", rows, compression="zstd")
    columns: dict[str, tuple[str, ...] | None] = {"all columns": None, "two columns": _TWO}
    for label, some in columns.items():
        location = _table("orc", rows, compression="zlib")
        path = lakescan.table(location).scan().plan().files["path"][0].as_py().removeprefix("file://")
        peer = ("pyarrow.orc", partial(_orc, orc, path, some))
        results.append(compare(f"ORC (zlib), {label}", ("to_arrow", _read(location, some)), peer, runs=runs, aim=1.5))
    for codec in _CODECS:
        location = _table("avro", rows, codec=codec, sync_interval=64_000)
        for label, some in columns.items():
            ours = ("to_arrow", _read(location, some))
            peer = ("Parquet, to_arrow", _read(parquet, some))
            results.append(compare(f"Avro ({codec}), {label}", ours, peer, runs=runs, aim=3))
    ours = ("to_arrow without polars-avro", _by_records(location))
    results.append(compare("Avro (deflate), all columns", ours, ("Parquet, to_arrow", _read(parquet, None)), runs=1))
    return results


def _read(location: str, columns: tuple[str, ...] | None) -> Callable[[], object]:
    table = lakescan.table(location)
    return lambda: (table.scan() if columns is None else table.scan().select(*columns)).to_arrow()


def _orc(orc: object, path: str, columns: tuple[str, ...] | None) -> object:
    return orc.ORCFile(path).read(columns=None if columns is None else list(columns))  # type: ignore[attr-defined]


def _by_records(location: str) -> Callable[[], object]:
    read = _read(location, None)

    def without() -> object:
        with mock.patch("lakescan.reading.avro.file.columnar_decoder", return_value=None):
            return read()

    return without


def _table(file_format: str, rows: int, **writing: object) -> str:
    """Make a table of one file once, and return its metadata file."""
    from samples.iceberg_table import write_table

    folder = FOLDER / f"other_formats_{file_format}_{'_'.join(map(str, writing.values()))}_{rows}"
    made = folder / "metadata" / "v1.metadata.json"
    if not made.exists():
        shutil.rmtree(folder, ignore_errors=True)
        fields = [{"id": n, "name": name, "required": False, "type": kind} for n, (name, kind) in enumerate(_FIELDS, 1)]
        write_table(folder, fields, [rows_of(rows)], file_format=file_format, writing=writing)
    return f"file://{made}"
