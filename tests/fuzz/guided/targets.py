"""The fuzz targets: each takes bytes, and returns an answer or raises a lakescan error.

A target of a table replaces one of the table's files by the bytes and reads the whole table. The rows and the count
must agree, so that no answer is partial.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

import lakescan
from lakescan.catalogs.rest_credentials import credentials_in
from lakescan.catalogs.unity.client import UnityClient, UnityRefusal
from lakescan.common.cache import CACHE
from lakescan.common.identifiers import location_of, parse_identifier, split_name
from lakescan.delta.metadata.schema_json import parse_schema
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.sql import parse_filter
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.iceberg.view.metadata import parse_view
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions
from lakescan.reading.deletes.deletion_vectors import decode_bitmaps, decode_framed
from lakescan.reading.parquet.footer import parse_footer
from lakescan.statements.select.query import query
from lakescan.statements.syntax.grammar import parse_statement
from lakescan.statements.syntax.parse import StatementKind, statement_of
from lakescan.statements.syntax.parse_dml import parse
from lakescan.statements.syntax.types import parse_type
from lakescan.storage import Storage
from lakescan.storage.locations import normal, split_location
from tests.fuzz.tables import SAMPLES, Sample

_ROWS = pa.table(
    {"n": pa.array([1, 2, None], pa.int64()), "s": ["a", None, "b"], "d": pa.array([0, 1, 2], pa.date32())}
)


class Wrong(AssertionError):
    """An answer that contradicts another answer."""


@dataclass(frozen=True)
class Target:
    """`run` takes the bytes; `seeds` makes the initial inputs; `words` is the dictionary for mutations."""

    run: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    words: tuple[str, ...] = ()


def failure(target: Target, data: bytes) -> BaseException | None:
    """Return the target's failure for these bytes; None for an answer or a lakescan error."""
    try:
        target.run(data)
    except lakescan.LakescanError as error:
        return None if str(error) else error
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return error
    return None


