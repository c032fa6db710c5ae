"""Read one table with one engine in a separate process: a JSON job on stdin, a JSON answer as the last line of stdout.

With the argument `--many`, stdin has one job per line. The process loads the engines once, then a fork of it does each
job within the job's `seconds`, and prints one answer per line. The module is run by its path, also by interpreters
without lakescan, so it imports lakescan only to read with it.

A job has `engine`, `format`, `location`, `metadata` (an Iceberg table's newest metadata file), `relocate`,
`storage_options` and `rows`, the largest number of rows whose values are compared. It bounds the loops over rows here.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import hashlib
import importlib
import importlib.metadata
import json
import math
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

_TICKS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # nanoseconds
# The modules that each engine needs for reading: imported once, before the forks.
_LOADED = {
    "lakescan": (
        "pyarrow.parquet",
        "polars",
        "polars_avro",
        "lakescan.api.open",
        "lakescan.local.reader",
        "lakescan.local.reader",
        "lakescan.iceberg.scan.snapshot_scan",
        "lakescan.iceberg.table",
        "lakescan.delta.scan.scan_files",
        "lakescan.delta.table",
    ),
    "pyiceberg": ("pyiceberg.table", "pyiceberg.io.pyarrow"),
    "polars": ("polars", "deltalake", "pyiceberg.table", "pyiceberg.io.pyarrow"),
}
_NOT_THERE = re.compile(r"[Cc]annot open file|[Nn]o such file|[Nn]ot a directory")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def main() -> None:
    """Read the job of stdin, or with `--many` one job per line, and print the answers."""
    if sys.argv[1:] != ["--many"]:
        print("\n" + json.dumps(_answer(json.load(sys.stdin))), flush=True)
        os._exit(0)  # without waiting for threads of the engine, which may never end
    jobs = [json.loads(line) for line in sys.stdin]
    for name in {module for job in jobs for module in _LOADED.get(job["engine"], (job["engine"],))}:
        with contextlib.suppress(ImportError):  # the answer to each job reports it
            importlib.import_module(name)
    for job in jobs:
        print(json.dumps(run_fork(job)), flush=True)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    try:
        answer["version"] = _version(job["engine"])
        if job["engine"] == "lakescan":
            answer |= _facts(job)
        answer |= digest_rows(READERS[job["engine"]](job), job["rows"])
    except BaseException as error:
        # A panic of an engine in Rust is a BaseException, and counts as an answer.
        answer |= {"error": type(error).__name__, "words": " ".join(str(error).split())[:2000]}
        answer["feature"] = getattr(error, "feature", None)
    return answer


def _version(engine: str) -> str:
    """Return the engine's version; for lakescan that of the imported code, not of the installed metadata."""
    version = importlib.metadata.version(engine)
    return importlib.import_module("lakescan").__version__ if engine == "lakescan" else version


