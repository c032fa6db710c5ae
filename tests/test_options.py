"""Options keep the ecosystem's names; what is unknown is refused with the nearest valid one, never ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakescan.common.option_values import parse_size
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.options.read import Options


@pytest.mark.parametrize("name", ["snapshot-id", "snapshot_id", "snapshotId", "SNAPSHOT-ID", "snapshotid"])
def test_case_hyphens_and_underscores_do_not_matter(name: str) -> None:
    assert dict(Options({name: "7"})) == {"snapshot-id": 7}


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("snapshots-id", "snapshot-id"),
        ("versionAsof2", "versionAsOf"),
        ("splitsizes", "split-size"),
        ("maxFiles", "maxFilesPerTrigger"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InvalidOption, match=f"Did you mean '{nearest}'|option '{nearest}'"):
        Options({name: "1"})


def test_an_option_of_the_peers_that_is_not_obeyed_yet_is_refused_as_a_feature() -> None:
    with pytest.raises(UnsupportedFeature, match="'schemaTrackingLocation'"):
        Options({"schematrackinglocation": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("split-size", "big"),
        ("split-size", "0"),
        ("lookback", "-1"),
        ("case-sensitive", "yes"),
        ("snapshot-id", "main"),
        ("starting-strategy", "soon"),
        ("on-change", "ignore"),
        ("monitor-interval", "0s"),
        ("startingVersion", "newest"),
        ("limit", "-5"),
    ],
)
def test_a_malformed_value_is_refused_with_what_the_option_takes(name: str, value: str) -> None:
    with pytest.raises(InvalidOption, match=f"{name}.*{value}.*expected"):
        Options({name: value})


@pytest.mark.parametrize(
    ("text", "size"), [("10", 10), ("1k", 1024), ("128MB", 128 * 2**20), ("2 g", 2 * 2**30), ("1GiB", 2**30)]
)
def test_sizes_take_units(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_an_option_of_the_other_format_is_refused() -> None:
    with pytest.raises(InvalidOption, match="'branch' is for iceberg tables; this is a delta table"):
        Options({"branch": "main"}).check_format("delta")


def test_later_options_go_over_earlier_ones() -> None:
    assert dict(Options({"limit": 5, "lookback": 3}).merged({"limit": 7})) == {"limit": 7, "lookback": 3}


@pytest.mark.parametrize(
    ("name", "says"),
    [("dataChange", "writes"), ("queryName", "streaming query"), ("checkpointLocation", "writeStream")],
)
def test_options_that_belong_elsewhere_say_where(name: str, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        Options({name: "x"})


def test_how_iceberg_decodes_is_taken() -> None:
    assert Options({"vectorization-enabled": "false"})["vectorization-enabled"] is False


def test_the_page_of_options_is_made_from_them() -> None:
    import importlib.util

    root = Path(__file__).parent.parent
    spec = importlib.util.spec_from_file_location("options_doc", root / "scripts" / "options_doc.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert (root / "docs" / "options.md").read_text() == made.page(), "run: python scripts/options_doc.py"
