"""Reopening a table reads only new metadata, and gives the same state as reading all of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

import lakescan
from lakescan.common.cache import CACHE
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.metadata import table_metadata_parser as parse_module
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from tests.iceberg.test_metadata import SNAPSHOT, V2
from tests.support.catalog import local_catalog

_STEPS = ["append", "append", "delete", "filter", "merge", "read", "read before", "roll back", "replace"]


def created(catalog: lakescan.Catalog) -> lakescan.Table:
    schema = pa.schema({"n": pa.int64(), "part": pa.string()})
    properties = {"commit.manifest-merge.enabled": "false", "write.delete.mode": "merge-on-read"}
    return catalog.create_table("db.t", schema, partition_by=["part"], properties=properties)


def planned(table: lakescan.Table, condition: str | None = None, version: int | None = None) -> list[tuple[Any, ...]]:
    """Return the data files of a plan, with their row counts and the number of their deletes."""
    scan = table.scan() if version is None else table.scan().as_of(version=version)
    files = (scan if condition is None else scan.where(condition)).plan().files
    deletes = map(len, files["deletes"].to_pylist())
    return sorted(zip(files["path"].to_pylist(), files["record_count"].to_pylist(), deletes, strict=True))


def planned_by_pyiceberg(table: lakescan.Table, condition: str = "true", version: int | None = None) -> Any:
    scan = StaticTable.from_metadata(table.scan().spec.table.metadata.source).scan(condition, snapshot_id=version)
    return sorted((each.file.file_path, each.file.record_count, len(each.delete_files)) for each in scan.plan_files())


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(st.sampled_from(_STEPS), max_size=10))
def test_any_history_read_step_by_step_equals_the_whole_metadata(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    catalog = lakescan.catalog(folder.name, warehouse=folder)
    catalog.create_namespace("db")
    table, versions, number = created(catalog), [], 0
    for step in [*steps, "read"]:
        match step:
            case "append":
                table.append(pa.table({"n": [number, number + 1], "part": ["a", "b"]}))
                versions.append(table.version)
                number += 2
            case "delete":
                table.delete(f"n = {number - 3}")
            case "filter":
                found = planned(table, "part = 'a'")
                assert found == planned_by_pyiceberg(table, "part = 'a'")
            case "merge":
                table.rewrite_manifests()
            case "roll back" if versions and table.version not in versions[:1]:
                table.rollback(version=versions[0])
                versions = versions[:1]
            case "replace":
                catalog.drop_table("db.t")
                table, versions = created(catalog), []
            case "read before" if versions:
                assert planned(table, None, versions[0]) == planned_by_pyiceberg(table, version=versions[0])
            case "read":
                found = planned(table)
                assert found == planned_by_pyiceberg(table)
                CACHE.clear()
                assert found == planned(table)


def test_only_the_added_manifest_of_a_new_snapshot_is_read(tmp_path: Path) -> None:
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    for number in range(3):
        made.append(pa.table({"n": [number]}))
    assert len(lakescan.table(made.metadata_location).scan().plan().table) == 3
    for manifest in (tmp_path / "n" / "t" / "metadata").glob("*-m0.avro"):
        manifest.rename(manifest.with_suffix(".away"))
    made.append(pa.table({"n": [3]}))
    files = lakescan.table(made.metadata_location).scan().plan().files
    assert files["record_count"].to_pylist() == [1, 1, 1, 1]
    for manifest in (tmp_path / "n" / "t" / "metadata").glob("*.away"):
        manifest.rename(manifest.with_suffix(".avro"))
    CACHE.clear()
    assert lakescan.table(made.metadata_location).scan().plan().files == files


def parsed(snapshots: list[dict[str, Any]]) -> TableMetadata:
    document = V2 | {"snapshots": snapshots, "current-snapshot-id": snapshots[-1]["snapshot-id"]}
    return parse_metadata(json.dumps(document).encode(), "there.metadata.json")


SNAPSHOTS = [SNAPSHOT | {"snapshot-id": number, "sequence-number": number} for number in range(1, 31)]


def test_cached_snapshots_are_not_parsed_again() -> None:
    before = parsed(SNAPSHOTS[:-1]).snapshots
    after = parsed(SNAPSHOTS).snapshots
    assert list(after) == list(range(1, 31))
    assert all(after[number] is before[number] for number in before)
    CACHE.clear()
    assert parsed(SNAPSHOTS).snapshots == after


@pytest.mark.parametrize(
    "changed", [{"manifest-list": "other.avro"}, {"summary": {"operation": "delete"}}, {"timestamp-ms": 2_000}]
)
def test_a_snapshot_with_a_cached_id_keeps_its_own_members(changed: dict[str, Any]) -> None:
    parsed(SNAPSHOTS)
    snapshots = [each | (changed if each["snapshot-id"] == 7 else {}) for each in SNAPSHOTS]
    found = parsed(snapshots).snapshots
    CACHE.clear()
    assert found == parsed(snapshots).snapshots
    assert found[7] != parsed(SNAPSHOTS).snapshots[7]


@pytest.mark.parametrize("number", [7.0, True, "7"])
def test_a_snapshot_that_differs_from_a_cached_one_only_in_a_type_is_refused(number: Any) -> None:
    parsed(SNAPSHOTS)
    with pytest.raises(CorruptMetadata, match="which is not a whole number"):
        parsed([each | {"sequence-number": number if each["snapshot-id"] == 7 else 1} for each in SNAPSHOTS])


def embedded(folder: Path) -> lakescan.Catalog:
    catalog = lakescan.catalog(folder.name.replace("-", "_"), warehouse=folder)
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def opened_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[lakescan.Table, list[str]]:
    """Open a table, and record the metadata files that are parsed from then on."""
    table = created(embedded(tmp_path))
    table.append(pa.table({"n": [1, 2], "part": ["a", "b"]}))
    CACHE.clear()
    parsed: list[str] = []
    parse = parse_module.parse_metadata

    def noted(data: bytes, source: str) -> TableMetadata:
        parsed.append(source)
        return parse(data, source)

    monkeypatch.setattr(parse_module, "parse_metadata", noted)
    return table, parsed


def test_a_metadata_file_is_parsed_once(opened_twice: tuple[lakescan.Table, list[str]]) -> None:
    table, parsed = opened_twice
    for _ in range(3):
        assert lakescan.table(table.folder).count() == 2
    assert len(parsed) == 1


def test_a_metadata_file_that_was_replaced_is_parsed_again(opened_twice: tuple[lakescan.Table, list[str]]) -> None:
    """Even if the new file has the same size and time."""
    table, _ = opened_twice
    path = Path(table.scan().to_options()["path"].removeprefix("file://"))
    before = os.stat(path)
    assert lakescan.table(table.folder).folder == table.folder
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":1'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(path).st_size == before.st_size
    assert lakescan.table(table.folder).format_version == "1"


def test_metadata_is_not_kept_without_a_cache(opened_twice: tuple[lakescan.Table, list[str]]) -> None:
    table, parsed = opened_twice
    folder, limit = table.folder, CACHE.limit
    parsed.clear()
    lakescan.set_cache_limit(0)
    try:
        for _ in range(2):
            lakescan.table(folder)
    finally:
        lakescan.set_cache_limit(limit)
    assert len(parsed) == 2


def test_pyiceberg_parses_a_metadata_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.table.metadata import TableMetadataUtil

    table = created(embedded(tmp_path))
    parse, calls = TableMetadataUtil.parse_raw, []
    monkeypatch.setattr(TableMetadataUtil, "parse_raw", lambda text: calls.append(text) or parse(text))
    CACHE.clear()
    for _ in range(3):
        lakescan.table(str(table.name))
    assert len(calls) == 1


def test_an_open_table_reads_a_manifest_list_once(tmp_path: Path) -> None:
    table = created(embedded(tmp_path))
    table.append(pa.table({"n": [1, 2], "part": ["a", "b"]}))
    opened = lakescan.table(table.folder)
    before = planned(opened, "n = 1")
    for path in tmp_path.rglob("snap-*.avro"):
        path.unlink()
    assert planned(opened, "n = 1") == before
    assert planned(opened) == planned(opened, "n > 0")
    with pytest.raises(lakescan.MissingFile):
        lakescan.table(table.folder).scan().plan()
