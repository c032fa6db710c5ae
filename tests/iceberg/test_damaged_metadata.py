"""Contradictory metadata, or members of other types, are refused with file and place, or ignored where possible."""

from __future__ import annotations

import copy
import gzip
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan import limits
from lakescan.common.timestamps import from_millis
from lakescan.errors import CorruptMetadata, LimitExceeded, NoSuchSnapshot, UnsupportedFeature
from lakescan.formats.metadata_table import as_table
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.metadata.json_document import LONG_MAX
from lakescan.iceberg.metadata.metadata_location import FolderSource
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.iceberg.scan.incremental_scan import lineage
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage

FIELDS = [{"id": 1, "name": "x", "required": True, "type": "long"}, {"id": 2, "name": "d", "type": "date"}]
SPEC = {"source-id": 2, "field-id": 1000, "name": "d_day", "transform": "day"}


def snapshot(number: int, parent: int | None) -> dict[str, Any]:
    more = {} if parent is None else {"parent-snapshot-id": parent}
    times = {"timestamp-ms": 1_000 * number, "sequence-number": number}
    summary = {"operation": "append"}
    return {"snapshot-id": number, **times, "manifest-list": f"m{number}.avro", "summary": summary, **more}


WHOLE: dict[str, Any] = {
    "format-version": 2,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "s3://bucket/table",
    "last-sequence-number": 3,
    "last-updated-ms": 3_000,
    "last-column-id": 2,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": FIELDS}],
    "current-schema-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": [SPEC]}],
    "default-spec-id": 0,
    "last-partition-id": 1000,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "default-sort-order-id": 0,
    "properties": {"a": "b"},
    "snapshots": [snapshot(1, None), snapshot(2, 1), snapshot(3, 2)],
    "current-snapshot-id": 3,
    "refs": {"main": {"snapshot-id": 3, "type": "branch"}, "old": {"snapshot-id": 1, "type": "tag"}},
    "snapshot-log": [{"snapshot-id": n, "timestamp-ms": 1_000 * n} for n in (1, 2, 3)],
    "metadata-log": [{"metadata-file": "v1.metadata.json", "timestamp-ms": 1_000}],
}


def parse(node: Any) -> TableMetadata:
    return parse_metadata(json.dumps(node).encode(), "there.metadata.json")


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    node = copy.deepcopy(WHOLE)
    change(node)
    return node


def first(node: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = node["schemas"][0]["fields"][0]
    return found


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda n: n.pop("current-snapshot-id"), "no current-snapshot-id, but a branch main"),
        (lambda n: n.update({"current-snapshot-id": -1}), "no current-snapshot-id, but a branch main"),
        (lambda n: (n.pop("current-snapshot-id"), n.pop("refs")), "by its snapshot-log 3 is current"),
        (
            lambda n: n["refs"]["main"].update({"snapshot-id": 1}),
            "current-snapshot-id is 3, but the branch main is at 1",
        ),
        (lambda n: n["snapshots"][2].update({"manifest-list": None}), r"snapshots\[2\] lacks 'manifest-list'"),
        (lambda n: n["snapshots"][2].update({"manifest-list": None, "manifests": []}), r"snapshots\[2\] lacks"),
        (lambda n: n["snapshots"].append(snapshot(3, 1)), "two of its snapshots have the id 3"),
        (lambda n: n["schemas"].append(n["schemas"][0]), "two of its schemas have the id 0"),
        (lambda n: n["partition-specs"].append({"spec-id": 0, "fields": []}), "two of its partition specs"),
        (lambda n: n["sort-orders"].append({"order-id": 0, "fields": []}), "two of its sort orders"),
        (lambda n: n["schemas"][0]["fields"].append({**FIELDS[0], "name": "z"}), "two columns with field id 1"),
        (lambda n: n["schemas"][0]["fields"].append({**FIELDS[0], "id": 9}), "two columns named 'x'"),
        (lambda n: n["partition-specs"][0]["fields"].append(SPEC), "another field of its partition spec"),
    ],
)
def test_metadata_with_an_ambiguous_state_is_refused(change: Any, problem: str) -> None:
    with pytest.raises(CorruptMetadata, match=rf"^there\.metadata\.json .*{problem}"):
        parse(changed(change))


