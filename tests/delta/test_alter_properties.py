"""Changes of a Delta table's properties, constraints, clustering and features."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.alter import AlterBuilder
from lakescan.definition.table_changes import AddPartition, SetKey, SetLocation, SetOrder
from lakescan.definition.table_definition import Term
from lakescan.delta.metadata.features import FEATURES, Support
from tests.support.delta_state import newest_version, state
from tests.support.two_commits import save_in_two_commits

Change = Callable[[AlterBuilder], AlterBuilder]
ROWS = pa.table({"id": [1, 2, 3], "text": ["a", None, "c"]})


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    save_in_two_commits(ROWS, tmp_path / "t", format="delta")
    return lakescan.table(tmp_path / "t")


def features(table: lakescan.Table) -> frozenset[str]:
    return state(Path(table.location))[0].features


def actions(table: lakescan.Table) -> dict[str, Any]:
    """Return the newest commit's actions by name; of several with one name, the last."""
    folder = Path(table.location)
    found: dict[str, Any] = {}
    for line in (folder / "_delta_log" / f"{newest_version(folder):020d}.json").read_text().splitlines():
        found.update(json.loads(line))
    return found


def refused(table: lakescan.Table, change: Change, *parts: str) -> None:
    before = newest_version(Path(table.location))
    with pytest.raises(lakescan.LakescanError) as error:
        change(table.alter()).commit()
    for part in parts:
        assert part in str(error.value)
    assert newest_version(Path(table.location)) == before


@pytest.mark.parametrize(
    ("name", "value", "feature"),
    [
        ("delta.appendOnly", "true", "appendOnly"),
        ("delta.enableChangeDataFeed", "true", "changeDataFeed"),
        ("delta.enableDeletionVectors", "true", "deletionVectors"),
        ("delta.enableTypeWidening", "true", "typeWidening"),
        ("delta.checkpointPolicy", "v2", "v2Checkpoint"),
        ("delta.enableInCommitTimestamps", "true", "inCommitTimestamp"),
        ("delta.columnMapping.mode", "name", "columnMapping"),
        ("delta.feature.vacuumProtocolCheck", "supported", "vacuumProtocolCheck"),
    ],
)
def test_a_property_enables_its_feature(table: lakescan.Table, name: str, value: str, feature: str) -> None:
    table.alter().set_properties({name: value}).commit()
    assert feature in features(table)
    assert table.properties.get(name) == (None if "feature" in name else value)
    table.append(ROWS)
    assert table.count() == 6


def test_property_names_match_in_any_case_and_unknown_ones_belong_to_the_user(table: lakescan.Table) -> None:
    table.alter().set_properties({"DELTA.appendonly": True, "Owner": "sales"}).commit()
    assert (table.properties["delta.appendOnly"], table.properties["Owner"]) == ("true", "sales")
    table.alter().unset_properties("delta.APPENDONLY", "Owner").commit()
    assert table.properties == {}


@pytest.mark.parametrize(
    ("properties", "parts"),
    [
        ({"delta.apendOnly": "true"}, ["Did you mean 'delta.appendOnly'?"]),
        ({"delta.appendOnly": "maybe"}, ["'delta.appendOnly'='maybe'"]),
        ({"delta.constraints.c": "id > 0"}, ["ADD CONSTRAINT"]),
        ({"delta.columnMapping.mode": "id"}, ["delta.columnMapping.mode"]),
        ({"delta.columnMapping.maxColumnId": "9"}, ["delta.columnMapping.maxColumnId"]),
        ({"delta.feature.clustering": "supported"}, ["CLUSTER BY"]),
        ({"delta.feature.clusterin": "supported"}, ["Did you mean 'clustering'?"]),
        ({"delta.feature.icebergCompatV2": "supported"}, ["lakescan does not support it"]),
        ({"delta.feature.deletionVectors": "yes"}, ["it takes supported"]),
        ({"delta.minWriterVersion": "8"}, ["from 1 to 7"]),
        ({"delta.universalFormat.enabledFormats": "iceberg"}, ["delta.universalFormat.enabledFormats"]),
        ({"location": "/other"}, ["'location'"]),
    ],
)
def test_properties_that_lakescan_writers_do_not_honour_are_refused(
    table: lakescan.Table, properties: dict[str, str], parts: list[str]
) -> None:
    refused(table, lambda t: t.set_properties(properties), *parts)


def test_protocol_versions_only_increase(table: lakescan.Table) -> None:
    table.alter().set_properties({"delta.minWriterVersion": 4}).commit()
    protocol = state(Path(table.location))[0]
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 4)
    table.alter().set_properties({"delta.minReaderVersion": 1, "delta.minWriterVersion": 2, "a": "b"}).commit()
    assert state(Path(table.location))[0] == protocol
    table.alter().set_properties({"delta.minReaderVersion": 2, "delta.minWriterVersion": 5}).commit()
    assert {"columnMapping", "generatedColumns", "checkConstraints"} <= features(table)


