"""Parquet files whose footers give groups a logical type that only columns can have are read by their structure."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.reading.parquet.file import open_parquet
from lakescan.reading.parquet.footer import REFUSAL, remove_unknown_groups
from lakescan.storage import Storage

ROWS = pa.table(
    {
        "m": pa.array([[("a", 1)], None, [("b", None), ("c", 3)]], pa.map_(pa.string(), pa.int64())),
        "n": pa.nulls(3, pa.null()),
        "x": [1, 2, 3],
    }
)
ENTRIES = b"\x18\x09key_value\x15\x04"  # the name, then two children
UNKNOWN = b"\x5c\xbc\x00\x00"  # field 10, a union with field 11 set


def footer_of(data: bytes) -> bytes:
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """Make a file with a map whose entries have the logical type UNKNOWN, and a column of nulls with the same type."""
    path = tmp_path / "odd.parquet"
    pq.write_table(ROWS, path)
    spoil(path)
    return path


def spoil(path: Path) -> None:
    """Set the logical type of all map entries in a file to UNKNOWN."""
    data = path.read_bytes()
    footer = footer_of(data)
    assert ENTRIES + b"\x00" in footer
    changed = footer.replace(ENTRIES, ENTRIES + UNKNOWN)
    path.write_bytes(data[: -8 - len(footer)] + changed + len(changed).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(OSError, match=REFUSAL):
        pq.ParquetFile(path)


def test_the_logical_type_is_removed_only_from_groups(odd: Path, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "plain.parquet")
    assert remove_unknown_groups(footer_of(odd.read_bytes())) == footer_of((tmp_path / "plain.parquet").read_bytes())


def test_a_file_with_unknown_typed_groups_is_read(odd: Path) -> None:
    with open_parquet(Storage(), str(odd)) as data:
        assert data.file.read().to_pylist() == ROWS.to_pylist()


def test_a_checkpoint_with_unknown_typed_groups_is_read(tmp_path: Path) -> None:
    """Databricks wrote such checkpoints with the Parquet library of 2020."""
    lakescan.save(ROWS.select(["x"]), tmp_path / "t", format="delta")
    lakescan.table(tmp_path / "t").checkpoint()
    (checkpoint,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    pq.write_table(pq.read_table(checkpoint), checkpoint)
    spoil(checkpoint)
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").unlink()
    table = lakescan.table(tmp_path / "t")
    assert sorted(table.to_arrow()["x"].to_pylist()) == [1, 2, 3]
    assert lakescan.sql(f"VACUUM delta.`{tmp_path / 't'}` RETAIN 200 HOURS DRY RUN").to_arrow().num_rows == 0
    table.delete("x = 2")
    table.checkpoint()
    assert sorted(lakescan.table(tmp_path / "t").to_arrow()["x"].to_pylist()) == [1, 3]


def test_a_truncated_footer_is_an_error(odd: Path) -> None:
    footer = footer_of(odd.read_bytes())
    for length in range(0, 200, 7):
        with pytest.raises((IndexError, ValueError)):
            remove_unknown_groups(footer[:length])
