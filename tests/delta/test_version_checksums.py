"""A version's checksum counts the content of its state; it is left out if the counts cannot be derived."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.delta.commit.version_checksum import next_checksum, read_checksum, write_checksum
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.log.log_text import Action
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.storage import Storage
from tests.support.delta_state import added, commit, first_actions, state

FIRST = first_actions({"n": "long"}, (), {"delta.enableDeletionVectors": "true"}, ["deletionVectors"])
VECTORED = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 40, "cardinality": 6}


def files(*sizes: int | None, vector: dict[str, Any] | None = None) -> pa.Table:
    return pa.table({"size": pa.array(sizes, pa.int64()), "deletionVector": pa.array([vector] * len(sizes), VECTOR)})


def txn(app: str, version: int) -> dict[str, Any]:
    return {"txn": {"appId": app, "version": version, "lastUpdated": 1}}


def domain(name: str, text: str = "", *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": text, "removed": removed}}


def checksum(*actions: dict[str, Any], added: pa.Table | None = None) -> Any:
    node = next_checksum(0, None, [*FIRST, *actions], files() if added is None else added, files())
    assert node is not None
    return node


def test_files_are_counted_from_one_version_to_the_next() -> None:
    node = next_checksum(1, checksum(added=files(10, 20)), [{"commitInfo": {"txnId": "own"}}], files(5), files(20))
    assert node is not None
    assert (node["numFiles"], node["tableSizeBytes"], node["txnId"]) == (2, 15, "own")
    assert (node["numMetadata"], node["numProtocol"]) == (1, 1)
    assert (node["metadata"], node["protocol"]) == (FIRST[1]["metaData"], FIRST[0]["protocol"])


@given(steps=st.lists(st.tuples(st.lists(st.integers(0, 99)), st.integers(0, 3)), max_size=6))
def test_the_counts_are_those_of_the_live_files(steps: list[tuple[list[int], int]]) -> None:
    live: list[int] = []
    node = checksum()
    for version, (sizes, gone) in enumerate(steps, 1):
        removed, live = live[:gone], live[gone:] + sizes
        node = next_checksum(version, node, [], files(*sizes), files(*removed))
        assert (node["numFiles"], node["tableSizeBytes"]) == (len(live), sum(live))


def test_the_checksum_has_the_newest_protocol_and_metadata() -> None:
    newer = {**FIRST[1]["metaData"], "name": "t", "description": None}
    node = next_checksum(1, checksum(), [{"metaData": newer}], files(), files())
    assert node is not None
    assert node["metadata"] == {name: value for name, value in newer.items() if value is not None}
    assert node["protocol"] == FIRST[0]["protocol"]


def test_the_checksum_lists_live_transactions_and_domains() -> None:
    node = checksum(txn("a", 1), txn("b", 1), domain("x", "1"), domain("y", "1"))
    after = next_checksum(1, node, [txn("a", 2), domain("x", removed=True), domain("z")], files(), files())
    assert after is not None
    assert [(each["appId"], each["version"]) for each in after["setTransactions"]] == [("a", 2), ("b", 1)]
    assert [each["domain"] for each in after["domainMetadata"]] == ["y", "z"]


def test_unknown_lists_are_left_out() -> None:
    node = checksum(txn("a", 1))
    del node["setTransactions"]
    after = next_checksum(1, node, [txn("b", 1)], files(), files())
    assert after is not None
    assert "setTransactions" not in after
    many = next_checksum(1, checksum(), [txn(str(n), 1) for n in range(101)], files(), files())
    assert many is not None
    assert "setTransactions" not in many


def test_expired_transactions_are_not_listed() -> None:
    metadata = FIRST[1]["metaData"]
    expiring = {**metadata, "configuration": {"delta.setTransactionRetentionDuration": "interval 1 day"}}
    assert "setTransactions" not in checksum(txn("a", 1), {"metaData": expiring})


def test_vectors_are_counted_if_the_previous_checksum_counted_them() -> None:
    node = {**checksum(), "numDeletionVectorsOpt": 2, "numDeletedRecordsOpt": 9}
    after = next_checksum(1, node, [], files(1, vector=VECTORED), files())
    assert after is not None
    assert (after["numDeletionVectorsOpt"], after["numDeletedRecordsOpt"]) == (3, 15)
    assert "numDeletionVectorsOpt" not in checksum(added=files(1, vector=VECTORED))


def test_a_table_with_in_commit_timestamps_needs_the_timestamp_of_the_commit() -> None:
    metadata = {"metaData": {**FIRST[1]["metaData"], "configuration": {"delta.enableInCommitTimestamps": "true"}}}
    assert next_checksum(0, None, [*FIRST, metadata], files(), files()) is None
    node = checksum(metadata, {"commitInfo": {"inCommitTimestamp": 7}})
    assert node["inCommitTimestampOpt"] == 7


@pytest.mark.parametrize(
    ("version", "has_previous", "removed"),
    [(1, False, files()), (1, True, files(None)), (1, True, files(1)), (0, False, files(1))],
    ids=["no checksum before", "unknown size", "more bytes than there are", "more files than there are"],
)
def test_a_version_whose_counts_cannot_be_derived_has_no_checksum(
    version: int, has_previous: bool, removed: pa.Table
) -> None:
    previous = checksum() if has_previous else None
    assert next_checksum(version, previous, FIRST if version == 0 else [], files(), removed) is None


def described(actions: list[dict[str, Any]] = FIRST) -> tuple[Protocol, Metadata]:
    protocol, metadata = Action("protocol", actions[0]["protocol"], ""), Action("metaData", actions[1]["metaData"], "")
    return Protocol.parse(protocol), Metadata.parse(metadata)


def test_a_written_checksum_is_read_and_not_replaced(tmp_path: Path) -> None:
    commit(tmp_path, *FIRST)
    node = checksum(txn("a", 1))
    assert write_checksum(str(tmp_path), 0, node, Storage())
    assert read_checksum(str(tmp_path), 0, Storage(), *described()) == node
    assert not write_checksum(str(tmp_path), 0, {**node, "numFiles": 5}, Storage())
    assert read_checksum(str(tmp_path), 0, Storage(), *described()) == node
    assert read_checksum(str(tmp_path), 1, Storage(), *described()) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"numFiles": -1},
        {"numFiles": None},
        {"tableSizeBytes": "9"},
        {"numMetadata": 2},
        {"metadata": None},
        {"protocol": {"minReaderVersion": 1}},
        {"metadata": {**FIRST[1]["metaData"], "id": "another"}},
        {"setTransactions": [1]},
        {"domainMetadata": {}},
        {"numDeletedRecordsOpt": "x"},
    ],
)
def test_an_incomplete_or_wrong_checksum_is_not_continued(tmp_path: Path, wrong: dict[str, Any]) -> None:
    commit(tmp_path, *FIRST)
    write_checksum(str(tmp_path), 0, {**checksum(), **wrong}, Storage())
    assert read_checksum(str(tmp_path), 0, Storage(), *described()) is None


def test_a_checkpoint_gives_its_version_a_checksum(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    commit(tmp_path, *FIRST, added("a", size=7), added("b", size=8), txn("a", 1))
    commit(tmp_path, {"commitInfo": {"txnId": "own"}}, added("c", size=9), domain("x"))
    checkpoint_version(str(tmp_path), 1, Storage())
    node = json.loads((tmp_path / "_delta_log" / f"{1:020d}.crc").read_text())
    assert (node["numFiles"], node["tableSizeBytes"], node["txnId"]) == (3, 24, "own")
    assert ([each["appId"] for each in node["setTransactions"]], len(node["domainMetadata"])) == (["a"], 1)
    with caplog.at_level(logging.WARNING):
        state(tmp_path)
    assert not caplog.records