def test_a_table_without_a_current_snapshot_may_have_other_snapshots() -> None:
    """Writers that remove the branch main empty the log; other branches and staged snapshots stay."""
    node = changed(lambda n: (n.pop("current-snapshot-id"), n["refs"].pop("main"), n.update({"snapshot-log": []})))
    assert parse(node).current_snapshot_id is None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda n: n.update({"format-version": "2"}), "'format-version'"),
        (lambda n: n.update({"format-version": 2.5}), "'format-version'"),
        (lambda n: n.update({"location": 5}), "'location'"),
        (lambda n: n.update({"properties": [1]}), "properties is"),
        (lambda n: n.update({"refs": "x"}), "refs is"),
        (lambda n: n["refs"].update({"main": None}), r"refs\.main is null"),
        (lambda n: n["refs"]["old"].update({"type": "x"}), "neither branch nor tag"),
        (lambda n: n.update({"snapshots": [None]}), r"snapshots\[0\] is null"),
        (lambda n: n["snapshots"][1].update({"timestamp-ms": 10**18}), r"snapshots\[1\].*'timestamp-ms'"),
        (lambda n: n["snapshots"][1].update({"schema-id": "0"}), r"snapshots\[1\].*'schema-id'"),
        (lambda n: n["snapshots"][1].update({"manifest-list": 5}), r"snapshots\[1\].*'manifest-list'"),
        (lambda n: n.update({"partition-specs": 5}), "'partition-specs'"),
        (lambda n: n["partition-specs"][0].pop("fields"), r"partition-specs\[0\] lacks .*'fields'"),
        (lambda n: n["partition-specs"][0]["fields"][0].update({"transform": None}), "'transform'"),
        (lambda n: n["partition-specs"][0]["fields"][0].update({"transform": "bucket[0]"}), r"bucket\[0\]"),
        (lambda n: n["partition-specs"][0]["fields"][0].update({"transform": "bucket"}), "'bucket'"),
        (lambda n: n["partition-specs"][0]["fields"][0].update({"transform": "truncate[99999999999]"}), "truncate"),
        (lambda n: first(n).update({"type": None}), r"schemas\[0\]\.fields\[0\] lacks .*'type'"),
        (lambda n: first(n).update({"type": {"type": "list", "element-id": 7}}), "'element-required'"),
        (lambda n: first(n).update({"type": "decimal(99,3)"}), r"decimal\(99,3\)"),
        (lambda n: first(n).update({"type": "fixed[99999999999]"}), "fixed"),
        (lambda n: first(n).update({"name": "\ud800"}), "'name'"),
        (lambda n: first(n).update({"required": "false"}), "'required'"),
        (lambda n: first(n).update({"initial-default": "x"}), "'initial-default'"),
        (lambda n: first(n).update({"id": 2**31}), "'id'"),
        (lambda n: n.update({"sort-orders": [{"order-id": 0}]}), r"sort-orders\[0\] lacks"),
    ],
)
def test_a_member_of_a_wrong_type_is_reported_with_its_path(change: Any, problem: str) -> None:
    with pytest.raises(CorruptMetadata, match=rf"^there\.metadata\.json.*{problem}.*\. Restore"):
        parse(changed(change))


@pytest.mark.parametrize(
    ("kind", "text", "nanoseconds"),
    [
        ("timestamp_ns", "1970-01-01T00:00:01.000000007", 1_000_000_007),
        ("timestamptz_ns", "1970-01-01T00:00:01.5+00:00", 1_500_000_000),
        ("timestamp_ns", "1969-12-31T23:59:59.999999999", -1),
        ("timestamp_ns", "1970-01-01T00:00:00", 0),
    ],
)
def test_defaults_of_nanoseconds_are_exact(kind: str, text: str, nanoseconds: int) -> None:
    field = parse(changed(lambda n: first(n).update({"type": kind, "initial-default": text}))).schema.fields[0]
    assert pa.scalar(field.default, field.type.arrow()).value == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        b'{"format-version": NaN}',
        b'{"format-version": ' + b"9" * 5000 + b"}",
        b'{"format-version": 2, "x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        gzip.compress(b"{}", mtime=0)[:-9],
        b"\x1f\x8b" + b"\xff" * 30,
        b"\x28\xb5\x2f\xfd" + b"\xff" * 30,
        b"",
    ],
)
def test_invalid_json_is_reported_in_one_line(text: bytes) -> None:
    with pytest.raises(CorruptMetadata, match=r"^there: .*") as raised:
        parse_metadata(text, "there")
    assert len(str(raised.value)) < 600


def test_types_that_nest_too_deep_are_refused() -> None:
    deep: Any = "int"
    for number in range(200):
        deep = {"type": "list", "element-id": 100 + number, "element-required": False, "element": deep}
    with pytest.raises(LimitExceeded, match=r"there\.metadata\.json.*100 levels"):
        parse(changed(lambda n: first(n).update({"type": deep})))


