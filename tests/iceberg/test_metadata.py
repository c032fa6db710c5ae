"""Table metadata of every version is read; violations of the specification are refused with file and field."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.iceberg.metadata.table_metadata import TableMetadata, ancestors
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from tests.conftest import corpus_folder

SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "x", "required": True, "type": "long"}]}
SNAPSHOT = {"snapshot-id": 7, "timestamp-ms": 1_000, "manifest-list": "m.avro", "summary": {"operation": "append"}}
V2: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/table/",
    "last-sequence-number": 1,
    "last-updated-ms": 2_000,
    "last-column-id": 1,
    "schemas": [SCHEMA],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "last-partition-id": 999,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "snapshots": [SNAPSHOT],
    "current-snapshot-id": 7,
}
V1: dict[str, Any] = {
    "format-version": 1,
    "location": "/table",
    "last-updated-ms": 2_000,
    "last-column-id": 1,
    "schema": SCHEMA,
    "partition-spec": [{"source-id": 1, "transform": "bucket[4]", "name": "x_bucket"}],
    "current-snapshot-id": -1,
}


def parse(node: dict[str, Any]) -> TableMetadata:
    return parse_metadata(json.dumps(node).encode(), "there.metadata.json")


def test_metadata_of_version_2_is_read() -> None:
    found = parse(V2)
    assert found.location == "s3://bucket/table"
    assert found.schema.names == ["x"]
    assert found.current_snapshot_id == 7
    assert found.refs["main"].snapshot_id == 7


def test_version_1_may_lack_ids_uuid_and_specs() -> None:
    found = parse(V1)
    assert found.current_snapshot_id is None
    assert [(f.id, str(f.transform)) for f in found.specs[0].fields] == [(1000, "bucket[4]")]


def test_gzip_is_recognised_by_its_content() -> None:
    packed = gzip.compress(json.dumps(V2).encode())
    assert parse_metadata(packed, "x.metadata.json").current_snapshot_id == 7


def test_a_sort_order_is_described_in_words() -> None:
    fields = [
        {"transform": "bucket[4]", "source-id": 1, "direction": "asc", "null-order": "nulls-first"},
        {"transform": "identity", "source-ids": [1], "direction": "desc", "null-order": "nulls-last"},
    ]
    found = parse({**V2, "sort-orders": [{"order-id": 3, "fields": fields}], "default-sort-order-id": 3})
    assert found.sort_order.describe(found.schema) == "bucket(4, x) asc nulls first, x desc nulls last"
    with pytest.raises(CorruptMetadata, match="default-sort-order-id 4 is not among"):
        parse({**V2, "default-sort-order-id": 4})


def test_unknown_members_are_ignored() -> None:
    assert parse({**V2, "from-the-future": {"a": 1}}).current_snapshot_id == 7


@pytest.mark.parametrize(
    "missing",
    ["location", "table-uuid", "schemas", "current-schema-id", "partition-specs", "last-partition-id", "sort-orders"],
)
def test_a_missing_required_field_is_named(missing: str) -> None:
    with pytest.raises(CorruptMetadata, match=rf"there.metadata.json.*{missing}"):
        parse({k: v for k, v in V2.items() if k != missing})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"current-schema-id": 4}, "current-schema-id 4"),
        ({"default-spec-id": 3}, "default-spec-id 3"),
        ({"current-snapshot-id": 8}, "current-snapshot-id 8"),
        ({"refs": {"b": {"snapshot-id": 9, "type": "branch"}}}, "branch 'b'"),
    ],
)
def test_a_dangling_id_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CorruptMetadata, match=message):
        parse({**V2, **change})


def test_a_newer_format_version_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="format version 5"):
        parse({**V2, "format-version": 5})


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff\xfe"])
def test_a_document_that_is_not_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptMetadata, match="there"):
        parse_metadata(data, "there")


@pytest.mark.skipif(corpus_folder() is None, reason="no corpus: set LAKESCAN_CORPUS to its folder")
def test_other_projects_valid_documents_are_read_and_their_invalid_ones_refused() -> None:
    folder = corpus_folder()
    assert folder is not None
    documents = sorted((folder / "iceberg" / "documents").rglob("TableMetadata*.json"))
    assert len(documents) > 20
    wrong = []
    for document in documents:
        invalid = any(word in document.name for word in ("Missing", "NotFound", "Unsupported", "Without", "NoValid"))
        try:
            parse_metadata(document.read_bytes(), document.name)
        except (CorruptMetadata, UnsupportedFeature):
            wrong += [] if invalid else [document.name]
        else:
            wrong += [document.name] if invalid else []
    assert not wrong


@pytest.mark.parametrize(
    ("text", "count"), [(None, 5), ("0", 0), ("12", 12), ("-1", None), ("1.0", None), ("²", None), ("9" * 5000, None)]
)
def test_a_count_of_a_summary_is_a_whole_number_or_unknown(text: str | None, count: int | None) -> None:
    summary = {"operation": "append"} | ({} if text is None else {"added-records": text})
    snapshot = parse({**V2, "snapshots": [{**SNAPSHOT, "summary": summary}]}).snapshots[7]
    assert snapshot.count("added-records", 5) == count


def test_existing_ancestors_are_listed_once() -> None:
    def line(**parents: int | None) -> list[int]:
        snapshots = [
            {**SNAPSHOT, "snapshot-id": int(name[1:])} | ({} if parent is None else {"parent-snapshot-id": parent})
            for name, parent in parents.items()
        ]
        return [each.id for each in ancestors(parse({**V2, "snapshots": snapshots}).snapshots, 7)]

    assert line(s7=6, s6=5, s5=None) == [7, 6, 5]
    assert line(s7=6, s6=5, s4=None) == [7, 6]
    assert line(s7=6, s6=7) == [7, 6]
    assert not list(ancestors({}, 7))
    assert not list(ancestors({}, None))
