"""rewrite_table_path: a copy of the listed files is the same table elsewhere; the table itself is unchanged."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import InvalidOption, MissingFile, UnsupportedFeature
from lakescan.iceberg.maintenance.rewrite_table_path.rewrite_files import Prefixes, replace_map_value
from tests.statements.procedures.conftest import Called
from tests.tables.support import maker, now, rows


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def pairs_of(file_list: str) -> list[tuple[Path, Path]]:
    with path_of(file_list).open(newline="") as lines:
        return [(path_of(source), path_of(target)) for source, target in csv.reader(lines)]


def copied(file_list: str) -> None:
    for source, target in pairs_of(file_list):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def files(folder: str) -> set[Path]:
    return {each for each in path_of(folder).rglob("*") if each.is_file()}


def states(table: lakescan.Table) -> dict[int, list[Any]]:
    """Return the rows of each snapshot."""
    ids = table.history()["snapshot_id"].to_pylist()
    return {each: sorted(table.scan().as_of(version=each).to_arrow()["id"].to_pylist()) for each in ids}


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_copy_has_the_same_states(local: lakescan.Catalog, call: Called, tmp_path: Path, version: str) -> None:
    properties = {"write.delete.mode": "merge-on-read"} if version > "1" else {}
    properties |= {"write.metadata.compression-codec": "gzip"} if version == "2" else {}
    table = maker(f"iceberg version {version}", local)(properties=properties)
    table.append(rows((1, "a"), (2, "a"), (3, "b,c")))
    table.delete("id = 2")
    table.append(rows((4, "d"), (5, "d")))
    table.delete("part = 'b,c'")
    if version == "2":
        table.upsert(rows((4, "e")), keys=["id"])
    table.compute_statistics()
    table.compute_partition_statistics()
    source, target = table.folder, f"file://{tmp_path}/copy/t"
    before, was = files(source), states(now())
    (found,) = call("rewrite_table_path", "db.t", f"{source}/", target).to_pylist()
    assert before <= files(source)
    copied(found["file_list_location"])
    shutil.move(path_of(source), tmp_path / "away")
    copy = local.register_table("db.copy", f"{target}/metadata/{found['latest_version']}")
    assert states(copy) == was
    assert copy.scan().where("part = 'a'").to_arrow()["id"].to_pylist() == [1]
    assert copy.folder == target
    for names in connection("local").load_table("db.copy").metadata.statistics:
        assert path_of(names.statistics_path).exists()
    lists = copy.inspect("all_manifests").to_pylist()
    assert all(each["length"] == path_of(each["path"]).stat().st_size for each in lists)
    deletes = copy.inspect("delete_files").to_pylist()
    assert all(each["file_size_in_bytes"] == path_of(each["file_path"]).stat().st_size for each in deletes)
    assert all(str(each["referenced_data_file"]).startswith((target, "None")) for each in deletes)
    copy.append(rows((9, "a")))
    copy.delete("id = 1")
    assert 9 in copy.refresh().to_arrow()["id"].to_pylist()
    assert not (tmp_path / "lake" / "db" / "t").exists()


def test_files_of_expired_snapshots_are_copied(table: lakescan.Table, call: Called, tmp_path: Path) -> None:
    """The snapshots that added them may be in no remaining metadata file."""
    kept = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    table.alter().set_properties(kept).commit()
    table.expire_snapshots("2100-01-01")
    for name in "ab":
        table.alter().set_properties({"owner": name}).commit()
    (found,) = call("rewrite_table_path", "db.t", table.folder, f"file://{tmp_path}/copy").to_pylist()
    copied(found["file_list_location"])
    shutil.move(path_of(table.folder), tmp_path / "away")
    copy = lakescan.table(f"file://{tmp_path}/copy/metadata/{found['latest_version']}")
    assert sorted(copy.to_arrow()["id"].to_pylist()) == [1, 2]


def test_later_files_are_copied_onto_an_earlier_copy(table: lakescan.Table, call: Called, tmp_path: Path) -> None:
    source, target, latest = table.folder, f"file://{tmp_path}/copy", None
    seen: list[set[Path]] = []
    for number in (3, 4):
        named = {"start_version": latest, "staging_location": f"{tmp_path}/staging{number}"}
        (found,) = call("rewrite_table_path", "db.t", source, target, **named).to_pylist()
        assert found["file_list_location"] == f"{tmp_path}/staging{number}/file-list"
        latest = found["latest_version"]
        seen.append({each for _, each in pairs_of(found["file_list_location"])})
        copied(found["file_list_location"])
        table.append(rows((number, "c")))
    assert seen[0].isdisjoint(seen[1])
    assert [len({each for each in some if each.suffix == ".parquet"}) for some in seen] == [2, 1]
    shutil.move(path_of(source), tmp_path / "away")
    copy = lakescan.table(f"{target}/metadata/{latest}")
    assert sorted(copy.to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_an_earlier_version_is_copied_without_a_list(table: lakescan.Table, call: Called, tmp_path: Path) -> None:
    earlier = path_of(connection("local").load_table("db.t").metadata_location).name
    table.append(rows((3, "b")))
    named = {"end_version": earlier, "create_file_list": False, "staging_location": f"{tmp_path}/staged"}
    (found,) = call("rewrite_table_path", "db.t", table.folder, f"file://{tmp_path}/x", **named).to_pylist()
    assert found == {
        "latest_version": earlier,
        "file_list_location": "N/A",
        "rewritten_manifest_file_paths_count": 2,
        "rewritten_delete_file_paths_count": 0,
    }
    assert not list((tmp_path / "staged").rglob("file-list"))
    document = json.loads((tmp_path / "staged" / "metadata" / earlier).read_text())
    assert len(document["snapshots"]) == 2
    assert document["location"] == f"file://{tmp_path}/x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source_prefix": "s3://elsewhere"}, "the table's location .* does not begin with it"),
        ({"source_prefix": "{source}x"}, "does not begin with it"),
        ({"target_prefix": "{source}/"}, "are the same"),
        ({"target_prefix": "/"}, "expected the prefix of paths"),
        ({"start_version": "00009.metadata.json"}, "has no version '00009.metadata.json'"),
        ({"start_version": "{latest}"}, "is not before"),
    ],
)
def test_unknown_prefixes_and_versions_are_refused(
    table: lakescan.Table, call: Called, tmp_path: Path, arguments: dict[str, str], message: str
) -> None:
    latest = path_of(connection("local").load_table("db.t").metadata_location).name
    given = {"source_prefix": "{source}", "target_prefix": "file:///x", **arguments}
    filled = {name: text.format(source=table.folder, latest=latest) for name, text in given.items()}
    before = files(table.folder)
    with pytest.raises(InvalidOption, match=message):
        call("rewrite_table_path", table="db.t", **filled)
    assert files(table.folder) == before


def test_files_outside_of_the_prefix_are_refused(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    table = local.create_table("db.t", "id BIGINT")
    table.append(pa.table({"id": [1]}))
    pq.write_table(pa.table({"id": [2]}), tmp_path / "other.parquet")
    call("add_files", "db.t", f"`parquet`.`{tmp_path / 'other.parquet'}`")
    before = files(table.folder)
    with pytest.raises(InvalidOption, match=r"the file .*other\.parquet does not begin with it"):
        call("rewrite_table_path", "db.t", table.folder, "file:///x")
    assert files(table.folder) == before


def test_a_missing_version_is_reported(table: lakescan.Table, call: Called) -> None:
    first = connection("local").load_table("db.t").metadata.metadata_log[0].metadata_file
    path_of(first).unlink()
    with pytest.raises(MissingFile, match="start_version"):
        call("rewrite_table_path", "db.t", table.folder, "file:///x")


def test_delta_tables_need_no_rewritten_paths(local: lakescan.Catalog, call: Called) -> None:
    local.create_table("db.d", "id BIGINT", format="delta")
    with pytest.raises(UnsupportedFeature, match="copy the folder"):
        call("rewrite_table_path", "db.d", "/a", "/b")


def test_nothing_is_left_of_a_failed_rewrite(table: lakescan.Table, call: Called) -> None:
    before = files(table.folder)
    with (
        patch(
            "lakescan.iceberg.maintenance.rewrite_table_path.rewrite.move_manifest_list", side_effect=OSError("full")
        ),
        pytest.raises(OSError, match="full"),
    ):
        call("rewrite_table_path", "db.t", table.folder, "file:///x")
    assert files(table.folder) == before


def test_prefixes_end_at_a_folder() -> None:
    moves = Prefixes("/a/t/", "s3://b/u")
    assert [moves.move(each, "it") for each in ("/a/t", "/a/t/x/y", "/a/t//é")] == [
        "s3://b/u",
        "s3://b/u/x/y",
        "s3://b/u//é",
    ]
    with pytest.raises(InvalidOption):
        moves.move("/a/tt/x", "it")


def test_a_value_in_maps_is_replaced_or_left_out() -> None:
    kind = pa.map_(pa.int32(), pa.binary())
    maps = pa.array([None, [], [(1, b"a"), (2, b"b")], [(2, b"c")], [(2, b"d"), (3, b"e")]], kind)
    values = pa.array([b"x", b"x", b"y", None, b"z"], pa.binary())
    for some, new in ((maps, values), (maps[2:], values[2:])):
        found = replace_map_value(some, 2, new).to_pylist()
        assert found[-3:] == [[(1, b"a"), (2, b"y")], [], [(2, b"z"), (3, b"e")]]
    assert replace_map_value(maps, 2, values).to_pylist()[:2] == [None, []]
