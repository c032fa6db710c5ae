"""Symlink manifests list the files of a Delta table, one manifest per partition; DETAIL is one row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan


def rows(*pairs: tuple[int, str | None]) -> pa.Table:
    return pa.table({"id": [n for n, _ in pairs], "part": pa.array([p for _, p in pairs], pa.string())})


def manifests(folder: Path) -> dict[str, list[int]]:
    """Return, by folder, the ids in the files that the manifest lists."""
    home = folder / "_symlink_format_manifest"
    found = {}
    for file in home.rglob("manifest"):
        names = [line.removeprefix("file://") for line in file.read_text().splitlines()]
        ids = [n for name in names for n in pq.ParquetFile(name).read(["id"])["id"].to_pylist()]
        found[str(file.parent.relative_to(home))] = sorted(ids)
    return found


def test_a_table_without_partitions_has_one_manifest(tmp_path: Path) -> None:
    lakescan.save(rows((1, "a")), tmp_path / "t 1", format="delta")
    table = lakescan.table(tmp_path / "t 1")
    table.append(rows((2, "b")))
    result = table.generate()
    assert (result.manifests, result.files) == (1, 2)
    assert manifests(tmp_path / "t 1") == {".": [1, 2]}
    table.delete()
    table.generate("SYMLINK_FORMAT_MANIFEST")
    assert manifests(tmp_path / "t 1") == {".": []}


def test_each_existing_partition_has_its_own_manifest(tmp_path: Path) -> None:
    lakescan.save(rows((1, "a"), (2, "x=y/z"), (3, None)), tmp_path / "t", format="delta", partition_by=["part"])
    table = lakescan.table(tmp_path / "t")
    table.append(rows((4, "a")))
    table.generate()
    null = "part=__HIVE_DEFAULT_PARTITION__"
    assert manifests(tmp_path / "t") == {"part=a": [1, 4], "part=x%3Dy%2Fz": [2], null: [3]}
    table.delete("part = 'a'")
    table.append(rows((5, "new")))
    table.generate()
    assert manifests(tmp_path / "t") == {"part=new": [5], "part=x%3Dy%2Fz": [2], null: [3]}
    table.remove_orphans(dry_run=True)
    assert table.refresh().count() == 3


def test_tables_that_manifest_readers_would_misread_are_refused(tmp_path: Path) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    lakescan.save(rows((1, "a"), (2, "b")), tmp_path / "t", format="delta", properties=properties)
    table = lakescan.table(tmp_path / "t")
    table.delete("id = 1")
    with pytest.raises(lakescan.UnsupportedFeature, match="purge=True"):
        table.generate()
    table.compact(purge=True)
    table.generate()
    assert manifests(tmp_path / "t") == {".": [2]}
    table.alter().set_properties({"delta.columnMapping.mode": "name"}).commit()
    table.generate()
    table.alter().rename_column("id", "key").commit()
    with pytest.raises(lakescan.UnsupportedFeature, match="'key'"):
        table.generate()


def test_symlink_format_manifest_is_the_only_mode(tmp_path: Path, local: lakescan.Catalog) -> None:
    lakescan.save(rows((1, "a")), tmp_path / "t", format="delta")
    with pytest.raises(lakescan.InvalidOption, match="Did you mean 'symlink_format_manifest'"):
        lakescan.table(tmp_path / "t").generate("symlink_manifest")
    with pytest.raises(lakescan.UnsupportedFeature, match="Iceberg"):
        local.create_table("db.t", "id BIGINT").generate()


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_describe_detail_returns_one_row(local: lakescan.Catalog, format: str) -> None:
    table = local.create_table(
        "db.t", "id BIGINT, part STRING", format=format, partition_by="part", comment="some rows"
    )
    assert table.detail().to_pylist()[0]["numFiles"] == 0
    table.append(rows((1, "a"), (2, "b")))
    (row,) = table.detail().to_pylist()
    assert (row["format"], row["numFiles"], row["description"]) == (format, 2, "some rows")
    assert row["sizeInBytes"] == sum(Path(f.removeprefix("file://")).stat().st_size for f in _files(table))
    assert row["createdAt"] <= row["lastModified"]


def _files(table: lakescan.Table) -> list[str]:
    return table.scan().plan().files["path"].to_pylist()
