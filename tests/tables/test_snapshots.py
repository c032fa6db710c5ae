"""Snapshots: manifests kept, rewritten or merged; summaries; and other readers' view of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.exceptions import CommitFailedException

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.iceberg.commit.commit import IcebergCommit
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.manifests.manifest_entries import entries_of, read_entries
from lakescan.iceberg.manifests.manifest_file import manifest_files
from lakescan.iceberg.manifests.manifest_list import snapshot_manifests
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_writes
from lakescan.iceberg.table import IcebergTable
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from tests.tables.support import NAME, maker, now, pairs, rows

VERSIONS = ["iceberg version 1", "iceberg", "iceberg version 3"]


@pytest.fixture(params=VERSIONS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def summary() -> dict[str, str]:
    snapshots = now().inspect("snapshots").to_pylist()
    return dict(max(snapshots, key=lambda each: each["committed_at"])["summary"])


def manifests() -> pa.Table:
    return now().inspect("manifests")


def test_an_append_adds_a_manifest_and_keeps_the_others(kind: str, local: lakescan.Catalog) -> None:
    table = maker(kind, local)()
    table.append(rows((1, "a"), (2, "b")))
    before = set(manifests()["path"].to_pylist())
    table.append(rows((3, "b")))
    assert before < set(manifests()["path"].to_pylist())
    assert summary()["manifests-created"] == "1"
    assert summary()["manifests-kept"] == "1"
    assert summary()["manifests-replaced"] == "0"


def test_an_overwrite_rewrites_only_the_manifests_that_have_the_replaced_files(
    kind: str, local: lakescan.Catalog
) -> None:
    table = maker(kind, local)()
    table.append(rows((1, "a")))
    kept = set(manifests()["path"].to_pylist())
    table.append(rows((2, "b"), (3, "c")))
    table.overwrite(rows((4, "b")), where="part = 'b'")
    assert kept < set(manifests()["path"].to_pylist())
    counts = {
        name: pc.sum(manifests()[f"{name}_data_files_count"]).as_py() for name in ("added", "existing", "deleted")
    }
    assert counts == {"added": 2, "existing": 1, "deleted": 1}
    assert pairs() == [(1, "a"), (3, "c"), (4, "b")]


def test_small_manifests_are_merged_once_there_are_enough(kind: str, local: lakescan.Catalog) -> None:
    table = maker(kind, local)(properties={"commit.manifest.min-count-to-merge": "3"})
    appended = []
    for number, part in zip(range(7), "abcabca", strict=False):
        appended.append((number, part))
        table.append(rows(appended[-1]))
        assert pairs() == appended
        assert manifests().num_rows <= 3
    entries = now().inspect("entries")
    assert sorted(set(entries["status"].to_pylist())) == [0, 1]
    assert len(set(entries["snapshot_id"].to_pylist())) == len(appended)


def test_merged_manifests_keep_their_places_so_that_the_next_commits_find_the_same_groups(
    local: lakescan.Catalog,
) -> None:
    table = maker("iceberg", local)(properties={"commit.manifest-merge.enabled": "false"})
    for number in range(12):
        table.append(rows((number, "a")))
    size = max(manifests()["length"].to_pylist())
    target = {"commit.manifest-merge.enabled": "true", "commit.manifest.target-size-bytes": str(size * 3)}
    table.alter().set_properties(target).commit()
    for number in range(12, 20):
        now().append(rows((number, "a")))
        metadata = now()._spec.table.metadata
        listed = snapshot_manifests(metadata.snapshots[metadata.current_snapshot_id], metadata, Storage())
        oldest = listed["min_sequence_number"].to_pylist()
        assert oldest == sorted(oldest, reverse=True)
    assert pairs() == [(number, "a") for number in range(20)]


def test_merging_can_be_turned_off(local: lakescan.Catalog) -> None:
    properties = {"commit.manifest.min-count-to-merge": "2", "commit.manifest-merge.enabled": "false"}
    table = maker("iceberg", local)(properties=properties)
    for number in range(4):
        table.append(rows((number, "a")))
    assert manifests().num_rows == 4


def test_many_files_are_several_manifests_of_the_target_size(kind: str, local: lakescan.Catalog) -> None:
    table = maker(kind, local)(properties={"commit.manifest.target-size-bytes": "1"})
    table.append(rows(*((number, letter) for number, letter in enumerate("abcdef"))))
    assert manifests().num_rows == 6
    assert len(pairs()) == 6


def test_the_summary_has_counts_of_changes_and_totals(kind: str, local: lakescan.Catalog) -> None:
    table = maker(kind, local)()
    table.append(rows((1, "a"), (2, "a"), (3, "b")))
    first = summary()
    expected = {"added-data-files": "2", "added-records": "3", "changed-partition-count": "2"}
    assert first.items() >= expected.items()
    assert first["total-files-size"] == first["added-files-size"]
    table.overwrite(rows((9, "b")), where="part = 'b'")
    second = summary()
    changes = {"added-data-files": "1", "deleted-data-files": "1", "added-records": "1", "deleted-records": "1"}
    totals = {"total-data-files": "2", "total-records": "3", "total-delete-files": "0", "total-equality-deletes": "0"}
    assert second.items() >= {**changes, **totals, "changed-partition-count": "1"}.items()


def test_other_readers_see_the_same_rows(local: lakescan.Catalog) -> None:
    numbers = count()
    table = maker("iceberg", local)(properties={"commit.manifest.min-count-to-merge": "2"})
    for part in "abcab":
        table.append(rows((next(numbers), part)))
    table.overwrite(rows((next(numbers), "a")), where="part = 'a'")
    table.compact()
    theirs = connection("local").load_table(("db", "t")).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["part"]) for row in theirs) == pairs()
    assert [pair[0] for pair in pairs()] == [1, 2, 4, 5]
    assert NAME == "local.db.t"


def test_a_file_that_another_commit_removed_is_a_conflict_and_leaves_no_manifests(
    local: lakescan.Catalog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from lakescan.iceberg.commit.commit_snapshot import commit_snapshot
    from lakescan.iceberg.commit.file_changes import SnapshotChanges
    from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer

    table = maker("iceberg", local)()
    table.append(rows((1, "a")))
    opened = connection("local").load_table(("db", "t"))
    base = CommitBase(IcebergTable.open(opened.metadata_location, Storage()).metadata, opened.metadata)
    missing = SnapshotChanges(removed=pa.array(["file:/nowhere.parquet"]))
    producer = SnapshotProducer(base, Storage(), "overwrite", missing)
    with pytest.raises(lakescan.CommitConflict, match=r"nowhere\.parquet"):
        commit_snapshot(opened, producer, set(base.metadata.snapshots), Storage())
    assert not [path for path in producer.stored_locations if Storage().exists(path)]
    assert pairs() == [(1, "a")]


def test_manifests_are_rewritten_by_partition_without_a_change_of_rows(kind: str, local: lakescan.Catalog) -> None:
    table = maker(kind, local)(properties={"commit.manifest-merge.enabled": "false"})
    appended = [(number, "abc"[number % 3]) for number in range(9)]
    for each in appended:
        table.append(rows(each))
    lineage = ["_row_id", "_last_updated_sequence_number"] if kind.endswith("3") else []
    before = table.scan().select("id", "part", *lineage).to_arrow().sort_by("id")
    result = table.rewrite_manifests()
    assert (result.rewritten, result.written) == (9, 1)
    assert str(result) == "9 manifests rewritten as 1"
    assert table.scan().select("id", "part", *lineage).to_arrow().sort_by("id") == before
    assert table.history()["operation"].to_pylist()[-1] == "replace"
    entries = table.inspect("entries")
    assert set(entries["status"].to_pylist()) == {0}
    parts = [entry["data_file"]["partition"]["part"] for entry in entries.to_pylist()]
    assert len([1 for a, b in pairwise(parts) if a != b]) == 2
    assert table.rewrite_manifests().rewritten == 0
    table.append(rows((9, "a")))
    assert pairs() == [*appended, (9, "a")]


def test_manifests_with_removed_files_and_of_other_specs_are_rewritten_or_kept(local: lakescan.Catalog) -> None:
    table = maker("iceberg", local)()
    table.append(rows((1, "a"), (2, "b")))
    table.overwrite(rows((3, "b")), where="part = 'b'")
    with connection("local").load_table(("db", "t")).update_spec() as spec:
        spec.add_field("id", "bucket[2]", "bucket")
    now().append(rows((4, "c")))
    now().append(rows((5, "c")))
    before = pairs()
    assert now().rewrite_manifests().rewritten == 2
    assert pairs() == before
    assert len(set(manifests()["partition_spec_id"].to_pylist())) == 2


def test_manifests_of_delta_tables_are_refused_by_name(local: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="manifests of Delta tables"):
        maker("delta", local)().rewrite_manifests()


def test_a_summary_names_the_changed_partitions_up_to_a_limit(kind: str, local: lakescan.Catalog) -> None:
    table = maker(kind, local)(properties={"write.summary.partition-limit": "2"})
    table.append(rows((1, "a"), (2, "a"), (3, None)))
    first = summary()
    assert first["partition-summaries-included"] == "true"
    assert first["partitions.part=a"].startswith("added-data-files=1,added-records=2,added-files-size=")
    assert first["partitions.part=null"].startswith("added-data-files=1,added-records=1,")
    table.append(rows((4, "a"), (5, "b"), (6, "c")))
    assert not [name for name in summary() if name.startswith("partition")]
    assert summary()["changed-partition-count"] == "3"


def test_the_properties_of_retries_are_obeyed(local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = maker("iceberg", local)(properties={"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1"})
    attempts = []

    def refuse(*arguments: object) -> None:
        attempts.append(arguments)
        raise CommitFailedException("another commit was first")

    monkeypatch.setattr(type(connection("local")), "commit_table", refuse)
    with pytest.raises(lakescan.CommitConflict, match="after 3 attempts"):
        table.append(rows((1, "a")))
    assert len(attempts) == 3


def recorded(change: Callable[[dict[str, Any]], None]) -> None:
    """Change the table's newest metadata file in place."""
    path = Path(connection("local").load_table(("db", "t")).metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", ["day(ts)", "a-b", "1x", "é", "p q", "😀"])
def test_partition_field_names_are_valid_in_avro_and_also_kept(name: str, local: lakescan.Catalog) -> None:
    table = maker("iceberg", local)(partition_by=())
    with connection("local").load_table(("db", "t")).update_spec() as spec:
        spec.add_field("part", "identity", name)
    table = now()
    table.append(rows((1, "a"), (2, "b")))
    [path] = manifests()["path"].to_pylist()
    with Path(path.removeprefix("file://")).open("rb") as file:
        schema = fastavro.reader(file).writer_schema
    [file_type] = [each["type"] for each in schema["fields"] if each["name"] == "data_file"]
    [partition] = [each["type"]["fields"] for each in file_type["fields"] if each["name"] == "partition"]
    assert re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", partition[0]["name"])
    assert partition[0]["iceberg-field-name"] == name
    assert sorted(now().scan().where("part = 'b'").to_arrow()["id"].to_pylist()) == [2]
    theirs = connection("local").load_table(("db", "t")).scan(row_filter="part = 'a'").to_arrow()
    assert theirs["id"].to_pylist() == [1]


def test_row_ids_are_unique_in_a_table_without_a_next_row_id(local: lakescan.Catalog) -> None:
    local.create_namespace("db", exist_ok=True)
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    with metadata_writes({}, "db.t"):  # otherwise pyiceberg refuses version 3
        theirs = connection("local").create_table(("db", "t"), schema, properties={"format-version": "3"})
    assert theirs.metadata.next_row_id is None
    now().append(rows((1, "a"), (2, "b")))
    now().append(rows((3, "a")))
    now().append(rows((4, "b"), (5, "b")))
    found = now().scan().select("id", "_row_id").to_arrow()
    assert sorted(found["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert len(set(found["_row_id"].to_pylist())) == 5


def test_no_sequence_number_is_used_twice_when_another_branch_commits_first(local: lakescan.Catalog) -> None:
    table = maker("iceberg version 3", local)()
    table.append(rows((1, "a"), (2, "b")))
    opened = connection("local").load_table(("db", "t"))
    with opened.manage_snapshots() as refs:
        refs.create_branch(snapshot_id=opened.current_snapshot().snapshot_id, branch_name="other")
    stale = connection("local").load_table(("db", "t"))
    before = IcebergTable.open(stale.metadata_location, Storage())
    now().overwrite(rows((1, "a")).slice(1))  # no rows are left: the next row id stays
    commit_of(stale, before, "other").append([])
    numbers = [each.sequence_number for each in connection("local").load_table(("db", "t")).metadata.snapshots]
    assert numbers == [1, 2, 3]


def commit_of(opened: Any, before: IcebergTable, branch: str) -> IcebergCommit:
    return IcebergCommit(opened, IcebergWrites(opened.metadata, Storage(), WriteOptions()), before, branch)


def test_manifests_whose_partition_values_have_lost_their_type_are_kept(local: lakescan.Catalog) -> None:
    table = maker("iceberg", local)(properties={"commit.manifest-merge.enabled": "false"})
    table.append(rows((1, "a")))
    table.append(rows((2, "b")))
    opened = connection("local").load_table(("db", "t"))
    with opened.transaction() as change:
        change.set_properties({"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"})
        with change.update_spec() as spec:
            spec.remove_field("part")
        with change.update_schema(allow_incompatible_changes=True) as schema:
            schema.delete_column("part")

    def forget_old_schemas(document: dict[str, Any]) -> None:
        current = document["current-schema-id"]
        document["schemas"] = [each for each in document["schemas"] if each["schema-id"] == current]
        for each in document["snapshots"]:
            each["schema-id"] = current

    recorded(forget_old_schemas)
    for number in (3, 4):
        now().append(pa.table({"id": [number]}))
    assert sorted(now().scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(manifests()["partition_spec_id"].to_pylist()) == [0, 0, 1]


def test_an_existing_file_without_a_sequence_number_is_not_given_one(local: lakescan.Catalog) -> None:
    table = maker("iceberg", local)()
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    opened = connection("local").load_table(("db", "t"))
    metadata = IcebergTable.open(opened.metadata_location, Storage()).metadata
    head = metadata.snapshots[metadata.current_snapshot_id or 0]
    [newest, _] = manifest_files(snapshot_manifests(head, metadata, Storage()))
    entries = read_entries(newest, metadata.specs[0], Storage())
    nulls = pa.nulls(1, pa.int64())
    places = {name: entries.column_names.index(name) for name in ("status", "sequence_number")}
    entries = entries.set_column(places["status"], "status", pa.array([0], pa.int32()))
    entries = entries.set_column(places["sequence_number"], "sequence_number", nulls)
    data = CommitBase(metadata, opened.metadata).writer(0).write(entries)
    other = replace(newest, manifest_path=newest.manifest_path + ".other", added_files_count=0, existing_files_count=1)
    with Storage().create(other.manifest_path) as file:
        file.write(data)
    assert read_entries(other, metadata.specs[0], Storage())["sequence_number"].to_pylist() == [None]
    with pytest.raises(lakescan.CorruptMetadata, match="without a sequence number"):
        list(entries_of([other], metadata.specs, Storage()))
