"""ORC and Avro tables are read in splits: each row once, with its position, its id and its deletes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from samples.iceberg_deletes import commit_deletes, local, write_deletion_vectors, write_position_deletes
from samples.iceberg_table import write_table

import lakescan
from lakescan.errors import CorruptData
from lakescan.planning.split import NO_END
from lakescan.reading.avro.file import open_blocks
from lakescan.reading.reader import read_group

ROWS = 60_000
SMALL = {"orc": {"stripe_size": 64, "batch_size": 1000}, "avro": {"sync_interval": 1000, "codec": "deflate"}}
FIELDS = [
    {"id": 1, "name": "n", "required": False, "type": "long"},
    {"id": 2, "name": "text", "required": False, "type": "string"},
    {"id": 3, "name": "at", "required": False, "type": "timestamptz"},
]


def table_of(folder: Path, file_format: str) -> str:
    kinds = {"n": pa.int64(), "text": pa.string(), "at": pa.timestamp("us", "UTC")}
    schema = pa.schema(
        [pa.field(f["name"], kinds[f["name"]], metadata={"PARQUET:field_id": str(f["id"])}) for f in FIELDS]
    )
    numbers = range(ROWS)
    rows = pa.table([list(numbers), [f"text {n * 7919 % 65_536}" for n in numbers], list(numbers)], schema=schema)
    made = write_table(folder, FIELDS, [rows], file_format=file_format, writing=SMALL[file_format])
    numbered = made.replace("v1.metadata.json", "00001-a.metadata.json")
    local(made).rename(local(numbered))
    return numbered


@pytest.mark.parametrize("file_format", ["orc", "avro"])
@pytest.mark.parametrize("kind", ["none", "positions", "vectors"])
def test_each_row_is_in_one_split_with_its_position(tmp_path: Path, file_format: str, kind: str) -> None:
    location = table_of(tmp_path / "t", file_format)
    data = f"file://{tmp_path}/t/data/0.{file_format}"
    gone = list(range(0, ROWS, 7))
    if kind == "positions":
        deletes = [write_position_deletes(f"file://{tmp_path}/t/data/d.parquet", [(data, n) for n in gone])]
        location = commit_deletes(location, deletes)
    elif kind == "vectors":
        location = commit_deletes(location, write_deletion_vectors(f"file://{tmp_path}/t/data/d.puffin", {data: gone}))
    left = set(range(ROWS)) - (set(gone) if kind != "none" else set())
    size = (tmp_path / "t/data" / f"0.{file_format}").stat().st_size
    for splits in (1, 5):
        options: dict[str, Any] = {"split-size": -(-size // splits), "file-open-cost": 1}
        scan = lakescan.table(location).scan().select("n", "_pos", "at", "text").options(**options)
        assert scan.plan().splits.num_rows == splits
        found = scan.to_arrow()
        assert sorted(found["n"].to_pylist()) == sorted(left)
        assert found["_pos"].to_pylist() == found["n"].to_pylist()
        assert found["at"].cast(pa.int64()).to_pylist() == found["n"].to_pylist()
        assert found["text"].to_pylist() == [f"text {n * 7919 % 65_536}" for n in found["n"].to_pylist()]
        filtered = lakescan.table(location).scan().where("n >= 31000 and n < 31010").options(**options).to_arrow()
        assert sorted(filtered["n"].to_pylist()) == sorted(left & set(range(31_000, 31_010)))


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_rows_of_each_split_inherit_their_ids_from_their_positions(tmp_path: Path, file_format: str) -> None:
    location = table_of(tmp_path / "t", file_format)
    size = (tmp_path / "t/data" / f"0.{file_format}").stat().st_size
    scan = lakescan.table(location).scan().select("n", "_row_id").options(**{"split-size": size // 4})
    plan = scan.plan()
    found: list[tuple[int, int]] = []
    for group in plan.groups:
        at = group.splits.schema.get_field_index("first_row_id")
        splits = group.splits.set_column(at, "first_row_id", pa.array([1000] * len(group), pa.int64()))
        for batch in read_group(replace(group, splits=splits), scan.spec.read_context(plan)):
            found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    assert len(plan.groups) > 3
    assert sorted(found) == [(n, 1000 + n) for n in range(ROWS)]


def test_an_avro_file_truncated_between_blocks_is_noticed_in_splits(tmp_path: Path) -> None:
    location = table_of(tmp_path / "t", "avro")
    path = tmp_path / "t/data/0.avro"
    data = path.read_bytes()
    with path.open("rb") as file:
        blocks = open_blocks(file, "f", len(data))
        last = list(blocks.read_blocks(0, NO_END))[-1]
    kept = data[: data.rindex(blocks.marker, 0, -16) + 16]
    path.write_bytes(kept)
    for size in (len(data) * 2, len(data) // 5):
        counts = f"has {last.first_row:,} rows, but the table's metadata records {ROWS:,}"
        with pytest.raises(CorruptData, match=counts):
            lakescan.table(location).scan().options(**{"split-size": size}).to_arrow()


def test_orc_timestamps_that_arrow_cannot_hold_are_not_damage(tmp_path: Path) -> None:
    at = pa.array([0, 32_503_680_000_000_000], pa.timestamp("us", "UTC"))  # 1970 and 3000
    fields = [
        pa.field(f["name"], t, metadata={"PARQUET:field_id": str(f["id"])})
        for f, t in zip(FIELDS, (pa.int64(), pa.string(), at.type), strict=True)
    ]
    rows = pa.table([[1, 2], ["a", "b"], at], schema=pa.schema(fields))
    location = write_table(tmp_path / "t", FIELDS, [rows], file_format="orc")
    assert lakescan.table(location).scan().select("n").to_arrow()["n"].to_pylist() == [1, 2]
    with pytest.raises(lakescan.UnsupportedFeature, match=r"(?s)timestamps.* in ORC files.*0\.orc"):
        lakescan.table(location).scan().to_arrow()


def test_orc_timestamps_are_refused_where_arrow_would_wrap_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = pa.array([0], pa.timestamp("us", "UTC"))
    fields = [
        pa.field(f["name"], t, metadata={"PARQUET:field_id": str(f["id"])})
        for f, t in zip(FIELDS, (pa.int64(), pa.string(), at.type), strict=True)
    ]
    rows = pa.table([[1], ["a"], at], schema=pa.schema(fields))
    location = write_table(tmp_path / "t", FIELDS, [rows], file_format="orc")
    monkeypatch.setattr(pa, "__version__", "24.0.0")
    assert lakescan.table(location).scan().select("n").to_arrow()["n"].to_pylist() == [1]
    with pytest.raises(lakescan.UnsupportedFeature, match=r"with pyarrow 24\.0\.0.*Install pyarrow 25"):
        lakescan.table(location).scan().to_arrow()
