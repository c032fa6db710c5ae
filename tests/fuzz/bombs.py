"""Decompression bombs: a few bytes that unpack to gigabytes, or that declare huge counts."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa

from tests.fuzz import avro_files, parquet_files

_MANY = 2 * 2**30  # the unpacked size in bytes
_PIECE = bytes(2**24)


def plant(rng: random.Random, folder: Path, *, is_delta: bool) -> str:
    """Plant one bomb and return its name."""
    name = rng.choice(sorted(_DELTA if is_delta else _ICEBERG))
    (_DELTA if is_delta else _ICEBERG)[name](folder)
    return name


def _deflated(prefix: bytes = b"", bits: int = -15) -> bytes:
    """Return zeros that are deflated repeatedly."""
    packer = zlib.compressobj(1, zlib.DEFLATED, bits)
    head = packer.compress(prefix) + packer.flush(zlib.Z_FULL_FLUSH)
    again = packer.compress(_PIECE) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + again * (_MANY // len(_PIECE)) + packer.flush()


def _metadata(folder: Path) -> Path:
    return folder / "metadata/v1.metadata.json"


def _gzip(folder: Path) -> None:
    _metadata(folder).write_bytes(_deflated(b'{"format-version": 2', 31))


def _gzip_in_gzip(folder: Path) -> None:
    path = _metadata(folder)
    path.write_bytes(gzip.compress(gzip.compress(path.read_bytes())))


def _deep_metadata(folder: Path) -> None:
    _metadata(folder).write_text('{"format-version":2,"x":' + "[" * 10**6 + "]" * 10**6 + "}")


def _deep_type(folder: Path) -> None:
    node = json.loads(_metadata(folder).read_text())
    node["schemas"][0]["fields"][0]["type"] = "DEEP"
    deep = '{"type":"list","element-id":7,"element-required":false,"element":' * 900 + '"int"' + "}" * 900
    _metadata(folder).write_text(json.dumps(node).replace('"DEEP"', deep))


def _manifest(make: Callable[[Path], bytes], name: str = "m0") -> Callable[[Path], None]:
    def plant_one(folder: Path) -> None:
        path = folder / f"metadata/{name}.avro"
        path.write_bytes(make(path))

    return plant_one


def _packed_block(path: Path) -> bytes:
    return avro_files.container(avro_files.schema_of(path), 10, _deflated(), b"deflate")


def _zstd_block(path: Path) -> bytes:
    packed = pa.Codec("zstd").compress(_PIECE, asbytes=True) * (_MANY // len(_PIECE))
    return avro_files.container(avro_files.schema_of(path), 10, packed, b"zstandard")


def _many_records(path: Path) -> bytes:
    return avro_files.container(avro_files.schema_of(path), 2**62, bytes(64))


def _records_of_nothing(path: Path) -> bytes:
    schema = b'{"type":"record","name":"r","fields":[{"name":"status","type":"null","field-id":0}]}'
    return avro_files.container(schema, 10**9, b"")


def _items_of_nothing(path: Path) -> bytes:
    schema = (
        b'{"type":"record","name":"r","fields":[{"name":"a","field-id":132,"type":{"type":"array","items":"null"}}]}'
    )
    return avro_files.container(schema, 1, b"\xfe\xff\xff\xff\xff\x0f\x00")


def _endless_number(path: Path) -> bytes:
    return b"Obj\x01" + b"\xff" * 2_000_000


def _within_itself(path: Path) -> bytes:
    schema = b'{"type":"record","name":"r","fields":[{"name":"data_file","field-id":2,"type":["null","r"]}]}'
    return avro_files.container(schema, 1, b"\x02" * 100_000 + b"\x00")


def _deep_schema(path: Path) -> bytes:
    deep = b'{"type":"array","items":' * 20_000 + b'"int"' + b"}" * 20_000
    return avro_files.container(
        b'{"type":"record","name":"r","fields":[{"name":"a","type":' + deep + b"}]}", 1, b"\x00"
    )


def _rows(folder: Path) -> None:
    for path in sorted(folder.rglob("*.parquet")):
        if path.parent.name != "_delta_log":
            parquet_files.say_rows(path, 2**40)


def _avro_rows(folder: Path) -> None:
    """Add a data file whose block unpacks to gigabytes."""
    for path in sorted(folder.glob("data/*.avro")):
        path.write_bytes(_packed_block(path))


def _avro_counts(folder: Path) -> None:
    """Add a data file that declares a billion rows of no bytes."""
    schema = {"type": "record", "name": "row", "fields": [{"name": "x", "type": "null", "field-id": 77}]}
    for path in sorted(folder.glob("data/*.avro")):
        path.write_bytes(avro_files.container(json.dumps(schema).encode(), 10**9, b""))


def _sizes(folder: Path) -> None:
    """Declare a size of 2**60 bytes for each file in the manifests."""
    for path in sorted(folder.glob("metadata/m*.avro")):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            schema, records = json.loads(reader.metadata["avro.schema"]), list(reader)
            header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
        for each in records:
            each["data_file"]["file_size_in_bytes"] = 2**60
        with path.open("wb") as file:
            fastavro.writer(file, schema, records, metadata=header, sync_marker=bytes(16))


def _next(folder: Path) -> Path:
    newest = max((folder / "_delta_log").glob("*.json"))
    return newest.with_name(f"{int(newest.stem) + 1:020d}.json")


def _commit(text: str) -> Callable[[Path], None]:
    return lambda folder: _next(folder).write_text(text) and None


def _sparse_commit(folder: Path) -> None:
    with _next(folder).open("wb") as file:
        file.truncate(6 * 2**30)


def _far_version(folder: Path) -> None:
    log = folder / "_delta_log"
    shutil.copy(max(log.glob("*.json")), log / ("0" + "9" * 19 + ".json"))


def _many_parts(folder: Path) -> None:
    (folder / "_delta_log/_last_checkpoint").write_text('{"version":0,"size":1,"parts":2000000000}')


def _delta_sizes(folder: Path) -> None:
    for path in sorted(folder.glob("_delta_log/*.json")):
        nodes = [json.loads(line) for line in path.read_text().splitlines()]
        for node in nodes:
            if "add" in node:
                node["add"]["size"] = 2**60
        path.write_text("".join(json.dumps(n) + "\n" for n in nodes))


_ICEBERG: dict[str, Callable[[Path], None]] = {
    "gzip": _gzip,
    "gzip in gzip": _gzip_in_gzip,
    "deep metadata": _deep_metadata,
    "deep type": _deep_type,
    "a deflated manifest": _manifest(_packed_block),
    "a deflated manifest list": _manifest(_packed_block, "snap-1"),
    "a zstd manifest": _manifest(_zstd_block),
    "many entries": _manifest(_many_records),
    "many manifests": _manifest(_many_records, "snap-1"),
    "entries of nothing": _manifest(_records_of_nothing),
    "items of nothing": _manifest(_items_of_nothing),
    "an endless number": _manifest(_endless_number),
    "a record within itself": _manifest(_within_itself),
    "a deep schema": _manifest(_deep_schema),
    "2**40 rows": _rows,
    "a deflated data file": _avro_rows,
    "rows of nothing": _avro_counts,
    "sizes of 2**60": _sizes,
}
_FIELDS = ",".join(f'{{"name":"c{n}","type":"long","nullable":true,"metadata":{{}}}}' for n in range(5000))
_METADATA = {"id": "x", "format": {"provider": "parquet"}, "partitionColumns": [], "configuration": {}}
_DELTA: dict[str, Callable[[Path], None]] = {
    "a deep line": _commit('{"commitInfo":' + "[" * 10**6 + "]" * 10**6 + "}"),
    "deep objects": _commit('{"metaData":' + '{"a":' * 10**6 + "1" + "}" * 10**6 + "}"),
    "a long line": _commit('{"commitInfo":{"x":"' + "y" * 50_000_000 + '"}}'),
    "many lines": _commit("{}\n" * 1_000_000),
    "a long number": _commit('{"txn":{"appId":"a","version":' + "9" * 1_000_000 + "}}"),
    "many fields": _commit(
        json.dumps({"metaData": {**_METADATA, "schemaString": '{"type":"struct","fields":[' + _FIELDS + "]}"}})
    ),
    "a commit that is a hole": _sparse_commit,
    "a far version": _far_version,
    "many parts": _many_parts,
    "2**40 rows": _rows,
    "sizes of 2**60": _delta_sizes,
}
