"""Manifests and manifest lists that contradict each other are refused by scans and by metadata tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from samples.iceberg_deletes import (
    commit_deletes,
    local,
    write_deletion_vectors,
    write_equality_deletes,
    write_position_deletes,
)
from samples.iceberg_table import write_table

import lakescan
from lakescan.errors import CorruptMetadata, NotATable
from tests.support.manifests import cut_after_header, rewrite_avro

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "p", "required": False, "type": "int"},
]
SPEC = [{"name": "p", "transform": "identity", "source-id": 2, "field-id": 1000}]


class Table:
    """A table of two files in one manifest, with deletes in others. Tests damage one of these files."""

    def __init__(self, folder: Path) -> None:
        rows = [pa.table({"id": [1, 2, 3], "p": pa.array([0, 0, 0], pa.int32())})] * 2
        written = write_table(folder / "t", FIELDS, rows, version=2, spec=SPEC, partitions=[{"p": 0}, {"p": 0}])
        self.location = f"file://{folder}/t"
        self.metadata = f"{self.location}/metadata/00001-a.metadata.json"
        local(written).rename(local(self.metadata))
        self.data = Path(folder / "t" / "metadata" / "m0.avro")

    def delete(self, kind: str) -> Path:
        """Delete one row, or two rows by equality; return the manifest of the deletes."""
        path, of = f"{self.location}/data/d.{kind}", {"partition": {"p": 0}, "spec_id": 1}
        first = f"{self.location}/data/0.parquet"
        if kind == "equality":
            entries = [write_equality_deletes(path, pa.table({"id": [1]}), {"id": 1}, **of)]
        elif kind == "positions":
            entries = [write_position_deletes(path, [(first, 0)], **of)]
        else:
            entries = write_deletion_vectors(path, {first: [0]}, **of)
        self.metadata = commit_deletes(self.metadata, entries, format_version=3 if kind == "vector" else None)
        return next(self.data.parent.glob("*deletes*.avro"))

    @property
    def list(self) -> Path:
        """Return the manifest list of the current snapshot."""
        node = json.loads(local(self.metadata).read_text())
        current = next(s for s in node["snapshots"] if s["snapshot-id"] == node["current-snapshot-id"])
        return local(current["manifest-list"])

    def summarize(self, **summary: str) -> None:
        """Set members of the current snapshot's summary."""
        node = json.loads(local(self.metadata).read_text())
        current = next(s for s in node["snapshots"] if s["snapshot-id"] == node["current-snapshot-id"])
        current["summary"] |= {k.replace("_", "-"): v for k, v in summary.items()}
        local(self.metadata).write_text(json.dumps(node))

    def count(self) -> int:
        """Count the rows by reading them."""
        return lakescan.table(self.metadata).scan().to_arrow().num_rows

    def is_refused(self, problem: str, file: Path) -> None:
        """Check that scans and the `files` table raise an error that names the file and the problem."""
        for read in (self.count, lambda: lakescan.table(self.metadata).inspect("files")):
            with pytest.raises(CorruptMetadata, match=rf"{file.name}.*{problem}.*\. Restore"):
                read()


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def set_file(**members: Any) -> Callable[[list[Any]], None]:
    def change(entries: list[Any]) -> None:
        for each in entries:
            each["data_file"].update(members)

    return change


def set_rows(**members: Any) -> Callable[[list[Any]], None]:
    def change(rows: list[Any]) -> None:
        for each in rows:
            each.update(members)

    return change


def test_undamaged_manifests_are_read(table: Table) -> None:
    assert table.count() == 6
    table.delete("positions")
    assert table.count() == 5
    table.delete("equality")
    assert table.count() == 4
    table.delete("vector")
    assert table.count() == 4


@pytest.mark.parametrize("ids", [None, []])
def test_an_equality_delete_must_have_equality_ids(table: Table, ids: list[int] | None) -> None:
    manifest = table.delete("equality")
    rewrite_avro(manifest, set_file(equality_ids=ids))
    table.is_refused("no equality_ids", manifest)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"content": 2}, "equality deletes in a file of deletion vectors"),
        ({"referenced_data_file": None}, "no referenced_data_file"),
        ({"content_offset": None}, "no content_offset"),
        ({"content_offset": -1}, "no content_offset"),
        ({"content_size_in_bytes": None}, "no content_offset and content_size_in_bytes"),
        ({"content_size_in_bytes": -1}, "no content_offset and content_size_in_bytes"),
        ({"content_size_in_bytes": 2**62}, "no content_offset and content_size_in_bytes"),
        ({"content_size_in_bytes": 0}, "no content_offset and content_size_in_bytes"),
    ],
)
def test_a_deletion_vector_must_have_an_offset_and_a_data_file(table: Table, members: Any, problem: str) -> None:
    manifest = table.delete("vector")
    rewrite_avro(manifest, set_file(**members))
    table.is_refused(problem, manifest)