def test_a_writer_version_alone_does_not_enable_column_mapping(table: lakescan.Table) -> None:
    table.alter().set_properties({"delta.minWriterVersion": 6}).commit()
    protocol = state(Path(table.location))[0]
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 6)
    assert "columnMapping" not in protocol.features
    table.alter().set_properties({"delta.columnMapping.mode": "name"}).commit()
    protocol = state(Path(table.location))[0]
    assert (protocol.min_reader_version, protocol.min_writer_version, protocol.reader_features) == (2, 6, set())


def test_column_mapping_stays(table: lakescan.Table) -> None:
    table.alter().set_properties({"delta.columnMapping.mode": "name"}).commit()
    refused(table, lambda t: t.set_properties({"delta.columnMapping.mode": "none"}), "from 'name' to 'none'")
    refused(table, lambda t: t.unset_properties("delta.columnMapping.mode"), "under physical names")
    refused(table, lambda t: t.unset_properties("delta.columnMapping.maxColumnId"), "writers need it")


def test_unset_removes_only_existing_properties(table: lakescan.Table) -> None:
    table.alter().set_properties({"owner": "me"}).commit()
    refused(table, lambda t: t.unset_properties("ower", if_exists=False), "Did you mean 'owner'?")
    table.alter().unset_properties("ower", "owner").commit()
    assert table.properties == {}


def test_the_comment_is_the_description(table: lakescan.Table) -> None:
    table.alter().set_comment("one row an order").commit()
    assert state(Path(table.location))[1].description == "one row an order"
    table.alter().set_comment(None).commit()
    assert state(Path(table.location))[1].description is None


def test_enabling_in_commit_timestamps_records_the_version_and_time(table: lakescan.Table) -> None:
    table.append(ROWS)
    table.alter().set_properties({"delta.enableInCommitTimestamps": True}).commit()
    info = actions(table)["commitInfo"]
    assert table.properties["delta.inCommitTimestampEnablementVersion"] == str(newest_version(Path(table.location)))
    assert table.properties["delta.inCommitTimestampEnablementTimestamp"] == str(info["inCommitTimestamp"])
    table.alter().drop_feature("inCommitTimestamp").commit()
    assert table.properties == {}
    assert "inCommitTimestamp" not in features(table)
    assert "inCommitTimestamp" not in actions(table)["commitInfo"]


def test_row_tracking_gives_ids_to_existing_rows(table: lakescan.Table) -> None:
    table.append(ROWS)
    table.delete("id = 2")
    before = table.count()
    table.alter().set_properties({"delta.enableRowTracking": True}).commit()
    found = table.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()
    assert len(set(found)) == before
    assert None not in found
    assert {"rowTracking", "domainMetadata"} <= features(table)
    table.append(ROWS)
    assert len(set(table.scan().select("_row_id").to_arrow()["_row_id"].to_pylist())) == before + 3
    table.alter().drop_feature("rowTracking").commit()
    assert "rowTracking" not in features(table)
    assert not any("rowTracking" in name for name in table.properties)
    assert table.count() == before + 3
    assert {each["base_row_id"] for each in state(Path(table.location))[2]} == {None}


def test_rows_are_checked_before_a_constraint_is_added(table: lakescan.Table) -> None:
    refused(table, lambda t: t.add_constraint("big", "id > 1"), "1 rows", "For example: id = 1")
    refused(table, lambda t: t.add_constraint("known", "length(text) = 1"), "text = None")
    table.alter().add_constraint("Known", "text is null or length(text) = 1").commit()
    assert table.properties["delta.constraints.known"] == "text is null or length(text) = 1"
    assert "checkConstraints" in features(table)
    with pytest.raises(lakescan.SchemaMismatch, match="known"):
        table.append(pa.table({"id": [4], "text": ["long"]}))
    refused(table, lambda t: t.add_constraint("KNOWN", "id > 0"), "already")
    refused(table, lambda t: t.drop_feature("checkConstraints"), "Drop its constraints first: known")
    table.alter().drop_constraint("KNOWN").drop_feature("checkConstraints").commit()
    assert "checkConstraints" not in features(table)


@pytest.mark.parametrize(
    ("condition", "part"),
    [("idd > 0", "Did you mean 'id'?"), ("id >", "id >"), ("id + 1", "id + 1"), ("rand() > 0", "rand")],
)
def test_a_constraint_is_a_condition_of_the_table(table: lakescan.Table, condition: str, part: str) -> None:
    refused(table, lambda t: t.add_constraint("c", condition), part)


def test_a_constraint_is_not_added_with_its_column(table: lakescan.Table) -> None:
    mapped = table.alter().set_properties({"delta.columnMapping.mode": "name"})
    for change in (
        mapped.add_column("n", "INT").add_constraint("c", "n is null"),
        mapped.rename_column("id", "x").add_constraint("c", "x > 0"),
        mapped.rename_column("id", "x").rename_column("text", "id").add_constraint("c", "id = 'a'"),
    ):
        with pytest.raises(lakescan.UnsupportedFeature, match="Commit the change of the column first"):
            change.commit()


