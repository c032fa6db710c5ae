"""Commits on other writers' manifest lists, whose records may be wrong: no row is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.common import types as t
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.manifests.bounds import decode_values, encode_value
from tests.support import row_deltas
from tests.support.manifests import rewrite_avro
from tests.tables.support import maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


def change_list(change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the manifest list of the newest snapshot in place."""
    head = row_deltas.commit_base().head
    assert head is not None
    assert head.manifest_list is not None
    rewrite_avro(Path(head.manifest_list.removeprefix("file://")), change)


def test_a_delete_is_kept_if_its_data_is_recorded_as_too_new(local: lakescan.Catalog) -> None:
    maker("iceberg", local)().append(rows((1, "a"), (2, "a")))
    row_deltas.publish(
        "delete", SnapshotChanges(added_deletes=row_deltas.added_deletes(row_deltas.position_deletes("id = 1")))
    )
    now().append(rows((3, "b")))

    def too_high(manifests: list[dict[str, Any]]) -> None:
        for each in manifests:
            if each["content"] == 0:
                each["min_sequence_number"] = 3

    change_list(too_high)
    now().append(rows((4, "b")))
    assert pairs() == [(2, "a"), (3, "b"), (4, "b")]


def test_a_delete_older_than_all_data_is_removed(local: lakescan.Catalog) -> None:
    maker("iceberg", local)().append(rows((1, "a"), (2, "a")))
    row_deltas.publish(
        "delete", SnapshotChanges(added_deletes=row_deltas.added_deletes(row_deltas.position_deletes("id = 1")))
    )
    now().overwrite(rows((3, "a")))
    now().append(rows((4, "a")))
    now().append(rows((5, "a")))
    assert pairs() == [(3, "a"), (4, "a"), (5, "a")]
    assert now().inspect("delete_files").num_rows == 0


@pytest.mark.parametrize("where", ["part = 'b'", "part = 'c'"])
def test_a_manifest_with_live_files_is_kept_although_the_list_counts_none(where: str, local: lakescan.Catalog) -> None:
    maker("iceberg", local)().append(rows((1, "a")))
    now().append(rows((2, "b")))

    def nothing(manifests: list[dict[str, Any]]) -> None:
        for each in manifests:
            each |= dict.fromkeys(("added_files_count", "existing_files_count", "deleted_files_count"), 0)

    change_list(nothing)
    assert pairs() == [(1, "a"), (2, "b")]
    now().overwrite(rows((9, where[-2])), where=where)
    assert pairs() == sorted([(1, "a"), *([] if "b" in where else [(2, "b")]), (9, where[-2])])


def test_manifests_with_only_removed_files_are_dropped(local: lakescan.Catalog) -> None:
    maker("iceberg", local)().append(rows((1, "a")))
    now().overwrite(rows((2, "a")))
    assert now().inspect("manifests").num_rows == 2
    now().append(rows((3, "a")))
    assert sorted(now().inspect("manifests")["deleted_data_files_count"].to_pylist()) == [0, 0]


@pytest.mark.parametrize("name", ["manifest_length", "added_snapshot_id"])
def test_an_incomplete_manifest_entry_of_a_list_is_named(
    name: str, local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakescan.iceberg.commit import base_manifests as listed

    maker("iceberg", local)().append(rows((1, "a")))
    read = listed.snapshot_manifests

    def lacking(*arguments: Any) -> pa.Table:
        manifests = read(*arguments)
        place = manifests.column_names.index(name)
        return manifests.set_column(place, manifests.field(name), pa.nulls(manifests.num_rows, pa.int64()))

    monkeypatch.setattr(listed, "snapshot_manifests", lacking)
    with pytest.raises(lakescan.CorruptMetadata, match=rf"no {name} for the manifest .*-m0\.avro"):
        now().append(rows((2, "a")))


def test_partition_summaries_without_null_flags_are_unknown(local: lakescan.Catalog, monkeypatch) -> None:
    from lakescan.iceberg.commit import base_manifests as listed

    maker("iceberg", local)().append(rows((1, "a"), (2, None)))
    read = listed.snapshot_manifests

    def lacking(*arguments: Any) -> pa.Table:
        manifests = read(*arguments)
        summaries = [[{**each, "contains_null": None} for each in some] for some in manifests["partitions"].to_pylist()]
        place = manifests.column_names.index("partitions")
        field = manifests.field("partitions")
        return manifests.set_column(place, field, pa.array(summaries, field.type))

    monkeypatch.setattr(listed, "snapshot_manifests", lacking)
    now().append(rows((3, "a")))
    assert sorted(now().scan().where("part IS NULL").to_arrow()["id"].to_pylist()) == [2]
    assert pairs() == [(1, "a"), (2, None), (3, "a")]


@pytest.mark.parametrize(
    ("value", "kind", "stored"),
    [
        (-1, t.Decimal(9, 2), b"\xff"),
        (128, t.Decimal(9, 2), b"\x00\x80"),
        (True, t.BOOLEAN, b"\x01"),
        (-2, t.INT, b"\xfe\xff\xff\xff"),
        (1.5, t.FLOAT, b"\x00\x00\xc0\x3f"),
        (86_400_000_000, t.Timestamp(), b"\x00\x60\xd7\x1d\x14\x00\x00\x00"),
        (19_000, t.DATE, b"\x38\x4a\x00\x00"),
        ("é".encode(), t.STRING, b"\xc3\xa9"),
    ],
)
def test_values_are_serialized_as_specified(value: Any, kind: t.Type, stored: bytes) -> None:
    assert encode_value(value, kind) == stored
    decoded = decode_values(pa.array([stored], pa.binary()), kind)
    assert decoded is not None
    assert decoded[0].is_valid
