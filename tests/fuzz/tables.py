"""The tables that are damaged: handmade with the same bytes in every run, so that a seed always draws the same damage.

Paths in their metadata begin with `HOME`; the tables are read with `relocate`.
"""

from __future__ import annotations

import io
import json
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring
from pyarrow import orc
from samples import iceberg_deletes as ice
from samples.delta_deletes import encode_z85, inline_vector

HOME = "file:///fuzz"
_SNAPSHOT = 7_000_000_000_000_000_001
_MARKER = bytes(range(16))
_FIELDS = [
    {"id": 1, "name": "n", "required": False, "type": "long"},
    {"id": 2, "name": "s", "required": False, "type": "string"},
    {
        "id": 3,
        "name": "tags",
        "required": False,
        "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False},
    },
    {"id": 5, "name": "price", "required": False, "type": "double"},
]


@dataclass(frozen=True)
class Sample:
    """A table: how it is made in a folder, and the location that is opened in there.

    With `rows_are_counted`, the number of rows does not depend on their values. `places` maps prefixes of paths in the
    metadata to the folder of the copy and the folder that the table was made in.
    """

    name: str
    make: Callable[[Path], None]
    opened: str
    rows_are_counted: bool = True
    places: tuple[tuple[str, str, str], ...] = ((HOME, "/", "/"),)

    def relocate(self, folder: Path) -> dict[str, str]:
        """Map the prefixes of paths in the metadata to the copy in a folder."""
        return {old: new.replace(root, str(folder), 1) for old, new, root in self.places}


def rows(first: int, count: int) -> pa.Table:
    """Return `count` rows, numbered from `first`."""
    numbers = range(first, first + count)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "s": [None if n % 9 == 4 else f"text {n % 13}" for n in numbers],
            "tags": pa.array([[str(n)] * (n % 3) for n in numbers], pa.list_(pa.string())),
            "price": [n / 4 for n in numbers],
        }
    )


