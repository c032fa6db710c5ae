"""Table health: its figures agree with the metadata, and the stated cost of a finding is that of its repair."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.maintenance.health.measure import coarser_field
from tests.support.browser import draw_page
from tests.tables.aged import folder_of, make_old, write_stray_files
from tests.tables.support import Make, now, rows

MERGE_ON_READ = {
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "delta.enableDeletionVectors": "true",
}


def finding(health: lakescan.TableHealth, step: str) -> lakescan.Finding:
    (found,) = [each for each in health.findings if each.step == step]
    return found


def properties_of(made: lakescan.Table, **more: str) -> dict[str, str]:
    own = "delta." if made.format == "delta" else "write."
    return {name: value for name, value in MERGE_ON_READ.items() if name.startswith(own)} | more


def appended(table: lakescan.Table, times: int) -> lakescan.Table:
    for number in range(times):
        table.append(rows(*((10 * number + n, "ab"[n % 2]) for n in range(10))))
    return now()


def test_an_empty_table_has_no_findings(made: Make) -> None:
    made()
    found = now().health()
    assert (found.files, found.bytes, found.partition_count) == (0, 0, 0)
    assert found.is_healthy
    assert "nothing to fix" in str(found)
    assert "nothing to fix" in found.to_html()


def test_files_and_partitions_are_counted_as_the_metadata_tables_have_them(made: Make) -> None:
    made()
    table = appended(now(), 3)
    table.append(rows((99, "b")))
    found, files = now().health(), now().inspect("files")
    sizes = files["file_size_in_bytes" if table.format == "iceberg" else "size_in_bytes"].to_pylist()
    assert (found.files, found.bytes, found.rows) == (7, sum(sizes), 31)
    assert (found.small_files, found.small_bytes) == (7, sum(sizes))
    assert sum(found.sizes["files"].to_pylist()) == 7
    assert found.partition_count == 2
    assert [(each["partition"], each["files"]) for each in found.partitions.to_pylist()] == [
        ("part=b", 4),
        ("part=a", 3),
    ]


def test_the_cost_of_compaction_is_the_size_of_the_rewritten_files(made: Make) -> None:
    made()
    table = appended(now(), 6)
    table.append(rows((99, "c")))  # one file of its partition
    told = finding(now().health(), "compact")
    assert told.files == 12
    result = now().compact(min_input_files=5, delete_ratio_threshold=0.3)
    assert (result.removed_files, result.removed_bytes) == (told.files, told.bytes)
    assert not [each for each in now().health().findings if each.step == "compact"]


def test_files_with_many_deleted_rows_are_a_finding_and_with_few_are_not(made: Make) -> None:
    table = made()
    table.alter().set_properties(properties_of(table)).commit()
    appended(now(), 1).delete("id = 0")
    few = now().health()
    assert (few.files_with_deletes, few.deleted_rows) == (1, 1)
    assert few.is_healthy
    now().delete("id < 6 and part = 'a'")
    many = now().health()
    assert many.deleted_rows == 3
    assert finding(many, "compact").files == 1


def test_equality_deletes_are_counted_with_the_cost_of_converting_them(local: lakescan.Catalog) -> None:
    made = local.create_table("db.t", "id BIGINT, part STRING", properties={"format-version": "2"})
    made.append(rows((1, "a"), (2, "b")))
    now().upsert(rows((2, "c")), keys=["id"], upsert_mode="equality")
    found = now().health()
    assert found.equality_delete_files == 1
    told = finding(found, "convert_equality_deletes")
    assert now().convert_equality_deletes().removed == told.files == 1
    assert now().health().equality_delete_files == 0


def test_position_deletes_that_could_be_fewer_are_a_finding(local: lakescan.Catalog) -> None:
    properties = {"format-version": "2", "write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    made = local.create_table("db.t", "id BIGINT, part STRING", properties=properties)
    made.append(rows(*((n, "a") for n in range(100))))
    for number in range(6):
        now().delete(f"id = {number}")
    found = now().health()
    assert found.unused_deletes == 0
    told = finding(found, "rewrite_position_deletes")
    result = now().rewrite_position_deletes()
    assert (told.files, told.bytes) == (result.rewritten_delete_files, result.rewritten_bytes)


def test_many_small_manifests_are_a_finding(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", properties={"commit.manifest-merge.enabled": "false"})
    found = appended(now(), 3).health()
    assert found.manifests == now().inspect("manifests").num_rows == 3
    assert finding(found, "rewrite_manifests").files == now().rewrite_manifests().rewritten
    assert now().health().is_healthy


def test_commits_without_a_checkpoint_are_a_finding(local: lakescan.Catalog) -> None:
    made = local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    made.alter().set_properties({"delta.checkpointInterval": "100"}).commit()
    appended(now(), 3).alter().set_properties({"delta.checkpointInterval": "3"}).commit()
    found = now().health()
    assert (found.log_commits, found.checkpoint) == (6, None)
    assert finding(found, "checkpoint").files == 6
    now().checkpoint()
    found = now().health()
    assert (found.log_commits, found.checkpoint) == (0, 5)
    assert found.is_healthy


def all_files(folder: Path) -> list[str]:
    return [str(each) for each in folder.rglob("*") if each.is_file()]


def test_expirable_snapshots_are_a_finding_with_their_files(local: lakescan.Catalog, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    appended(now(), 2).overwrite(rows((1, "a")))
    kept = now().health()
    assert (kept.expirable, kept.retained_files) == (0, 2)
    now().alter().set_properties({"history.expire.max-snapshot-age-ms": "1"}).commit()
    told, before = finding(now().health(), "expire_snapshots"), set(all_files(tmp_path))
    assert told.removes
    assert int(now().expire_snapshots(clean_expired_files=True)) == kept.snapshots - 1
    gone = before - set(all_files(tmp_path))
    assert sum(each.endswith(".parquet") for each in gone) == 2
    assert told.files == len(gone) > 2 + kept.snapshots - 1  # data files, manifest lists, and manifests
    assert now().health().retained_files == 0


def test_removed_files_of_delta_are_a_finding_once_their_retention_is_over(local: lakescan.Catalog) -> None:
    made = local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    appended(made, 2).overwrite(rows((1, "a")))
    kept = now().health()
    assert (kept.retained_files, kept.is_healthy) == (2, True)
    now().alter().set_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"}).commit()
    told = finding(now().health(), "remove_orphans")
    assert (told.files, told.bytes, told.removes) == (2, kept.retained_bytes, True)


def test_orphans_are_listed_only_if_asked_for(made: Make, tmp_path: Path) -> None:
    table = made()
    appended(table, 1)
    folder = folder_of(now().folder)
    write_stray_files(folder / "data" / "stray.parquet")
    make_old(tmp_path)
    assert now().health().orphans is None
    found = now().health(orphans=True)
    assert (found.orphans, found.orphan_bytes) == (1, (folder / "data" / "stray.parquet").stat().st_size)
    assert finding(found, "remove_orphans").files == 1


def test_no_data_file_is_opened(made: Make) -> None:
    table = made()
    appended(table, 2)
    for each in folder_of(now().folder).rglob("*.parquet"):
        if "_delta_log" not in each.parts:
            each.unlink()
    assert now().health().files == 4


def test_a_table_that_was_opened_by_its_metadata_file_has_its_health(shop: Any) -> None:
    assert lakescan.table(shop.orders).health().files > 0


def test_the_result_has_a_sentence_per_finding_and_plain_values(made: Make) -> None:
    table = made()
    found = appended(table, 1).health()
    assert str(found).startswith(f"{table.name or table.location} ({table.format}, ")
    assert found.to_dict()["partitions"][0]["files"] == 1
    assert found.to_dict()["findings"] == []
    assert found._repr_html_().count("<section") == 1


def test_names_are_escaped_and_the_page_fits_a_narrow_screen(local: lakescan.Catalog, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    for number in range(6):
        now().append(rows((number, "<b>" + "long" * 30)))
    page = now().health().to_html(tmp_path / "health.html")
    assert "<b>long" not in page
    assert (tmp_path / "health.html").read_text() == page
    shapes = draw_page(tmp_path / "health.html", width=500)
    for each in shapes.of("section, .finding, pre, svg"):
        assert each.x >= 0
        assert each.x + each.width <= shapes.width


def test_small_files_and_files_with_many_deletes_are_distinguished(local: lakescan.Catalog) -> None:
    made = local.create_table("db.t", "id BIGINT, part STRING", properties={"write.delete.mode": "merge-on-read"})
    made.append(rows(*((number, "a") for number in range(10))))
    now().delete("id < 4")
    (finding,) = (each for each in now().health().findings if each.step == "compact")
    assert (finding.name, finding.what) == ("deletes", "1 file has 30% deleted rows or more")
    for number in range(5):
        now().append(rows((number, "b")))
    (finding,) = (each for each in now().health().findings if each.step == "compact")
    assert finding.name == "small files and deletes"
    assert finding.what.startswith("5 small files (")
    assert finding.what.endswith(" on average) could be fewer; 1 file has 30% deleted rows or more")


def test_a_clustered_table_is_compacted_along_its_columns(local: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE local.db.t (id BIGINT, part STRING) USING delta CLUSTER BY (part)")
    for number in range(5):
        now().append(rows((number, "b"), (number, "a")))
    assert now().health().clustering == ("part",)
    assert now().health().to_dict()["clustering"] == ["part"]
    (finding,) = now().health().findings
    assert "zorder_by=['part'], rewrite_all=False" in finding.python
    assert "--zorder-by part -o rewrite-all=false" in finding.shell
    assert not now().maintain(skip=["remove_orphans"]).failed
    assert now().scan().to_arrow()["part"].to_pylist() == ["a"] * 5 + ["b"] * 5
    assert now().health().is_healthy


def test_advice_on_partitions_names_the_fields_of_the_table(local: lakescan.Catalog) -> None:
    days = ["day"]
    assert [
        coarser_field(each, days) for each in ("hour(ts)", "day(ts)", "month(ts)", "year(ts)", "bucket(16, id)")
    ] == [
        "days(ts)",
        "months(ts)",
        "years(ts)",
        "",
        "",
    ]
    assert (coarser_field("day", ["day"]), coarser_field("part", ["day"])) == ("months(day)", "bucket(16, part)")
    many = pa.table({"id": range(100), "day": [date(2026, 1, 1) + timedelta(n) for n in range(100)]})
    for format, advice in (
        ("iceberg", "REPLACE PARTITION FIELD day WITH months(day)"),
        ("delta", "CREATE TABLE NEW_TABLE USING delta CLUSTER BY (COLUMN) AS SELECT * FROM local.db.delta"),
    ):
        table = local.create_table(f"db.{format}", "id BIGINT, day DATE", format=format, partition_by=["day"])
        table.append(many)
        (found,) = local.load_table(f"db.{format}").health().findings
        assert (found.name, advice in found.shell) == ("partitions", True)
    change = local.load_table("db.iceberg").health().findings[0].shell.split('"')[1]
    lakescan.sql(change)
    assert local.load_table("db.iceberg").partitioning == "month(day)"


def test_a_table_that_does_not_own_its_files_is_maintained_without_removing_any(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", properties={"gc.enabled": "false"}).append(rows((1, "a")))
    assert "its files are not removed, since gc.enabled is not true" in str(now().health())
    assert now().maintain().steps == ()


def test_missing_files_are_named_with_advice(made: Make) -> None:
    made()
    table = appended(now(), 2)
    assert now().health().missing == ()
    lost = Path(table.scan().plan().table.files["path"][0].as_py().removeprefix("file://"))
    lost.unlink()
    found = now().health()
    assert [Path(each.removeprefix("file://")) for each in found.missing or ()] == [lost]
    (named,) = [each for each in found.findings if each.name == "missing files"]
    assert lost.name in named.what
    assert "restore" in named.what
    assert named.step == ""  # `maintain` does not repair it
    assert now().health(missing=False).missing is None
    assert "missing files" in found.to_html()


def test_delete_files_are_looked_up_too(made: Make) -> None:
    table = made()
    table = appended(now(), 1)
    table.alter().set_properties(properties_of(table)).commit()
    now().delete("id = 3")
    (path,) = now().scan().plan().table.deletes["path"].to_pylist()
    Path(path.removeprefix("file://")).unlink()
    assert now().health(missing=True).missing == (path,)


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        ({}, "the key is id, and nothing enforces it: append and INSERT add rows even if the key exists"),
        (
            {"write.upsert.enabled": "true"},
            "the key is id: appended rows replace those with their keys (write.upsert.enabled)",
        ),
    ],
)
def test_a_key_that_is_not_enforced_is_reported(local: lakescan.Catalog, properties, sentence: str) -> None:
    columns = "id BIGINT NOT NULL, value STRING"
    keyed = local.create_table("db.keyed", columns, primary_key="id", properties=properties)
    assert (keyed.health().sentences()[-1], keyed.health().is_healthy) == (sentence, True)
    assert sentence in str(keyed.health())
    assert keyed.health().to_dict()["primary_key"] == ["id"]
    plain = local.create_table("db.plain", columns)
    assert not any("key" in each for each in plain.health().sentences())