@pytest.mark.parametrize("size", [2**47, 2**62, 2**63 - 1, -1])
def test_an_impossible_file_size_is_ignored(table: Table, size: int) -> None:
    for manifest in (table.data, table.delete("positions"), table.delete("equality")):
        rewrite_avro(manifest, set_file(file_size_in_bytes=size))
    plan = lakescan.table(table.metadata).scan().plan()
    assert plan.report.metrics.total_file_size_in_bytes == 0
    assert plan.report.splits == 2
    assert table.count() == 4


@pytest.mark.parametrize("content", [7, -1, 2])
def test_the_content_of_a_manifest_is_data_or_deletes(table: Table, content: int) -> None:
    table.delete("positions")
    rewrite_avro(table.list, set_rows(content=content))
    table.is_refused(f"has content {content}", table.list)


@pytest.mark.parametrize("kind", ["positions", "equality", "vector"])
@pytest.mark.parametrize("header", ["as written", "none"])
def test_deletes_are_not_read_as_data(table: Table, kind: str, header: str) -> None:
    manifest = table.delete(kind)
    if header == "none":
        rewrite_avro(manifest, content=None)
    rewrite_avro(table.list, set_rows(content=0))
    table.is_refused("deletes" if header == "as written" else "content of a delete file", manifest)


@pytest.mark.parametrize("header", ["as written", "none"])
def test_data_is_not_read_as_deletes(table: Table, header: str) -> None:
    if header == "none":
        rewrite_avro(table.data, content=None)
    rewrite_avro(table.list, set_rows(content=1))
    table.is_refused("contains deletes" if header == "as written" else "content of a data file", table.data)


@pytest.mark.parametrize("content", [1, 2, 7, -1])
def test_files_of_a_data_manifest_are_data_files(table: Table, content: int) -> None:
    rewrite_avro(table.data, set_file(content=content))
    table.is_refused("content of a delete file", table.data)


@pytest.mark.parametrize("content", [0, 7, -1])
def test_files_of_a_delete_manifest_are_delete_files(table: Table, content: int) -> None:
    manifest = table.delete("positions")
    rewrite_avro(manifest, set_file(content=content))
    table.is_refused("content of a data file", manifest)


@pytest.mark.parametrize("status", [3, 7, -1])
def test_an_entry_has_one_of_three_statuses(table: Table, status: int) -> None:
    rewrite_avro(table.data, set_rows(status=status))
    table.is_refused(f"status {status}", table.data)


@pytest.mark.parametrize("count", [-1, 2**45])
def test_an_impossible_record_count_is_refused(table: Table, count: int) -> None:
    rewrite_avro(table.data, set_file(record_count=count))
    table.is_refused("record_count", table.data)


def test_a_manifest_must_have_the_entries_counted_in_the_list(table: Table) -> None:
    rewrite_avro(table.data, lambda entries: entries.pop())
    table.is_refused("1 entries of added or existing files, but its manifest list counts 2", table.data)


def test_a_manifest_that_was_cut_where_a_block_ends_is_noticed(table: Table) -> None:
    cut_after_header(table.data)
    table.is_refused("0 entries", table.data)


def test_an_entry_changed_to_deleted_is_noticed(table: Table) -> None:
    rewrite_avro(table.data, lambda entries: entries[0].update(status=2))
    table.is_refused("1 entries of added or existing files", table.data)


def test_without_counts_the_length_shows_that_a_manifest_was_cut(table: Table) -> None:
    written = json.dumps(_without_counts(table.list))
    assert "added_files_count" not in written
    cut_after_header(table.data)
    table.is_refused("it was truncated", table.data)


def test_entries_not_counted_in_the_list_are_read(table: Table) -> None:
    """Some tables were edited by tools that did not update the manifest list. The reference reads them."""
    rewrite_avro(table.list, set_rows(added_files_count=1, manifest_length=1))
    assert table.count() == 6


def test_an_entry_that_was_repeated_does_not_double_its_rows(table: Table) -> None:
    rewrite_avro(table.data, lambda entries: entries.append(entries[1]))
    table.is_refused("3 entries .* files, but its manifest list counts 2, and .*1.parquet", table.data)


def test_a_file_that_was_committed_twice_is_read_twice(table: Table) -> None:
    """The reference reads it twice, too. The manifest list also counts it twice."""
    rewrite_avro(table.data, lambda entries: entries.append(entries[1]))
    rewrite_avro(table.list, set_rows(added_files_count=3))
    assert table.count() == 9


def test_a_file_may_be_deleted_and_added_again_in_one_manifest(table: Table) -> None:
    rewrite_avro(table.data, lambda entries: entries.append({**entries[1], "status": 2}))
    assert table.count() == 6