def run_fork(job: dict[str, Any]) -> dict[str, Any]:
    """Run a job in a fork with the job's folder as working directory, and return its answer.

    If the fork does not answer, `error` is `Hang` (killed after the job's `seconds`), `Crash` (by a signal) or
    `NoAnswer`.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.dup2(os.open(os.devnull, os.O_RDWR), 1)
        os.chdir(job["folder"])
        with os.fdopen(writing, "w") as out:
            out.write(json.dumps(_answer(job)))
        os._exit(0)
    os.close(writing)
    data, deadline = b"", time.monotonic() + job["seconds"]
    with os.fdopen(reading, "rb", 0) as source:
        while select.select([source], [], [], max(0, deadline - time.monotonic()))[0]:
            piece = source.read(1 << 16)
            if not piece:
                break
            data += piece
        else:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return {"error": "Hang", "words": f"no answer within {job['seconds']:g} s"}
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return {"error": "Crash", "words": signal.Signals(os.WTERMSIG(status)).name}
    answer: dict[str, Any] = json.loads(data) if data else {"error": "NoAnswer", "words": f"status {status}"}
    return answer


def digest_rows(batches: pa.RecordBatchReader, most: int) -> dict[str, Any]:
    """Count rows and digest their values, independent of the order of rows.

    Returns the number of `rows`, the names of `columns`, and digests. `digest` covers whole rows, and `of` each column.
    Above `most` rows, `digest` is None and the others are missing. Some engines return maps as lists of structs of
    `key` and `value`, so such lists count as maps, whose entries have no order. `lists` has order-sensitive digests of
    the columns with such lists.
    """
    names = sorted(batches.schema.names)
    rows, whole, columns = 0, 0, dict.fromkeys(names, 0)
    lists = {name: 0 for name in names if _holds_entries(batches.schema.field(name).type)}
    for batch in batches:
        rows += batch.num_rows
        if rows > most:
            continue
        found = [[repr(v) for v in plain(batch.column(name))] for name in names]
        for name, texts in zip(names, found, strict=True):
            columns[name] = _add_digests(columns[name], texts)
        whole = _add_digests(whole, map("\0".join, zip(*found, strict=True)))
        for name in lists:
            lists[name] = _add_digests(lists[name], map(repr, plain(batch.column(name), entries_are_maps=False)))
    if rows > most:
        return {"rows": rows, "columns": names, "digest": None}
    return {
        "rows": rows,
        "columns": names,
        "digest": f"{whole:032x}",
        "of": {n: f"{d:032x}" for n, d in columns.items()},
        "lists": {n: f"{d:032x}" for n, d in lists.items()},
    }


def _add_digests(digest: int, texts: Iterable[str]) -> int:
    """Add the hashes of texts to a digest, modulo 2^128, so that their order does not matter."""
    for text in texts:
        digest += int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest())
    return digest % (1 << 128)


def _holds_entries(kind: pa.DataType) -> bool:
    """Return whether a type contains a list of `key` and `value` structs, and no map."""
    if isinstance(kind, pa.BaseExtensionType):
        return _holds_entries(kind.storage_type)
    inner = [kind.field(n).type for n in range(kind.num_fields)]
    if pa.types.is_map(kind) or any(map(_holds_maps, inner)):
        return False
    return _is_list_of_entries(kind) or any(map(_holds_entries, inner))


def _holds_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_holds_maps(kind.field(n).type) for n in range(kind.num_fields))


def _is_list_of_entries(kind: pa.DataType) -> bool:
    """Return whether a type is a list of structs of `key` and `value`, which is how Polars represents maps."""
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return is_list and pa.types.is_struct(kind.value_type) and [f.name for f in kind.value_type] == ["key", "value"]


def plain(array: pa.Array, *, entries_are_maps: bool = True) -> list[Any]:
    """Return an array's values as Python values that are equal for the same values in different Arrow types.

    With `entries_are_maps`, lists of structs of `key` and `value` count as maps, whose entries are sorted.
    """
    kind = array.type
    inner = partial(plain, entries_are_maps=entries_are_maps)
    if isinstance(kind, pa.BaseExtensionType):
        return inner(array.storage)
    if pa.types.is_dictionary(kind):
        return inner(array.dictionary_decode())
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        # As integers: Python's types cannot represent all dates and times.
        counted = array.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        return [None if v is None else ("t", v * _TICKS[kind.unit]) for v in counted.to_pylist()]
    if pa.types.is_date(kind):
        days = array.cast(pa.date32()).cast(pa.int32())
        return [None if v is None else ("d", v) for v in days.to_pylist()]
    if pa.types.is_struct(kind):
        members = [inner(array.field(n)) for n in range(kind.num_fields)]
        names = [kind.field(n).name for n in range(kind.num_fields)]
        valid = array.is_valid().to_pylist()
        return [
            tuple(zip(names, (m[n] for m in members), strict=True)) if is_there else None
            for n, is_there in enumerate(valid)
        ]
    if pa.types.is_map(kind):
        return _lists(array, list(zip(inner(array.keys), inner(array.items), strict=True)), is_map=True)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        is_map = entries_are_maps and _is_list_of_entries(kind)
        values = inner(array.values)
        if is_map:
            values = [None if v is None else tuple(each for _, each in v) for v in values]
        return _lists(array, values, is_map=is_map)
    if pa.types.is_fixed_size_list(kind):
        return inner(array.cast(pa.list_(kind.value_type)))
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):  # Arrow 26 casts them to empty lists
        return inner(pa.array(array.to_pylist(), pa.large_list(kind.value_type)))
    try:
        values = array.to_pylist()
    except UnicodeDecodeError:  # written so; the engines can still be compared by the bytes
        found = array.cast(pa.large_binary()).to_pylist()
        values = [None if v is None else v.decode(errors="surrogateescape") for v in found]
    return [_plain_value(v) for v in values]


def _lists(array: Any, values: list[Any], *, is_map: bool) -> list[Any]:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    found: list[Any] = []
    for n, is_there in enumerate(valid):
        part = values[offsets[n] : offsets[n + 1]]
        found.append((sorted(part, key=repr) if is_map else part) if is_there else None)
    return found


def _plain_value(value: Any) -> Any:
    match value:
        case float():
            return ("NaN",) if math.isnan(value) else value + 0.0
        case bytes():
            return "bytes", value.hex()
        case str() if len(value) == 36 and _UUID.fullmatch(value):
            return "bytes", value.replace("-", "")  # some engines have UUIDs as texts, others as 16 bytes
        case decimal.Decimal():
            text = f"{value:f}"
            return "decimal", text.rstrip("0").rstrip(".") if "." in text else text
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
    return value


def _facts(job: dict[str, Any]) -> dict[str, Any]:
    """Describe the job's table as lakescan reads its metadata.

    Returns `format_version`, `features`, and the numbers of data `files` and of `deletes` by kind.
    """
    opened = _open_table(job)
    metrics = opened.scan().plan().report.metrics
    deletes = {
        "equality deletes": metrics.equality_delete_files,
        "position deletes": metrics.positional_delete_files,
        "deletion vectors": metrics.dvs,
    }
    features: list[str] = []
    if "detail" in opened.metadata_tables:
        features = opened.inspect("detail").column("tableFeatures")[0].as_py() or []
    else:
        kinds = set(opened.inspect("files").column("file_format").to_pylist())
        features = sorted(str(kind).upper() for kind in kinds if kind)
    return {
        "format_version": opened.format_version,
        "features": features,
        "files": metrics.result_data_files,
        "deletes": {name: count for name, count in deletes.items() if count},
    }


def _open_table(job: dict[str, Any]) -> Any:
    import lakescan

    return lakescan.table(
        job["location"], relocate=job["relocate"] or None, storage_options=job["storage_options"] or None
    )


def _lakescan(job: dict[str, Any]) -> pa.RecordBatchReader:
    return _open_table(job).scan().to_reader()


def _deltalake(job: dict[str, Any]) -> pa.RecordBatchReader:
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(job["location"], storage_options=job["storage_options"] or None)
    found = QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return pa.RecordBatchReader.from_stream(found)


def _pyiceberg(job: dict[str, Any]) -> pa.RecordBatchReader:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(job["metadata"]).scan().to_arrow().to_reader()


def _polars(job: dict[str, Any]) -> pa.RecordBatchReader:
    import polars

    if job["format"] == "delta":
        return _rows(polars.scan_delta(job["location"], storage_options=job["storage_options"] or None))
    # Try the native reader, then the pyiceberg reader.
    return first_answer(
        lambda: _rows(polars.scan_iceberg(job["metadata"])),
        lambda: _rows(polars.scan_iceberg(job["metadata"], reader_override="pyiceberg")),
    )


def _rows(frame: Any) -> pa.RecordBatchReader:
    return frame.collect().to_arrow().to_reader()


def _duckdb(job: dict[str, Any]) -> pa.RecordBatchReader:
    import duckdb

    # Only extensions that are already installed: a report downloads nothing.
    connection = duckdb.connect(config={"autoinstall_known_extensions": False})
    for name in ("avro", "iceberg") if job["format"] == "iceberg" else ("delta",):
        connection.execute(f"LOAD '{_extension(name, duckdb.__version__)}'")

    def rows(text: str, *values: str) -> pa.RecordBatchReader:
        # A table and not a reader, which would need the connection to stay open.
        return connection.execute(text, list(values)).to_arrow_table().to_reader()

    if job["format"] == "delta":
        return rows("SELECT * FROM delta_scan(?)", job["location"])
    # First by the metadata file, whose paths lead to the other files; then as a moved table, by folder and version.
    folder, _, file = job["metadata"].rpartition("/metadata/")
    moved = "allow_moved_paths = true, version = ?, version_name_format = '%s%s.metadata.json'"
    codec = "gzip" if file.endswith(".gz.metadata.json") else "none"
    version = file.removesuffix(".metadata.json").removesuffix(".gz")
    return first_answer(
        lambda: rows("SELECT * FROM iceberg_scan(?)", job["metadata"]),
        lambda: rows(
            f"SELECT * FROM iceberg_scan(?, {moved}, metadata_compression_codec = '{codec}')", folder, version
        ),
    )


def first_answer(*ways: Callable[[], pa.RecordBatchReader]) -> pa.RecordBatchReader:
    """Return the rows of the first of the `ways` to read that succeeds.

    If none does, the first error is raised, preferably one that is not about a missing file.
    """
    errors = []
    for way in ways:
        try:
            return way()
        except BaseException as error:  # a panic of Rust, too
            errors.append(error)
    raise next((each for each in errors if not _NOT_THERE.search(str(each))), errors[0])


def _extension(name: str, version: str) -> str:
    """Return the path of a DuckDB extension that a Python package bundles; else its name, which DuckDB looks up.

    An extension for the DuckDB version `version` is preferred.
    """
    for package in (f"duckdb_extension_{name}", f"duckdb_ext_{name}"):
        for folder in sys.path:
            found = sorted(Path(folder, package).rglob(f"{name}.duckdb_extension"))
            if found:
                return str(next((each for each in found if f"v{version}" in each.parts), found[0]))
    return name


READERS: dict[str, Callable[[dict[str, Any]], pa.RecordBatchReader]] = {
    "lakescan": _lakescan,
    "deltalake": _deltalake,
    "pyiceberg": _pyiceberg,
    "polars": _polars,
    "duckdb": _duckdb,
}

if __name__ == "__main__":
    main()