@pytest.mark.parametrize("pack", [gzip.compress, lambda data: pa.compress(data, codec="zstd", asbytes=True)])
def test_metadata_is_unpacked_up_to_a_limit(pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(WHOLE).encode()
    assert parse_metadata(pack(text), "m").current_snapshot_id == 3
    monkeypatch.setattr(limits, "METADATA", len(text))
    assert parse_metadata(pack(text), "m").current_snapshot_id == 3
    with pytest.raises(LimitExceeded, match=r"^m exceeds the limit .*limits\.METADATA"):
        parse_metadata(pack(text + b" "), "m")


def opened(node: dict[str, Any]) -> IcebergTable:
    return IcebergTable(parse(node), Storage(), FolderSource("there.metadata.json", Storage()))


@pytest.mark.parametrize("log", [[None], [{}], {"a": 1}, [{"snapshot-id": "x", "timestamp-ms": 1}]])
def test_a_damaged_snapshot_log_fails_only_operations_that_need_it(log: Any) -> None:
    table = opened(changed(lambda n: n.update({"snapshot-log": log})))
    assert table.snapshot(SnapshotSelector()).id == 3
    assert table.history()["snapshot_id"].to_pylist() == [1, 2, 3]
    with pytest.raises(CorruptMetadata, match="snapshot-log"):
        table.snapshot(SnapshotSelector(timestamp=from_millis(2_000)))
    with pytest.raises(CorruptMetadata, match="snapshot-log"):
        table.metadata_table("history", table.snapshot(SnapshotSelector()))


@pytest.mark.parametrize(("current", "expected"), [(3, [1, 2, 3]), (-1, [])])
def test_without_a_snapshot_log_only_a_table_with_a_current_snapshot_has_a_history(
    current: int, expected: list[int]
) -> None:
    """All snapshots may be on other branches. Then none was ever current."""
    table = opened(changed(lambda n: n.update({"snapshot-log": [], "current-snapshot-id": current, "refs": {}})))
    rows = as_table(table.metadata_table("history", table.snapshot(SnapshotSelector())))
    assert rows["snapshot_id"].to_pylist() == expected
    assert rows.equals(table.history().select(rows.column_names))


def test_a_damaged_metadata_log_fails_only_operations_that_need_it() -> None:
    """Orphan files are files that no log names. An unreadable log must not count as an empty one."""
    table = opened(changed(lambda n: n.update({"metadata-log": [{}]})))
    assert table.snapshot(SnapshotSelector()).id == 3
    with pytest.raises(CorruptMetadata, match=r"metadata-log\[0\]"):
        table.metadata_table("metadata_log_entries", table.snapshot(SnapshotSelector()))


def test_a_snapshot_whose_schema_is_missing_needs_the_current_schema() -> None:
    table = opened(changed(lambda n: n["snapshots"][2].update({"schema-id": 9})))
    assert table.snapshot(SnapshotSelector()).schema.names == ["x", "d"]
    with pytest.raises(CorruptMetadata, match=r"there\.metadata\.json: snapshot 3 has schema 9"):
        table.snapshot(SnapshotSelector(version=3))


@pytest.mark.parametrize(
    "mapping", ["", "{}", "[1]", '[{"names":[1]}]', '[{"field-id":"x","names":["a"]}]', "[" * 10**5]
)
def test_a_damaged_name_mapping_is_reported(mapping: str) -> None:
    table = opened(changed(lambda n: n.update({"properties": {"schema.name-mapping.default": mapping}})))
    with pytest.raises(CorruptMetadata, match=r"there\.metadata\.json: .*schema\.name-mapping\.default"):
        table.matching(table.snapshot(SnapshotSelector()))


@pytest.mark.parametrize("parents", [(3, 1, 2), (1, 2, 3)])
def test_snapshots_that_are_their_own_ancestors_are_refused(parents: tuple[int, ...]) -> None:
    def circle(node: dict[str, Any]) -> None:
        for each, parent in zip(node["snapshots"], parents, strict=True):
            each["parent-snapshot-id"] = parent

    metadata = parse(changed(circle))
    assert metadata.current_ancestors
    with pytest.raises(CorruptMetadata, match=r"there\.metadata\.json: snapshot \d is its own ancestor"):
        lineage(metadata, 3, None)
    with pytest.raises((CorruptMetadata, NoSuchSnapshot)):
        lineage(metadata, 3, 99)


@pytest.mark.parametrize("last", [2**31, 2**62])
def test_a_huge_last_column_id_takes_no_memory(last: int) -> None:
    tracemalloc.start()
    try:
        table = opened(changed(lambda node: node.update({"last-column-id": last})))
        assert not table.matching(table.snapshot(SnapshotSelector())).settled
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def spots(node: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [*([at] if at else []), *(spot for key, child in children for spot in spots(child, (*at, key)))]


VALUES = st.sampled_from(
    [None, -1, 0, 1, 2, 99, 2**31, 2**63, 1.5, True, "", "x", "main", [], [None], [1], {}, {"a": 1}, LONG_MAX, "\x00"]
)


@settings(max_examples=300)
@given(where=st.sampled_from(spots(WHOLE)), value=VALUES, drop=st.booleans())
def test_any_change_of_any_member_gives_metadata_or_a_lakescan_error(where: Any, value: Any, drop: bool) -> None:
    node = copy.deepcopy(WHOLE)
    parent = node
    for key in where[:-1]:
        parent = parent[key]
    if drop:
        del parent[where[-1]]
    else:
        parent[where[-1]] = value
    told = "there.metadata.json"
    try:
        table = opened(node)
        table.history()
        table.matching(table.snapshot(SnapshotSelector()))
        _ = (table.partitioning, table.sort_order, table.snapshot(SnapshotSelector()).schema.arrow())
    except (CorruptMetadata, UnsupportedFeature) as error:
        told = str(error)
    assert "there.metadata.json" in told
    assert len(told) < 600
