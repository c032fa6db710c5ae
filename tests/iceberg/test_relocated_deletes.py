"""Delete files with rewritten paths: the rest of the file stays, and files that cannot be rewritten are refused."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from lakescan.errors import CorruptData, InvalidOption, UnsupportedFeature
from lakescan.iceberg.maintenance.rewrite_table_path.rewrite_files import DeleteFileMove, Prefixes, move_vectors
from lakescan.storage import Storage
from lakescan.writing.puffin import PuffinWriter


def moving(folder: Path) -> DeleteFileMove:
    return DeleteFileMove(Prefixes(str(folder), "s3://b/t"), Prefixes(str(folder), f"{folder}/staged"), Storage({}))


def deletes(folder: Path, **more: Any) -> pa.Table:
    ids = {"file_path": b"2147483546", "pos": b"2147483545", "row": b"2147483544"}
    names = [f"{folder}/data/1.parquet"] * 2 + [f"{folder}/data/2.parquet"]
    table = pa.table({"file_path": names, "pos": [3, 5, 0], **more})
    fields = [field.with_metadata({b"PARQUET:field_id": ids[field.name]}) for field in table.schema]
    return table.cast(pa.schema(fields, {"delete-type": "position"}))


def test_rows_and_metadata_of_position_deletes_are_kept(tmp_path: Path) -> None:
    row = pa.array([{"id": 1}, None, {"id": 2}], pa.struct([("id", pa.int64())]))
    before = deletes(tmp_path, row=row)
    pq.write_table(before, tmp_path / "d.parquet", row_group_size=2)
    path, size = moving(tmp_path)((f"{tmp_path}/d.parquet", "parquet"))
    staged = tmp_path / "staged" / "d.parquet"
    assert (path, size) == (f"{tmp_path}/d.parquet", staged.stat().st_size)
    after = pq.ParquetFile(staged)
    assert after.num_row_groups == 2
    assert after.metadata.metadata[b"delete-type"] == b"position"
    names = ["s3://b/t/data/1.parquet"] * 2 + ["s3://b/t/data/2.parquet"]
    assert after.read().to_pydict() == {**before.to_pydict(), "file_path": names}
    assert [field.metadata for field in after.schema_arrow] == [field.metadata for field in before.schema]


def test_deletes_of_files_elsewhere_are_refused(tmp_path: Path) -> None:
    pq.write_table(deletes(Path("/elsewhere")), tmp_path / "d.parquet")
    with pytest.raises(InvalidOption, match=r"a deleted row's data file /elsewhere/data/1\.parquet"):
        moving(tmp_path)((f"{tmp_path}/d.parquet", "parquet"))


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_other_formats_are_refused_with_advice(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UnsupportedFeature, match="rewrite_position_deletes"):
        moving(tmp_path)((f"{tmp_path}/d.{kind}", kind))


def vectors(*paths: str) -> bytes:
    sink = io.BytesIO()
    writer = PuffinWriter(pa.PythonFile(sink, "w"))
    for path in paths:
        writer.add(path, BitMap64([3, 5]))
    writer.finish()
    return sink.getvalue()


def footer_of(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[-12:-8], "little")
    found: dict[str, Any] = json.loads(data[-12 - size : -12])
    return found


def test_vectors_stay_where_they_are_in_the_file() -> None:
    before = vectors("/t/data/1.parquet", "/t/data/2.parquet")
    after = move_vectors(before, "x", Prefixes("/t", "s3://bucket/é"))
    old, new = footer_of(before), footer_of(after)
    for was, now in zip(old["blobs"], new["blobs"], strict=True):
        at = slice(now["offset"], now["offset"] + now["length"])
        assert after[at] == before[at]
        name = was["properties"]["referenced-data-file"].replace("/t/", "s3://bucket/é/")
        assert now == {**was, "properties": {**was["properties"], "referenced-data-file": name}}
    assert move_vectors(after, "x", Prefixes("s3://bucket/é", "/t")) == before


def test_a_file_that_is_not_puffin_is_refused() -> None:
    whole = vectors("/t/1")
    for damaged in (
        b"",
        whole[:-1],
        whole[:-12] + b"\xff\xff\xff\x7f" + whole[-8:],
        whole.replace(b'"blobs"', b'"blobs;'),
    ):
        with pytest.raises(CorruptData, match="x"):
            move_vectors(damaged, "x", Prefixes("/t", "/u"))
    compressed = whole[:-8] + b"\x01\0\0\0" + whole[-4:]
    with pytest.raises(UnsupportedFeature, match="compressed footer"):
        move_vectors(compressed, "x", Prefixes("/t", "/u"))