def test_a_missing_constraint_cannot_be_dropped(table: lakescan.Table) -> None:
    refused(table, lambda t: t.drop_constraint("c"), "no constraint 'c'")
    table.alter().drop_constraint("c", if_exists=True).commit()
    assert newest_version(Path(table.location)) == 1


def test_clustering_columns_are_domain_metadata(table: lakescan.Table) -> None:
    table.alter().cluster_by().commit()
    assert newest_version(Path(table.location)) == 1
    table.alter().cluster_by("ID", "text").commit()
    domain = actions(table)["domainMetadata"]
    assert domain["domain"] == "delta.clustering"
    assert json.loads(domain["configuration"])["clusteringColumns"] == [["id"], ["text"]]
    assert {"clustering", "domainMetadata"} <= features(table)
    table.append(ROWS)
    table.alter().cluster_by().commit()
    assert json.loads(actions(table)["domainMetadata"]["configuration"])["clusteringColumns"] == []
    assert actions(table).keys() == {"commitInfo", "domainMetadata"}
    refused(table, lambda t: t.drop_feature("clustering"), "it cannot be dropped")
    refused(table, lambda t: t.drop_feature("domainMetadata"), "'clustering' needs it")


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        (("idd",), "Did you mean 'id'?"),
        (("id", "ID"), "twice"),
        (("id", "text", "a", "b", "c"), "at most 4"),
        (("flag",), "no statistics"),
        (("items",), "no statistics"),
    ],
)
def test_clustering_columns_have_statistics(table: lakescan.Table, columns: tuple[str, ...], part: str) -> None:
    table.alter().add_column("flag", "BOOLEAN").add_column("items", "ARRAY<INT>").commit()
    refused(table, lambda t: t.cluster_by(*columns), part)


def test_a_partitioned_table_is_not_clustered(tmp_path: Path) -> None:
    save_in_two_commits(ROWS, tmp_path / "t", format="delta", partition_by=["text"])
    refused(lakescan.table(tmp_path / "t"), lambda t: t.cluster_by("id"), "partitioned")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("appendOnly", "it cannot be dropped"),
        ("deletionVector", "Did you mean 'deletionVectors'?"),
        ("rowTracking", "has no feature 'rowTracking'"),
    ],
)
def test_a_feature_that_delta_does_not_drop_stays(table: lakescan.Table, name: str, part: str) -> None:
    table.alter().set_properties({"delta.enableDeletionVectors": True}).commit()
    refused(table, lambda t: t.drop_feature(name), part)


@pytest.mark.parametrize(
    "change",
    [SetKey(("id",)), AddPartition(Term("identity", "id")), SetOrder(()), SetLocation("/other")],
    ids=lambda change: type(change).__name__,
)
def test_operations_that_delta_lacks_are_refused_with_advice(table: lakescan.Table, change: Any) -> None:
    with pytest.raises(lakescan.UnsupportedFeature) as error:
        table.alter().with_change(change).commit()
    assert error.value.detail


SUPPORTED = sorted(each.name for each in FEATURES.values() if Support.WRITE in each.support)


@pytest.mark.parametrize("feature", SUPPORTED)
def test_a_new_table_takes_the_features_that_alter_table_takes(tmp_path: Path, feature: str) -> None:
    """Feature names match in any case, and the protocol is the same."""
    name, protocols = f"delta.feature.{feature.upper()}", []
    save_in_two_commits(ROWS, tmp_path / "old", format="delta")
    try:
        lakescan.table(tmp_path / "old").alter().set_properties({name: "supported"}).commit()
    except lakescan.UnsupportedFeature as error:
        with pytest.raises(lakescan.UnsupportedFeature, match=str(error).partition(" for ")[0]):
            lakescan.save(ROWS, tmp_path / "new", format="delta", properties={name: "supported"})
        assert not (tmp_path / "new").exists()
        return
    lakescan.save(ROWS, tmp_path / "new", format="delta", properties={name: "supported"})
    for each in ("old", "new"):
        lakescan.table(tmp_path / each).append(ROWS)
        assert sorted(lakescan.table(tmp_path / each).to_arrow()["id"].to_pylist()) == [1, 1, 2, 2, 3, 3]
        protocols.append(state(tmp_path / each)[0])
    assert protocols[0] == protocols[1]
    assert feature in protocols[1].features
    assert not [each for each in lakescan.table(tmp_path / "new").properties if "feature" in each]


def test_a_table_that_allows_defaults_takes_a_default_later(tmp_path: Path) -> None:
    lakescan.save(ROWS, tmp_path / "t", format="delta", properties={"delta.feature.allowColumnDefaults": "supported"})
    lakescan.sql(f"ALTER TABLE delta.`{tmp_path / 't'}` ALTER COLUMN text SET DEFAULT 'x'")
    lakescan.sql(f"INSERT INTO delta.`{tmp_path / 't'}` (id) VALUES (4)")
    assert "x" in lakescan.table(tmp_path / "t").to_arrow()["text"].to_pylist()