def _text(run: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: run(data.decode("utf-8", "replace"))


def _texts(*seeds: str) -> Callable[[], list[bytes]]:
    return lambda: [each.encode() for each in seeds]


@cache
def _made(sample: Sample) -> tuple[Path, tempfile.TemporaryDirectory[str]]:
    holder = tempfile.TemporaryDirectory(prefix="lakescan-fuzz-")
    folder = Path(holder.name) / "table"
    sample.make(folder)
    return folder, holder


def _in_table(name: str, pattern: str) -> Target:
    """Return a target that replaces the first file of a sample that matches the pattern."""
    sample = next(each for each in SAMPLES if each.name == name)

    def path() -> Path:
        return sorted(_made(sample)[0].glob(pattern))[-1]

    def seeds() -> list[bytes]:
        return [path().read_bytes()]

    def run(data: bytes) -> None:
        folder, place = _made(sample)[0], path()
        whole = place.read_bytes()
        place.write_bytes(data)
        try:
            CACHE.clear()
            table = lakescan.table(str(folder / sample.opened), relocate=sample.relocate(folder))
            count = table.scan().count()
            rows = table.scan().to_arrow()
            if rows.num_rows != count:
                raise Wrong(f"{rows.num_rows} rows, counted as {count}")
            rows.validate(full=True)
        finally:
            place.write_bytes(whole)

    return Target(run, seeds)


def _metadata() -> list[bytes]:
    return [next(_made(SAMPLES[n])[0].glob("metadata/*.json")).read_bytes() for n in (0, 2)]


def _sql(text: str) -> None:
    statement = statement_of(text)
    if statement.kind is StatementKind.QUERY:
        _ = query(statement.text, None, {"t": _ROWS, "u": _ROWS}, ()).explain()
    elif statement.kind.changes_rows:
        parse(statement.text)
    elif statement.kind is StatementKind.OTHER:
        parse_statement(statement.text)


def _filter(text: str) -> None:
    parsed = parse_filter(text)
    if to_json(from_json(to_json(parsed))) != to_json(parsed):
        raise Wrong("a filter's JSON is another filter")


def _condition(text: str) -> None:
    from_json(text)


def _options(text: str) -> None:
    values = dict(line.partition("=")[::2] for line in text.split("\n"))
    for kind in (ReadOptions, WriteOptions):
        try:
            repr(kind.parse(values))
        except lakescan.LakescanError as error:
            str(error)


def _paths(text: str) -> None:
    location_of(text), split_name(text), split_location(text)
    if normal(normal(text)) != normal(text):
        raise Wrong(f"the normal form of {text!r} is not normal")
    for again in (lambda: parse_identifier("c", text), lambda: Storage().local_path(text) if _is_local(text) else None):
        with suppress(lakescan.LakescanError):
            again()


def _is_local(text: str) -> bool:
    return split_location(text)[0] == "file"


def _offset(data: bytes) -> None:
    try:
        node = json.loads(data)
    except (ValueError, RecursionError):
        return  # Spark and other callers pass objects
    _log_table().stream(start=node)


@cache
def _log_table() -> lakescan.Table:
    sample = next(each for each in SAMPLES if each.name == "delta-log")
    return lakescan.table(str(_made(sample)[0]))


def _catalog_answer(data: bytes) -> None:
    import requests

    answer = requests.Response()
    answer.status_code = 200 if data[:1] != b"!" else 409
    answer._content = data.removeprefix(b"!")
    with mock.patch("requests.Session.request", return_value=answer):
        try:
            UnityClient("http://127.0.0.1:1").send("GET", "/tables/x")
        except UnityRefusal as error:
            str(error)


def _credentials(data: bytes) -> None:
    try:
        node = json.loads(data)
    except (ValueError, RecursionError):
        return  # invalid JSON is refused where it is received
    if isinstance(node, dict):
        credentials_in(node, "the answer", {})


def _vectors() -> list[bytes]:
    body = (1681511377).to_bytes(4, "little") + pyroaring.BitMap64([0, 5, 6, 39, 2**33]).serialize()
    runs = pyroaring.BitMap64(range(100_000))
    runs.run_optimize()
    return [body, (1681511377).to_bytes(4, "little") + runs.serialize()]


def _bitmaps(data: bytes) -> None:
    found = decode_bitmaps(data, "x")
    if len(found.serialize()) > 64 * max(len(data), 1):
        raise Wrong("a vector that grew")


def _framed(data: bytes) -> None:
    decode_framed(data, "x")


def _footers() -> list[bytes]:
    out = pa.BufferOutputStream()
    pq.write_table(_ROWS, out)
    data = out.getvalue().to_pybytes()
    return [data[-8 - int.from_bytes(data[-8:-4], "little") : -8]]


def _footer(data: bytes) -> None:
    found = parse_footer(data, "x")
    _ = found.first_rows
    found.starts(1000)
    found.statistics([0, 1, 2])
    found.codecs([0, 1, 2])
    found.dictionary_leaves([0, 1, 2])


_SQL = (
    "SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN ON UNION ALL WITH AS AND OR NOT IN BETWEEN LIKE CASE WHEN THEN END "
    "CAST INTERVAL DATE TIMESTAMP ` ' \" ( ) [ ] , . ; :: => -> :x ? -- /* */ * + - / % || NULL TRUE EXISTS LATERAL "
    "VALUES MERGE INTO USING MATCHED INSERT UPDATE SET DELETE CREATE TABLE ALTER COLUMN ADD DROP RENAME PARTITIONED "
    "CALL OPTIMIZE VACUUM RESTORE DESCRIBE SHOW EXPLAIN VERSION OF STRUCT ARRAY MAP DECIMAL PIVOT WINDOW OVER ROWS \0"
)
_SQL_WORDS = tuple(_SQL.split())
_JSON = ("{", "}", "[", "]", ":", ",", '"', "null", "true", "-1", "1e999", "NaN", "9223372036854775808", "\\ud800")
_DEEP = "(" * 3000

TARGETS: dict[str, Target] = {
    "iceberg-metadata": Target(lambda data: parse_metadata(data, "x"), _metadata, _JSON),
    "view-metadata": Target(
        lambda data: parse_view(data, "x"),
        _texts(
            '{"view-uuid":"00000000-0000-0000-0000-000000000007","format-version":1,"location":"/x","schemas":'
            '[{"schema-id":0,"type":"struct","fields":[{"id":1,"name":"n","required":false,"type":"long"}]}],'
            '"current-version-id":1,"versions":[{"version-id":1,"timestamp-ms":1,"schema-id":0,"summary":{},'
            '"default-namespace":["a"],"representations":[{"type":"sql","sql":"SELECT 1","dialect":"spark"}]}],'
            '"version-log":[{"timestamp-ms":1,"version-id":1}],"properties":{}}'
        ),
        _JSON,
    ),
    "manifest-list": _in_table("iceberg-vectors", "metadata/snap-1.avro"),
    "manifest": _in_table("iceberg-vectors", "metadata/m0.avro"),
    "delete-manifest": _in_table("iceberg-vectors", "metadata/m1.avro"),
    "puffin": _in_table("iceberg-vectors", "data/*.puffin"),
    "data-avro": _in_table("iceberg-formats", "data/*.avro"),
    "data-orc": _in_table("iceberg-formats", "data/*.orc"),
    "data-parquet": _in_table("iceberg-keys", "data/a.parquet"),
    "position-deletes": _in_table("iceberg-formats", "data/d-deletes.parquet"),
    "equality-deletes": _in_table("iceberg-keys", "data/e-deletes.parquet"),
    "delta-commit": _in_table("delta-log", "_delta_log/*3.json"),
    "delta-first-commit": _in_table("delta-vectors", "_delta_log/*0.json"),
    "delta-checkpoint": _in_table("delta-checkpoint", "_delta_log/*.parquet"),
    "delta-last-checkpoint": _in_table("delta-checkpoint", "_delta_log/_last_checkpoint"),
    "delta-vector": _in_table("delta-vectors", "*.bin"),
    "delta-vector-commit": _in_table("delta-vectors", "_delta_log/*1.json"),
    "delta-schema": Target(
        _text(lambda text: parse_schema(text, "name", "x")),
        _texts(
            '{"type":"struct","fields":[{"name":"a","type":{"type":"map","keyType":"string","valueType":"decimal(9,2)",'
            '"valueContainsNull":true},"nullable":true,"metadata":{"delta.columnMapping.id":1,'
            '"delta.columnMapping.physicalName":"c"}}]}'
        ),
        _JSON,
    ),
    "parquet-footer": Target(_footer, _footers),
    "bitmaps": Target(_bitmaps, _vectors),
    "framed-vector": Target(_framed, lambda: [len(each).to_bytes(4, "big") + each for each in _vectors()]),
    "sql": Target(
        _text(_sql),
        _texts(
            "SELECT n, count(*) FROM t JOIN u ON t.n = u.n WHERE s LIKE 'a%' GROUP BY n ORDER BY 2 LIMIT 3",
            "WITH w AS (SELECT * FROM t) SELECT CASE WHEN n IN (1, 2) THEN date_add(d, 1) END FROM w",
            "MERGE INTO a.b.c t USING u ON t.n = u.n WHEN MATCHED AND n > 3 THEN UPDATE SET * WHEN NOT MATCHED THEN "
            "INSERT (n) VALUES (1)",
            "CREATE TABLE a.b (id BIGINT NOT NULL, s STRUCT<x: MAP<STRING, INT>>) USING iceberg PARTITIONED BY "
            "(bucket(4, id)) TBLPROPERTIES ('a' = 'b')",
            "ALTER TABLE a.b ADD COLUMN c.d DECIMAL(9, 2) AFTER e",
            "CALL a.system.expire_snapshots(table => 'b.c', older_than => TIMESTAMP '2026-01-01 00:00:00')",
            "INSERT INTO a.b PARTITION (d = '1') SELECT n FROM t; ",
            "UPDATE a.b SET n = n + 1 WHERE s = 'x' AND " + _DEEP,
            "SELECT " + _DEEP,
        ),
        _SQL_WORDS,
    ),
    "filter": Target(
        _text(_filter),
        _texts("a = 1 AND (b LIKE 'x%' OR NOT c IS NULL)", "a.b IN (1, 2.5, 'x') AND d > DATE '2026-01-01'", _DEEP),
        _SQL_WORDS,
    ),
    "condition": Target(
        _text(_condition), _texts(to_json(parse_filter("a = 1 AND b IN ('x', 'y')")), "[" * 9000), _JSON
    ),
    "type": Target(_text(parse_type), _texts("struct<a: map<string, decimal(9, 2)>, b: array<timestamp_ntz>>")),
    "options": Target(
        _text(_options),
        _texts('snapshot-id=7\nsplit-size=128m\nrelocate={"/a": "/b"}\nas-of-timestamp=2026-01-01', "where=a = 1"),
    ),
    "paths": Target(
        _text(_paths),
        _texts("s3a://b//x/./y/../z", "file:///tmp/a%2Fb", "c.`a``b`.t", "abfss://c@a.dfs.core.windows.net/x"),
        ("..", "/", "//", "%2e", "file:", "s3://", "`", ".", "\n", "\0"),
    ),
    "stream-offset": Target(_offset, _texts('{"reservoirVersion": 3, "index": 1, "isStartingVersion": false}'), _JSON),
    "catalog-answer": Target(
        _catalog_answer,
        _texts('{"tables": [{"name": "a"}]}', '!{"error_code": "X", "message": "y"}', "[" * 9000),
        _JSON,
    ),
    "credentials": Target(
        _credentials,
        _texts('{"storage-credentials": [{"prefix": "s3://a", "config": {"s3.access-key-id": "x"}}]}'),
        _JSON,
    ),
}
