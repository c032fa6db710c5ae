"""Log cleanup removes expired commits up to a readable checkpoint; later versions stay complete."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.delta.maintenance.log_cleanup import CleanupResult, clean_up
from lakescan.errors import NoSuchSnapshot, UnsupportedFeature
from lakescan.storage import Storage
from tests.support.delta_state import added, commit, first_actions, newest_version, removed, state

NOW = datetime(2026, 3, 10, 15, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 10, tzinfo=UTC)
KEEP = {"delta.logRetentionDuration": "interval 5 days"}
EXPIRED = MIDNIGHT - timedelta(days=5)


def log(table: Path) -> list[str]:
    return sorted(each.name for each in (table / "_delta_log").iterdir() if each.is_file())


def made_at(table: Path, version: int, time: datetime) -> None:
    """Set the time of all files of a version, and of all newer sidecars."""
    for file in (table / "_delta_log").rglob("*"):
        if file.name.startswith(f"{version:020d}."):
            os.utime(file, (time.timestamp(), time.timestamp()))


def table(
    folder: Path,
    times: list[datetime],
    checkpoints: tuple[int, ...],
    properties: dict[str, str] | None = None,
    features: tuple[str, ...] = (),
) -> Path:
    """Make a table with one commit of one file at each time, and checkpoints of some versions."""
    for version, time in enumerate(times):
        first = first_actions({"n": "long"}, (), {**KEEP, **(properties or {})}, features) if not version else []
        info = {"commitInfo": {"inCommitTimestamp": to_millis(time)}}
        commit(folder, info, *first, added(f"f{version}"), *([removed("f0", 1)] if version == 1 else []))
        if version in checkpoints:
            checkpoint_version(str(folder), version, Storage(), now=NOW)
        made_at(folder, version, time)
    return folder


def days(*ago: float) -> list[datetime]:
    return [MIDNIGHT - timedelta(days=each) for each in ago]


def clean(folder: Path) -> CleanupResult:
    return clean_up(str(folder), Storage(), now=NOW)


def versions(folder: Path) -> list[int]:
    return [int(name[:20]) for name in log(folder) if name.endswith(".json")]


def test_commits_are_removed_up_to_the_newest_checkpoint_that_has_expired(tmp_path: Path) -> None:
    table(tmp_path, days(9, 8, 7, 6, 5, 4, 3), (1, 3, 5))
    kept = {version: state(tmp_path, version) for version in range(3, 7)}
    result = clean(tmp_path)
    assert result.first == 3
    assert versions(tmp_path) == [3, 4, 5, 6]
    assert {version: state(tmp_path, version) for version in kept} == kept
    assert DeltaTable(tmp_path).version() == 6
    with pytest.raises(NoSuchSnapshot):
        state(tmp_path, 2)


def test_a_commit_exactly_at_midnight_has_expired(tmp_path: Path) -> None:
    table(tmp_path, [*days(9), EXPIRED, *days(1)], (1,))
    assert clean(tmp_path).first == 1


def test_a_commit_of_the_day_of_the_cutoff_has_not_expired(tmp_path: Path) -> None:
    table(tmp_path, [*days(9), EXPIRED + timedelta(seconds=1), *days(1)], (1,))
    assert clean(tmp_path) == CleanupResult()
    assert versions(tmp_path) == [0, 1, 2]


@pytest.mark.parametrize(
    ("times", "checkpoints", "properties"),
    [
        (days(9, 8, 7), (), {}),
        (days(9, 8, 7), (0,), {}),
        (days(4, 3, 2), (1,), {}),
        (days(9, 8, 7), (1,), {"delta.enableExpiredLogCleanup": "false"}),
    ],
    ids=["no checkpoint", "nothing before it", "nothing expired", "the table says so"],
)
def test_log_cleanup_may_have_nothing_to_remove(
    tmp_path: Path, times: list[datetime], checkpoints: tuple[int, ...], properties: dict[str, str]
) -> None:
    before = log(table(tmp_path, times, checkpoints, properties))
    assert clean(tmp_path) == CleanupResult()
    assert log(tmp_path) == before


def test_times_that_run_backwards_are_moved_forward(tmp_path: Path) -> None:
    table(tmp_path, days(9, 1, 8, 7), (2,))
    assert clean(tmp_path) == CleanupResult()


def test_in_commit_timestamps_decide_if_the_table_has_them(tmp_path: Path) -> None:
    properties = {"delta.enableInCommitTimestamps": "true", "delta.inCommitTimestampEnablementVersion": "1"}
    table(tmp_path, days(9, 8, 7, 1), (1, 2, 3), properties, ("inCommitTimestamp",))
    for version in range(4):
        made_at(tmp_path, version, NOW)
    assert clean(tmp_path).first == 2


def test_checksums_and_compacted_commits_are_removed_with_their_commits(tmp_path: Path) -> None:
    table(tmp_path, days(9, 8, 7, 6, 1), (2,))
    for name in (
        [f"{v:020d}.crc" for v in range(5)]
        + [f".{v:020d}.json.crc" for v in range(5)]
        + [f"{a:020d}.{b:020d}.compacted.json" for a, b in [(0, 1), (2, 4), (3, 4)]]
    ):
        (tmp_path / "_delta_log" / name).write_text("{}")
    clean(tmp_path)
    left = [name for name in log(tmp_path) if name.endswith((".crc", ".compacted.json"))]
    of_kept = [text for v in (2, 3, 4) for text in (f"{v:020d}.crc", f".{v:020d}.json.crc")]
    assert left == sorted([*of_kept, f"{3:020d}.{4:020d}.compacted.json"])


def test_other_files_stay(tmp_path: Path) -> None:
    table(tmp_path, days(9, 8, 1), (1,))
    others = ["_last_checkpoint", f".{1:020d}.json.crc", "notes.json", "0.json", f".{0:020d}.json.tmp"]
    for name in others[1:]:
        (tmp_path / "_delta_log" / name).write_text("x")
    clean(tmp_path)
    assert set(others) <= set(log(tmp_path))


@pytest.mark.parametrize("damage", ["truncated", "no sidecar"])
def test_an_unreadable_checkpoint_is_not_used_as_the_first(tmp_path: Path, damage: str) -> None:
    table(tmp_path, days(9, 8, 7, 6, 1), (1, 3, 4), {"delta.checkpointPolicy": "v2"}, ("v2Checkpoint",))
    file = next((tmp_path / "_delta_log").glob(f"{3:020d}.checkpoint.*"))
    if damage == "truncated":
        file.write_bytes(file.read_bytes()[:-10])
        made_at(tmp_path, 3, MIDNIGHT - timedelta(days=6))
    else:
        row = next(row for row in pq.read_table(file)["sidecar"].to_pylist() if row)
        (tmp_path / "_delta_log" / "_sidecars" / row["path"]).unlink()
    assert clean(tmp_path).first == 1
    assert versions(tmp_path) == [1, 2, 3, 4]


def test_unreferenced_sidecars_are_removed_a_day_later(tmp_path: Path) -> None:
    table(tmp_path, days(9, 8, 7, 6, 1), (1, 3), {"delta.checkpointPolicy": "v2"}, ("v2Checkpoint",))
    sidecars = tmp_path / "_delta_log" / "_sidecars"
    for file in sidecars.iterdir():
        os.utime(file, (EXPIRED.timestamp() - 1, EXPIRED.timestamp() - 1))
    (sidecars / "new.parquet").write_text("being written")
    (sidecars / "other.txt").write_text("not a sidecar")
    before = state(tmp_path)
    result = clean(tmp_path)
    assert len([each for each in result.removed if "/_sidecars/" in each]) == 1
    assert len(list(sidecars.iterdir())) == 3
    assert state(tmp_path) == before


def test_no_sidecar_is_removed_while_a_checkpoint_cannot_be_read(tmp_path: Path) -> None:
    table(tmp_path, days(9, 8, 7, 6, 1), (1, 3), {"delta.checkpointPolicy": "v2"}, ("v2Checkpoint",))
    sidecars = tmp_path / "_delta_log" / "_sidecars"
    for file in sidecars.iterdir():
        os.utime(file, (EXPIRED.timestamp() - 1, EXPIRED.timestamp() - 1))
    (tmp_path / "_delta_log" / f"{4:020d}.checkpoint.{1:010d}.{2:010d}.parquet").write_text("being written")
    result = clean(tmp_path)
    assert result.first == 3
    assert not [each for each in result.removed if "/_sidecars/" in each]


def test_protected_commits_are_removed_all_together_or_not_at_all(tmp_path: Path) -> None:
    def first(before: int) -> int | None:
        folder = tmp_path / str(before)
        properties = {"delta.requireCheckpointProtectionBeforeVersion": str(before)}
        return clean(table(folder, days(9, 8, 7, 6, 1), (1, 3), properties, ("checkpointProtection",))).first

    assert first(3) == 3
    assert first(4) is None


def test_checkpoints_are_removed_after_the_commits_before_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, days(9, 8, 7, 6, 1), (1, 3))
    removed: list[str] = []
    monkeypatch.setattr(Storage, "remove", lambda _, files: removed.extend(files) or [])
    clean(tmp_path)
    kinds = ["checkpoint" in each for each in removed]
    assert sorted(kinds) == kinds
    assert True in kinds


def test_a_checkpoint_stays_as_long_as_a_commit_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table(tmp_path, days(9, 8, 7, 6, 1), (1, 3))
    real = Storage.remove
    stays = str(tmp_path / "_delta_log" / f"{0:020d}.json")

    def remove(storage: Storage, files: Any) -> Any:
        return [*real(storage, [each for each in files if each != stays]), *(each for each in files if each == stays)]

    monkeypatch.setattr(Storage, "remove", remove)
    clean(tmp_path)
    assert versions(tmp_path) == [0, 3, 4]
    assert len(list((tmp_path / "_delta_log").glob(f"{1:020d}.checkpoint*"))) == 1


def test_a_checkpoint_of_a_version_follows_the_protocol_of_that_version(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}, (), {}, ("newFeature",)))
    later = first_actions({"n": "long"}, (), {"delta.requireCheckpointProtectionBeforeVersion": "1"})
    listed = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]}
    commit(tmp_path, {"protocol": listed}, *later[1:])
    with pytest.raises(UnsupportedFeature, match="newFeature"):
        checkpoint_version(str(tmp_path), 0, Storage(), now=NOW)
    assert checkpoint_version(str(tmp_path), 1, Storage(), now=NOW).version == 1


def test_the_log_of_a_table_with_an_unknown_feature_is_left_alone(tmp_path: Path) -> None:
    commit(tmp_path, *first_actions({"n": "long"}, (), KEEP, ("newFeature",)))
    with pytest.raises(UnsupportedFeature, match="newFeature"):
        clean(tmp_path)


@settings(max_examples=30)
@given(
    ages=st.lists(st.floats(0, 12), min_size=2, max_size=7),
    checkpoints=st.sets(st.integers(0, 6)),
    policy=st.sampled_from([("classic", ()), ("v2", ("v2Checkpoint",))]),
)
def test_remaining_versions_are_unchanged(
    tmp_path_factory: pytest.TempPathFactory, ages: list[float], checkpoints: set[int], policy: Any
) -> None:
    folder = tmp_path_factory.mktemp("t")
    table(folder, days(*ages), tuple(checkpoints), {"delta.checkpointPolicy": policy[0]}, policy[1])
    latest = newest_version(folder)
    before = {version: state(folder, version) for version in range(latest + 1)}
    first = clean(folder).first
    for version in range(first or 0, latest + 1):
        assert state(folder, version) == before[version]
    if first is not None:
        assert min(versions(folder)) == first
        assert ages[first] >= 5