def test_zero_counts_do_not_hide_a_manifest(table: Table) -> None:
    rewrite_avro(table.list, set_rows(added_files_count=0, existing_files_count=0))
    assert table.count() == 6


def test_negative_counts_are_refused(table: Table) -> None:
    rewrite_avro(table.list, set_rows(added_files_count=-1))
    table.is_refused("-1 for added_files_count", table.list)


def test_a_manifest_listed_twice_is_refused(table: Table) -> None:
    rewrite_avro(table.list, lambda rows: rows.extend(rows))
    table.is_refused(r"m0\.avro more than once", table.list)


def test_a_manifest_and_its_list_entry_must_have_the_same_partition_spec(table: Table) -> None:
    rewrite_avro(table.list, set_rows(partition_spec_id=0))
    table.is_refused("header has the partition spec '1', but its manifest list records 0", table.data)
    rewrite_avro(table.data, partition_spec_id=None)
    lakescan.table(table.metadata).scan().plan()


def test_a_partition_spec_must_exist_in_the_table(table: Table) -> None:
    rewrite_avro(table.list, set_rows(partition_spec_id=77))
    table.is_refused("partition spec 77", table.data)


@pytest.mark.parametrize("name", ["total_data_files", "added_data_files", "total_delete_files"])
def test_an_empty_list_is_accepted_only_for_an_empty_snapshot(table: Table, name: str) -> None:
    cut_after_header(table.list)
    assert table.count() == 0
    table.summarize(**{name: "0"})
    assert table.count() == 0
    table.summarize(**{name: "2"})
    table.is_refused("lists no manifest", table.list)


def test_lost_manifests_are_noticed_by_totals_that_follow_from_the_parent(table: Table) -> None:
    table.summarize(total_data_files="2", total_delete_files="0", added_data_files="2")
    table.delete("positions")
    table.summarize(total_data_files="2", total_delete_files="1", added_delete_files="1")
    assert table.count() == 5
    rewrite_avro(table.list, lambda rows: rows.pop())
    table.is_refused("have 0 live files, but the summary .* total-delete-files=1", table.list)


def test_manifests_with_the_total_number_of_files_are_complete(table: Table) -> None:
    table.summarize(total_data_files="2", added_data_files="2")
    rewrite_avro(table.list, set_rows(added_files_count=1))
    assert table.count() == 6


def test_totals_that_do_not_follow_from_the_parent_are_ignored(table: Table) -> None:
    """Writers add changes to the previous snapshot's totals, so an error in a total stays."""
    table.summarize(total_data_files="9", added_data_files="2")
    assert table.count() == 6
    table.delete("positions")
    table.summarize(total_data_files="9", total_delete_files="1", added_delete_files="1")
    assert table.count() == 5


def test_a_manifest_list_is_not_read_as_a_manifest(table: Table) -> None:
    table.data.write_bytes(table.list.read_bytes())
    table.is_refused("not a manifest", table.data)


def test_a_manifest_is_not_read_as_a_manifest_list(table: Table) -> None:
    table.list.write_bytes(table.data.read_bytes())
    table.is_refused("not a manifest list", table.list)


def test_an_existing_file_must_have_a_sequence_number_if_deletes_apply(table: Table) -> None:
    rewrite_avro(table.data, set_rows(status=0))
    rewrite_avro(table.list, set_rows(added_files_count=0, existing_files_count=2))
    assert table.count() == 6
    table.delete("equality")
    with pytest.raises(CorruptMetadata, match=r"m0\.avro.*without a sequence number"):
        table.count()


def test_files_differ_by_partitions_whose_source_no_schema_has(tmp_path: Path) -> None:
    """Deletes of a partition match by its values, even if the column was dropped and its schema expired."""
    table = Table(tmp_path)
    rewrite_avro(table.data, lambda entries: entries[1]["data_file"]["partition"].update(p=1))
    table.delete("equality")
    assert table.count() == 5
    node = json.loads(local(table.metadata).read_text())
    node["schemas"][0]["fields"].pop()
    local(table.metadata).write_text(json.dumps(node))
    assert table.count() == 5


def test_a_storage_error_is_not_reported_as_damage(table: Table, tmp_path: Path) -> None:
    table.data.unlink()
    with pytest.raises(lakescan.MissingFile, match=r"m0\.avro"):
        table.count()
    with pytest.raises(NotATable):
        lakescan.table(str(tmp_path / "nothing"))


def _without_counts(path: Path) -> dict[str, Any]:
    """Rewrite a manifest list without file counts, as version 1 allows; return its schema."""
    import io

    import fastavro

    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    rows: list[Any] = list(reader)
    schema = dict(reader.writer_schema)  # type: ignore[arg-type]
    schema["fields"] = [f for f in schema["fields"] if "count" not in f["name"]]
    out = io.BytesIO()
    fastavro.writer(out, schema, rows)
    path.write_bytes(out.getvalue())
    return schema
