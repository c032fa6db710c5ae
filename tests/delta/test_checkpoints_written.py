"""A written checkpoint holds its whole version: readers need no earlier log file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.checkpoint import WrittenCheckpoint, checkpoint_version, is_due
from lakescan.delta.log.log_text import has_right_checksum
from lakescan.delta.log.segment import end_of_log
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import CorruptMetadata, LakescanError, UnsupportedFeature
from lakescan.storage import Storage
from tests.conftest import corpus_folder
from tests.support.delta_state import added, commit, first_actions, leave_only, newest_version, removed, state

NOW = datetime(2026, 1, 31, tzinfo=UTC)
V2 = {"delta.checkpointPolicy": "v2"}
VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40}


def checkpoint(table: Path, now: datetime = NOW) -> WrittenCheckpoint:
    return checkpoint_version(str(table), newest_version(table), Storage(), now=now)


def actions(result: WrittenCheckpoint, name: str) -> list[dict[str, Any]]:
    """Return the actions of one name in a checkpoint and its sidecars."""
    folder = Path(result.location).parent
    top = pq.read_table(result.location).to_pylist(maps_as_pydicts="strict")
    sidecars = [folder / "_sidecars" / row["sidecar"]["path"] for row in top if row.get("sidecar")]
    rows = top + [row for file in sidecars for row in pq.read_table(file).to_pylist(maps_as_pydicts="strict")]
    return [row[name] for row in rows if row.get(name)]


@pytest.mark.parametrize("properties", [{}, V2], ids=["classic", "v2"])
def test_a_table_is_read_from_the_checkpoint_only(tmp_path: Path, properties: dict[str, str]) -> None:
    features = ("v2Checkpoint", "deletionVectors", "rowTracking", "domainMetadata")
    commit(tmp_path, *first_actions({"n": "long", "p": "string"}, ["p"], properties, features))
    commit(tmp_path, added("p=x/a", {"p": "x"}, baseRowId=0, defaultRowCommitVersion=1, stats='{"numRecords":1}'))
    commit(tmp_path, added("b%20c%25", {"p": "b c%"}, tags={"k": "v"}), added("d", {"p": None}))
    commit(tmp_path, removed("p=x/a", 1), added("p=x/a", {"p": "x"}, deletionVector={**VECTOR, "cardinality": 6}))
    before = state(tmp_path)
    result = checkpoint(tmp_path)
    leave_only(tmp_path, result.location)
    assert state(tmp_path) == before
    assert (result.version, result.adds, result.actions) == (3, 3, 5 + (2 if properties else 0))


def test_other_readers_read_the_checkpoint(tmp_path: Path) -> None:
    table = tmp_path / "t"
    for start in range(0, 9, 3):
        rows = pa.table({"n": pa.array(range(start, start + 3)), "p": ["x y", None, "a%b/é"], "at": [NOW] * 3})
        write_deltalake(table, rows, partition_by=["p"], mode="append")
    DeltaTable(table).delete("n = 4")
    rows = lakescan.table(table).scan().to_arrow().sort_by("n")
    leave_only(table, checkpoint(table).location)
    assert lakescan.table(table).scan().to_arrow().sort_by("n") == rows
    assert DeltaTable(table).to_pyarrow_table().sort_by("n")["n"] == rows["n"]


@pytest.mark.parametrize("properties", [{}, V2], ids=["classic", "v2"])
def test_a_checkpoint_follows_another(tmp_path: Path, properties: dict[str, str]) -> None:
    commit(
        tmp_path, *first_actions({"n": "long"}, (), properties, ["v2Checkpoint"]), *(added(f"f{n}") for n in range(5))
    )
    checkpoint(tmp_path)
    commit(tmp_path, removed("f1", to_millis(NOW)), added("f9"), {"txn": {"appId": "a", "version": 1}})
    checkpoint(tmp_path)
    commit(tmp_path, added("f1"), {"txn": {"appId": "a", "version": 2}})
    before = state(tmp_path)
    result = checkpoint(tmp_path)
    leave_only(tmp_path, result.location)
    assert state(tmp_path) == before
    assert actions(result, "txn") == [{"appId": "a", "version": 2, "lastUpdated": None}]
    assert actions(result, "remove") == []


def test_removed_files_are_kept_until_they_expire(tmp_path: Path) -> None:
    properties = {"delta.deletedFileRetentionDuration": "interval 2 days"}
    commit(tmp_path, *first_actions({"n": "long"}, (), properties), added("old"), added("new"), added("unknown"))
    two_days_ago = to_millis(NOW - timedelta(days=2))
    unknown = {"remove": {"path": "unknown", "dataChange": True}}
    commit(tmp_path, removed("old", two_days_ago), removed("new", two_days_ago + 1, stats="{}"), unknown)
    kept = actions(checkpoint(tmp_path), "remove")
    assert [(each["path"], each["dataChange"], "stats" in each) for each in kept] == [("new", False, False)]


def test_transactions_are_kept_until_they_expire(tmp_path: Path) -> None:
    def transactions(properties: dict[str, str]) -> list[str]:
        table = tmp_path / str(len(properties))
        times = {"old": to_millis(NOW - timedelta(days=1)), "new": to_millis(NOW), "unknown": None}
        txns = [{"txn": {"appId": app, "version": 1, "lastUpdated": time}} for app, time in times.items()]
        commit(table, *first_actions({"n": "long"}, (), properties), *txns)
        return [each["appId"] for each in actions(checkpoint(table), "txn")]

    assert transactions({}) == ["old", "new", "unknown"]
    assert transactions({"delta.setTransactionRetentionDuration": "interval 1 day"}) == ["new"]


def test_the_newest_metadata_of_a_domain_is_kept_unless_it_is_removed(tmp_path: Path) -> None:
    def domain(name: str, text: str, is_removed: bool = False) -> dict[str, Any]:
        return {"domainMetadata": {"domain": name, "configuration": text, "removed": is_removed}}

    commit(tmp_path, *first_actions({"n": "long"}, (), None, ["domainMetadata"]), domain("a", "1"), domain("b", "1"))
    checkpoint(tmp_path)
    commit(tmp_path, domain("a", "2"), domain("b", "1", True), domain("c", "1"))
    kept = [(each["domain"], each["configuration"]) for each in actions(checkpoint(tmp_path), "domainMetadata")]
    assert kept == [("a", "2"), ("c", "1")]


def test_statistics_are_kept_as_the_table_properties_define(tmp_path: Path) -> None:
    texts, columns = "delta.checkpoint.writeStatsAsJson", "delta.checkpoint.writeStatsAsStruct"
    for has_texts, has_columns in [("true", "true"), ("true", "false"), ("false", "true"), ("false", "false")]:
        table = tmp_path / f"{has_texts}-{has_columns}"
        properties = {texts: has_texts, columns: has_columns}
        commit(table, *first_actions({"n": "long", "p": "integer"}, ["p"], properties), added("a", {"p": "1"}))
        kept = actions(checkpoint(table), "add")[0]
        assert ("stats" in kept, "stats_parsed" in kept) == (has_texts == "true", has_columns == "true")
        assert kept.get("partitionValues_parsed") == ({"p": 1} if has_columns == "true" else None)


TYPES = {
    "long": "long",
    "float": "float",
    "decimal": "decimal(10,2)",
    "string": "string",
    "day": "date",
    "at": "timestamp",
    "wall": "timestamp_ntz",
    "flag": "boolean",
    "s": {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": True, "metadata": {}}]},
}
BOUNDS = {
    "long": -(2**63),
    "float": 1.5,
    "decimal": 12345678.25,
    "string": 'é "\\',
    "day": "2026-01-31",
    "at": "2026-01-31T12:00:00.123+01:00",
    "wall": "2026-01-31T12:00:00.123",
    "s": {"x": 7},
}
TYPED = {
    "long": -(2**63),
    "float": 1.5,
    "decimal": Decimal("12345678.25"),
    "string": 'é "\\',
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 11, 0, 0, 123000, tzinfo=UTC),
    "wall": datetime(2026, 1, 31, 12, 0, 0, 123000),
    "s": {"x": 7},
}


def test_statistics_are_columns_of_the_columns_types(tmp_path: Path) -> None:
    counts = {**dict.fromkeys(TYPES, 0), "s": {"x": 1}}
    stats = {"numRecords": 3, "minValues": BOUNDS, "maxValues": BOUNDS, "nullCount": counts}
    files = [added("a", stats=json.dumps(stats)), added("b"), added("c", stats="not JSON")]
    commit(tmp_path, *first_actions(TYPES), *files)
    parsed = [each["stats_parsed"] for each in actions(checkpoint(tmp_path), "add")]
    assert parsed[0] == {"numRecords": 3, "minValues": TYPED, "maxValues": TYPED, "nullCount": counts}
    assert parsed[1] is None
    assert parsed[2]["numRecords"] is None


def test_a_bound_that_is_not_of_the_columns_type_becomes_unknown(tmp_path: Path) -> None:
    wrong = {"float": "NaN", "day": "+10000-01-01", "at": "2026-01-31T12:00:00", "wall": "noon", "decimal": 1e9}
    commit(tmp_path, *first_actions(TYPES), added("a", stats=json.dumps({"numRecords": 3, "maxValues": wrong})))
    parsed = actions(checkpoint(tmp_path), "add")[0]["stats_parsed"]
    assert parsed["numRecords"] == 3
    assert {name: parsed["maxValues"][name] for name in wrong} == dict.fromkeys(wrong)


def test_json_statistics_are_made_if_the_last_checkpoint_has_only_columns(tmp_path: Path) -> None:
    only_columns = {"delta.checkpoint.writeStatsAsJson": "false"}
    stats = {"numRecords": 3, "minValues": BOUNDS, "maxValues": BOUNDS, "nullCount": {"long": 0}}
    only_counts = [added(name, stats='{"numRecords":1}') for name in ("c", "d", "e")]
    commit(
        tmp_path, *first_actions(TYPES, (), only_columns), added("a", stats=json.dumps(stats)), added("f"), *only_counts
    )
    checkpoint(tmp_path)
    commit(tmp_path, first_actions(TYPES)[1], added("b", stats=json.dumps(stats)))
    leave_only(tmp_path, f"{0:020d}.checkpoint.parquet")
    commit(tmp_path, first_actions(TYPES)[1], added("b", stats=json.dumps(stats)), version=1)
    adds = {each["path"]: each["stats"] for each in actions(checkpoint(tmp_path), "add")}
    assert adds.pop("f") is None
    texts = {path: json.loads(stats) for path, stats in adds.items()}
    assert [texts[each["add"]["path"]]["numRecords"] for each in only_counts] == [1, 1, 1]
    zoned = {**BOUNDS, "at": "2026-01-31T11:00:00.123Z"}
    assert texts["a"] == {**stats, "minValues": zoned, "maxValues": zoned, "nullCount": {"long": 0, "s": {}}}
    assert texts["b"] == stats


@pytest.mark.parametrize(
    ("action", "lost"),
    [
        ({"add": {**added("b")["add"], "newMember": 1}}, "add.newMember"),
        ({"remove": {**removed("a", 1)["remove"], "newMember": {"x": 1}}}, "remove.newMember"),
        (added("b", deletionVector={**VECTOR, "cardinality": 1, "more": 1}), "deletionVector.more"),
        ({"newAction": {"x": 1}}, "newAction"),
        ({"txn": {"appId": "a", "version": 1, "more": 1}}, "txn.more"),
    ],
)
def test_members_that_a_checkpoint_would_lose_are_refused_by_name(
    tmp_path: Path, action: dict[str, Any], lost: str
) -> None:
    commit(tmp_path, *first_actions({"n": "long"}), added("a"))
    commit(tmp_path, action)
    with pytest.raises(UnsupportedFeature, match=lost):
        checkpoint(tmp_path)
    assert sorted(each.name for each in (tmp_path / "_delta_log").iterdir()) == [f"{v:020d}.json" for v in (0, 1)]


def test_an_unknown_member_of_another_checkpoint_is_refused_unless_it_is_null(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}), added("a"))
    file = checkpoint(tmp_path).location
    rows = pq.read_table(file)
    for value, is_refused in [(None, False), ("x", True)]:
        adds = rows["add"].combine_chunks()
        members = dict(zip([f.name for f in adds.type], adds.flatten(), strict=True))
        members["newMember"] = pa.array([value] * len(adds), pa.string())
        changed = pa.StructArray.from_arrays(list(members.values()), names=list(members), mask=adds.is_null())
        pq.write_table(rows.set_column(rows.schema.get_field_index("add"), "add", changed), file)
        if not is_refused:
            checkpoint(tmp_path)
            continue
        with pytest.raises(UnsupportedFeature, match=r"add\.newMember"):
            checkpoint(tmp_path)


def test_a_table_with_an_unknown_feature_gets_no_checkpoint(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}, (), None, ["newFeature"]))
    with pytest.raises(UnsupportedFeature, match="newFeature"):
        checkpoint(tmp_path)


def test_a_damaged_log_gets_no_checkpoint(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}), added("a"))
    commit(tmp_path, added("a", deletionVector={**VECTOR, "cardinality": 1}))
    with pytest.raises(CorruptMetadata, match="live twice"):
        checkpoint(tmp_path)
    assert not list((tmp_path / "_delta_log").glob("*checkpoint*"))


def test_the_last_checkpoint_pointer_has_a_valid_checksum(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}, (), V2, ["v2Checkpoint"]), added("a"))
    result = checkpoint(tmp_path)
    node = json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())
    assert has_right_checksum(node)
    assert (node["version"], node["size"], node["numOfAddFiles"]) == (0, result.actions, 1)
    assert node["v2Checkpoint"]["path"] == Path(result.location).name
    listing = end_of_log(str(tmp_path), Storage())
    assert listing is not None
    assert listing.checkpoints[0].parts[0].location == result.location


def test_an_older_checkpoint_does_not_replace_a_newer_one_as_the_last(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}), added("a"))
    commit(tmp_path, added("b"))
    checkpoint(tmp_path)
    checkpoint_version(str(tmp_path), 0, Storage())
    assert json.loads((tmp_path / "_delta_log" / "_last_checkpoint").read_text())["version"] == 1


def test_a_checkpoint_is_due_after_every_interval() -> None:
    assert [v for v in range(25) if is_due(v, DeltaProperties({}, ""))] == [10, 20]
    assert [v for v in range(8) if is_due(v, DeltaProperties({"delta.checkpointInterval": "3"}, ""))] == [3, 6]


FILES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["add", "remove", "checkpoint"]), FILES), max_size=12)


@settings(max_examples=40)
@given(steps=STEPS, policy=st.sampled_from([{}, V2]))
def test_checkpoints_change_no_state(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], policy: dict[str, str]
) -> None:
    table = tmp_path_factory.mktemp("t")
    commit(table, *first_actions({"n": "long"}, (), policy, ["v2Checkpoint"]))
    live = set()
    for kind, file in steps:
        if kind == "checkpoint":
            checkpoint(table)
        else:
            commit(table, added(file) if kind == "add" else removed(file, to_millis(NOW)))
            live = live | {file} if kind == "add" else live - {file}
    result = checkpoint(table)
    leave_only(table, result.location)
    assert {row["path"].rsplit("/", 1)[-1] for row in state(table)[2]} == live
    assert {each["path"] for each in actions(result, "add")} == live


def _corpus() -> Iterator[Any]:
    folder = corpus_folder()
    cases = json.loads((folder / "delta" / "cases.json").read_text()) if folder is not None else []
    for case in cases if isinstance(cases, list) else cases["cases"]:
        yield pytest.param(folder / "delta" / case["path"] if folder else None, id=case["id"])


@pytest.mark.slow
@pytest.mark.parametrize("table", list(_corpus()))
def test_tables_of_other_projects_are_read_from_the_checkpoint_only(tmp_path: Path, table: Path) -> None:
    shutil.copytree(table, tmp_path / "t")
    try:
        before = state(tmp_path / "t")
    except LakescanError as error:
        pytest.skip(f"the table cannot be read: {error}")
    try:
        result = checkpoint(tmp_path / "t")
    except UnsupportedFeature as error:
        pytest.skip(f"no checkpoint: {error}")
    leave_only(tmp_path / "t", result.location)
    protocol, metadata, files = state(tmp_path / "t")
    assert (protocol, metadata) == before[:2]
    with_texts = metadata.properties.json_stats
    if not with_texts:  # the values of the texts are lost
        lost = {"stats": None, "record_count": None}
        files, before = [row | lost for row in files], (*before[:2], [row | lost for row in before[2]])
    assert files == before[2]
