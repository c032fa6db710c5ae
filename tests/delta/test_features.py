"""Table features: how lakescan treats tables that have them, and the versions or properties that enable them."""

from __future__ import annotations

import pytest

import lakescan
from lakescan.common import types as t
from lakescan.delta.metadata.features import (
    FEATURES,
    LISTED,
    Support,
    implied_features,
    is_for_readers,
    new_table_features,
    type_feature,
)
from lakescan.delta.metadata.protocol import Protocol


def _listing(name: str) -> Protocol:
    return Protocol(3, LISTED, frozenset({name}), frozenset({name}))


@pytest.mark.parametrize("name", [*FEATURES, "aFeatureOfTomorrow"])
def test_a_feature_is_refused_by_name_wherever_it_is_not_supported(name: str) -> None:
    support = FEATURES[name].support if name in FEATURES else Support.NONE
    checks = {
        Support.READ: lambda: _listing(name).check_readable("/t"),
        Support.WRITE: lambda: _listing(name).check_supports(Support.WRITE, "writing to", "/t"),
        Support.VACUUM: lambda: _listing(name).check_supports(Support.VACUUM, "removing files of", "/t"),
    }
    for needed, check in checks.items():
        if needed in support:
            check()
        else:
            with pytest.raises(lakescan.UnsupportedFeature, match=f"'{name}'"):
                check()


def test_older_writer_versions_imply_features_as_in_the_protocol() -> None:
    added = [implied_features(version) - implied_features(version - 1) for version in range(1, LISTED)]
    assert added == [
        frozenset(),
        {"appendOnly", "invariants"},
        {"checkConstraints"},
        {"changeDataFeed", "generatedColumns"},
        {"columnMapping"},
        {"identityColumns"},
    ]
    assert implied_features(LISTED) == frozenset()
    assert implied_features(6) - implied_features(6, 1) == {"columnMapping"}


@pytest.mark.parametrize(
    ("names", "versions"),
    [
        ((), (1, 1)),
        (("appendOnly", "invariants"), (1, 2)),
        (implied_features(4), (1, 4)),
        (implied_features(5), (2, 5)),
        (implied_features(6), (2, 6)),
        (implied_features(6, 1), (1, 6)),
        (("appendOnly", "invariants", "identityColumns"), (1, 7)),
        (("columnMapping",), (2, 7)),
        (("columnMapping", "rowTracking", "domainMetadata"), (2, 7)),
        (("columnMapping", "deletionVectors"), (3, 7)),
        (("rowTracking", "domainMetadata"), (1, 7)),
        (("deletionVectors", "appendOnly"), (3, 7)),
    ],
)
def test_a_protocol_is_the_weakest_one_with_its_features(names: tuple[str, ...], versions: tuple[int, int]) -> None:
    """Delta on Spark normalizes them in the same way (`Protocol.normalized`)."""
    found = Protocol.weakest(names)
    assert (found.min_reader_version, found.min_writer_version) == versions
    assert found.features == set(names)
    listed = {name for name in names if is_for_readers(name)} if versions[0] == 3 else set()
    assert (found.reader_features, found.writer_features) == (listed, set(names) if versions[1] == LISTED else set())


def test_a_later_writer_version_is_refused() -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="writer version 8"):
        Protocol(1, 8, frozenset()).check_supports(Support.WRITE, "writing to", "/t")
    with pytest.raises(lakescan.UnsupportedFeature, match="reader version 4"):
        Protocol(4, LISTED, frozenset()).check_readable("/t")


def test_properties_and_types_enable_features_of_a_new_table() -> None:
    assert (
        new_table_features({})
        == new_table_features({"delta.columnMapping.mode": "none"})
        == ["appendOnly", "invariants"]
    )
    assert "columnMapping" in new_table_features({"delta.columnMapping.mode": "name"})
    assert "deletionVectors" in new_table_features({"delta.enableDeletionVectors": "true"})
    assert type_feature(t.Timestamp(zoned=False)) == "timestampNtz"
    assert type_feature(t.VARIANT) == "variantType"
    assert type_feature(t.Timestamp(zoned=True)) is type_feature(t.STRING) is None