def _with_ids(table: pa.Table) -> pa.Table:
    ids = {f["name"]: f["id"] for f in _FIELDS}
    element = pa.field("element", pa.string(), metadata={"PARQUET:field_id": "4"})
    fields = [
        pa.field(
            f.name, pa.list_(element) if f.name == "tags" else f.type, metadata={"PARQUET:field_id": str(ids[f.name])}
        )
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def _parquet(path: Path, table: pa.Table) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(_with_ids(table), path, row_group_size=max(1, table.num_rows // 2), compression="zstd")
    return path.stat().st_size


def _orc(path: Path, table: pa.Table) -> int:
    ids = {"n": "1", "s": "2", "tags": "3", "price": "5"}
    fields = [pa.field(f.name, f.type, metadata={"iceberg.id": ids[f.name]}) for f in table.schema]
    orc.write_table(table.cast(pa.schema(fields)), path, compression="zlib")
    return path.stat().st_size


def _avro(path: Path, table: pa.Table) -> int:
    tags = {"type": "array", "items": ["null", "string"], "element-id": 4}
    kinds = {"n": (1, "long"), "s": (2, "string"), "tags": (3, tags), "price": (5, "double")}
    fields = [{"name": n, "type": ["null", kind], "default": None, "field-id": i} for n, (i, kind) in kinds.items()]
    return _container(path, {"type": "record", "name": "row", "fields": fields}, table.to_pylist(), {})


def _container(path: Path, schema: dict[str, Any], records: list[Any], header: dict[str, str]) -> int:
    out = io.BytesIO()
    parsed = fastavro.parse_schema(schema)
    fastavro.writer(out, parsed, records, codec="deflate", metadata=header, sync_marker=_MARKER)
    path.write_bytes(out.getvalue())
    return len(out.getvalue())


class _Iceberg:
    """Build an Iceberg table."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder, self.version = folder, version
        (folder / "data").mkdir(parents=True)
        (folder / "metadata").mkdir()
        self.entries: list[ice.DeleteFile] = []
        self.deletes: list[ice.DeleteFile] = []
        self.metadata: dict[str, Any] = {
            "format-version": version,
            "table-uuid": str(uuid.UUID(int=7)),
            "location": HOME,
            "last-sequence-number": 2,
            "last-updated-ms": 1_700_000_000_000,
            "last-column-id": 5,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": _FIELDS}],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {},
        }
        if version == 3:
            self.metadata["next-row-id"] = 1000

    def add(self, name: str, table: pa.Table) -> None:
        path = self.folder / "data" / name
        form = name.rsplit(".", 1)[1]
        size = {"parquet": _parquet, "orc": _orc, "avro": _avro}[form](path, table)
        self.entries.append(ice.DeleteFile(0, f"{HOME}/data/{name}", form.upper(), table.num_rows, size))

    def commit(self) -> None:
        manifests = []
        for number, files in enumerate((self.entries, self.deletes)):
            if files:
                name = f"metadata/m{number}.avro"
                length = ice.write_manifest(str(self.folder / name), self.metadata, 0, files, _SNAPSHOT)
                _fixed_marker(self.folder / name)
                manifests.append(ice.manifest_entry(f"{HOME}/{name}", length, 0, 1 + number, _SNAPSHOT, files))
        ice.write_manifest_list(str(self.folder / "metadata/snap-1.avro"), manifests)
        _fixed_marker(self.folder / "metadata/snap-1.avro")
        snapshot = {
            "snapshot-id": _SNAPSHOT,
            "sequence-number": 2,
            "timestamp-ms": 1_700_000_000_000,
            "manifest-list": f"{HOME}/metadata/snap-1.avro",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
        if self.version == 3:
            snapshot |= {"first-row-id": 0, "added-rows": sum(f.record_count for f in self.entries)}
        self.metadata |= {
            "current-snapshot-id": _SNAPSHOT,
            "snapshots": [snapshot],
            "snapshot-log": [{"snapshot-id": _SNAPSHOT, "timestamp-ms": 1_700_000_000_000}],
            "metadata-log": [],
            "refs": {"main": {"snapshot-id": _SNAPSHOT, "type": "branch"}},
        }
        (self.folder / "metadata/v1.metadata.json").write_text(json.dumps(self.metadata))


def _fixed_marker(path: Path) -> None:
    """Replace Avro's random block marker by a fixed one."""
    data = path.read_bytes()
    path.write_bytes(data.replace(data[-16:], _MARKER))


def _formats(folder: Path) -> None:
    """Make a table of Parquet, ORC and Avro files with rows deleted by position."""
    table = _Iceberg(folder, 2)
    for n, name in enumerate(("a.parquet", "b.orc", "c.avro")):
        table.add(name, rows(40 * n, 40))
    pairs = [(f"{HOME}/data/a.parquet", 3), (f"{HOME}/data/b.orc", 39), (f"{HOME}/data/c.avro", 0)]
    made = ice.write_position_deletes(str(folder / "data/d-deletes.parquet"), pairs)
    table.deletes.append(_under_home(made, folder))
    table.commit()


def _keys(folder: Path) -> None:
    """Make a table with rows deleted by their keys."""
    table = _Iceberg(folder, 2)
    table.add("a.parquet", rows(0, 40))
    keys = pa.table({"n": pa.array([3, 8, 21], pa.int64()), "s": ["text 3", "text 8", "text 8"]})
    made = ice.write_equality_deletes(str(folder / "data/e-deletes.parquet"), keys, {"n": 1, "s": 2})
    table.deletes.append(_under_home(made, folder))
    table.commit()


def _vectors(folder: Path) -> None:
    """Make a table with deletion vectors in a Puffin file."""
    table = _Iceberg(folder, 3)
    table.add("a.parquet", rows(0, 40))
    table.add("b.parquet", rows(40, 20))
    vectors = {f"{HOME}/data/a.parquet": [0, 5, 6, 39], f"{HOME}/data/b.parquet": [19]}
    made = ice.write_deletion_vectors(str(folder / "data/v.puffin"), vectors)
    table.deletes += [_under_home(each, folder) for each in made]
    table.commit()


def _under_home(made: ice.DeleteFile, folder: Path) -> ice.DeleteFile:
    return ice.DeleteFile(**{**made.__dict__, "path": made.path.replace(str(folder), HOME)})


_DELTA_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "n", "type": "long", "nullable": True, "metadata": {}},
        {"name": "s", "type": "string", "nullable": True, "metadata": {}},
        {
            "name": "tags",
            "type": {"type": "array", "elementType": "string", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
        {"name": "price", "type": "double", "nullable": True, "metadata": {}},
        {"name": "p", "type": "string", "nullable": True, "metadata": {}},
    ],
}


class _Delta:
    """Build a Delta table."""

    def __init__(self, folder: Path, features: list[str]) -> None:
        self.folder, self._version = folder, 0
        (folder / "_delta_log").mkdir(parents=True)
        protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
        if features:
            lists = {"readerFeatures": features, "writerFeatures": features}
            protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **lists}
        metadata = {
            "id": str(uuid.UUID(int=9)),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(_DELTA_SCHEMA),
            "partitionColumns": ["p"],
            "configuration": {"delta.enableDeletionVectors": "true"} if features else {},
            "createdTime": 1_700_000_000_000,
        }
        self.commit({"protocol": protocol}, {"metaData": metadata})

    def commit(self, *actions: dict[str, Any]) -> None:
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + self._version, "operation": "WRITE"}}
        text = "".join(json.dumps(each) + "\n" for each in (info, *actions))
        (self.folder / "_delta_log" / f"{self._version:020d}.json").write_text(text)
        self._version += 1

    def add(self, name: str, table: pa.Table, vector: dict[str, Any] | None = None) -> dict[str, Any]:
        path = self.folder / name
        pq.write_table(table, path, row_group_size=max(1, table.num_rows // 2))
        stats = {
            "numRecords": table.num_rows,
            "minValues": {"n": table["n"][0].as_py()},
            "maxValues": {"n": table["n"][-1].as_py()},
            "nullCount": {"n": 0},
        }
        action = {
            "path": name,
            "partitionValues": {"p": name[0]},
            "size": path.stat().st_size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        return {"add": action | ({} if vector is None else {"deletionVector": vector})}


def _log(folder: Path) -> None:
    """Make a table whose commits add and remove files."""
    table = _Delta(folder, [])
    for n, name in enumerate(("a.parquet", "b.parquet", "c.parquet")):
        table.commit(table.add(name, rows(40 * n, 40)))
    removed = {
        "path": "b.parquet",
        "deletionTimestamp": 1_700_000_000_000,
        "dataChange": True,
        "partitionValues": {"p": "b"},
    }
    table.commit({"remove": removed}, table.add("d.parquet", rows(200, 6)))


def _checkpointed(folder: Path) -> None:
    """Make the same table with a checkpoint and a commit after it."""
    import deltalake

    _log(folder)
    deltalake.DeltaTable(str(folder)).create_checkpoint()
    log = folder / "_delta_log"
    table = _Delta.__new__(_Delta)
    table.folder, table._version = folder, 5
    table.commit(table.add("e.parquet", rows(300, 7)))
    for old in sorted(log.glob("*.json"))[:3]:
        old.unlink()


def _delta_vectors(folder: Path) -> None:
    """Make a table with one deletion vector in a file and one in the log."""
    table = _Delta(folder, ["deletionVectors"])
    body = (1681511377).to_bytes(4, "little") + pyroaring.BitMap64([0, 5, 6, 39]).serialize()
    name = uuid.UUID(int=11)
    framed = b"\x01" + len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    (folder / f"deletion_vector_{name}.bin").write_bytes(framed)
    stored = {
        "storageType": "u",
        "pathOrInlineDv": encode_z85(name.bytes),
        "offset": 1,
        "sizeInBytes": len(body),
        "cardinality": 4,
    }
    table.commit(table.add("a.parquet", rows(0, 40), stored), table.add("b.parquet", rows(40, 20), inline_vector([19])))


_ICEBERG = "metadata/v1.metadata.json"
SAMPLES = (
    Sample("iceberg-formats", _formats, _ICEBERG),
    Sample("iceberg-keys", _keys, _ICEBERG, rows_are_counted=False),
    Sample("iceberg-vectors", _vectors, _ICEBERG),
    Sample("delta-log", _log, ""),
    Sample("delta-checkpoint", _checkpointed, ""),
    Sample("delta-vectors", _delta_vectors, ""),
)
