"""A damaged protocol, metadata or schema is refused with file and line; unknown features are refused by name."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.log_text import Action
from lakescan.delta.metadata.protocol import Metadata
from lakescan.delta.metadata.schema_json import parse_schema
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.storage import Storage
from tests.support.delta_logs import MISSING, change_action, commit_file, read, rewrite

READER = ActionReader(Storage(), ("p",))


# Protocol and metadata


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("protocol", "", 5),
        ("protocol", "", []),
        ("protocol", "minReaderVersion", MISSING),
        ("protocol", "minReaderVersion", "x"),
        ("protocol", "minReaderVersion", 2.7),
        ("protocol", "minReaderVersion", [1]),
        ("protocol", "minReaderVersion", 3),
        ("protocol", "readerFeatures", "deletionVectors"),
        ("protocol", "readerFeatures", [1]),
        ("protocol", "writerFeatures", {"a": 1}),
        ("metaData", "", True),
        ("metaData", "schemaString", MISSING),
        ("metaData", "schemaString", 5),
        ("metaData", "schemaString", "x"),
        ("metaData", "schemaString", "[]"),
        ("metaData", "partitionColumns", MISSING),
        ("metaData", "partitionColumns", None),
        ("metaData", "partitionColumns", "p"),
        ("metaData", "partitionColumns", ["p", "p"]),
        ("metaData", "partitionColumns", [5]),
        ("metaData", "partitionColumns", ["nosuch"]),
        ("metaData", "configuration", "x"),
        ("metaData", "configuration", [["a", "b"]]),
        ("metaData", "configuration", {"delta.columnMapping.mode": "nosuch"}),
        ("metaData", "configuration", {"delta.columnMapping.mode": 5}),
        ("metaData", "format", 5),
    ],
)
def test_a_protocol_or_metadata_of_another_shape_is_refused(table: Path, name: str, member: str, value: Any) -> None:
    rewrite(commit_file(table, 0), change_action(name, member, value))
    with pytest.raises(CorruptMetadata, match=r"0\.json, line \d+: ") as raised:
        read(table)
    assert "Error" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "member", "value", "feature"),
    [
        ("protocol", "minReaderVersion", 99, "reader version 99"),
        ("protocol", "readerFeatures", ["nosuch"], "nosuch"),
        ("metaData", "format", {"provider": "orc"}, "orc"),
    ],
)
def test_unknown_protocol_versions_and_features_are_unsupported(
    table: Path, name: str, member: str, value: Any, feature: str
) -> None:
    rewrite(commit_file(table, 0), change_action(name, member, value))
    with pytest.raises(UnsupportedFeature, match=feature):
        read(table)


@pytest.mark.parametrize("name", ["protocol", "metaData"])
def test_a_version_has_one_protocol_and_one_metadata(table: Path, name: str) -> None:
    def twice(lines: list[dict[str, Any]]) -> None:
        lines.append(copy.deepcopy(next(line for line in lines if name in line)))

    rewrite(commit_file(table, 0), twice)
    assert read(table) == [0, 1, 2, 3, 4, 5]  # a repeated line changes nothing
    other = {"protocol": {"minReaderVersion": 2}, "metaData": {"schemaString": '{"type":"struct","fields":[]}'}}[name]
    rewrite(commit_file(table, 0), lambda lines: lines[-1][name].update(other))
    with pytest.raises(CorruptMetadata, match=rf"a second {name} action"):
        read(table)


def test_properties_may_be_null_numbers_and_booleans(table: Path) -> None:
    properties = {"delta.columnMapping.mode": None, "delta.enableChangeDataFeed": False, "x": 5}
    rewrite(commit_file(table, 0), change_action("metaData", "configuration", properties))
    assert read(table) == [0, 1, 2, 3, 4, 5]
    assert lakescan.table(table).properties == {"delta.enableChangeDataFeed": "false", "x": "5"}


# Schemas


def field(name: str, kind: Any = "long", **metadata: Any) -> dict[str, Any]:
    known = {"id": "delta.columnMapping.id", "physical": "delta.columnMapping.physicalName"}
    return {"name": name, "type": kind, "nullable": True, "metadata": {known[k]: v for k, v in metadata.items()}}


def struct(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": True}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {},
        {"type": "struct", "fields": None},
        {"type": "struct", "fields": "ab"},
        struct(None),
        struct({"name": "a"}),
        struct({"name": None, "type": "long"}),
        struct({"name": ["a"], "type": "long"}),
        struct(field("a", 5)),
        struct(field("a", {})),
        struct(field("a", {"type": "array"})),
        struct(field("a", {"type": "map", "keyType": "long"})),
        struct(field("a", "decimal(99,3)")),
        struct(field("a", "decimal(3,9)")),
        struct({**field("a"), "metadata": 5}),
        struct({**field("a"), "nullable": "x"}),
        struct(field("a"), field("a")),
        struct(field("a"), field("A")),
        struct(field("s", array(struct(field("a"), field("A"))))),
    ],
    ids=str,
)
def test_an_invalid_schema_is_refused(schema: Any) -> None:
    with pytest.raises(CorruptMetadata, match=r"^0\.json, line 1: ") as raised:
        parse_schema(json.dumps(schema), "none", "0.json, line 1")
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("text", ["", "x", "[" * 10**5, '{"type": "struct", "fields": [' * 10**4])
def test_a_schema_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(CorruptMetadata, match=r"^0\.json, line 1: the table's schema is not valid JSON"):
        parse_schema(text, "none", "0.json, line 1")


def test_a_schema_may_be_deep_but_not_bottomless() -> None:
    def nested(depth: int) -> str:
        return json.dumps(struct(field("a", array(nested_array(depth)))))

    def nested_array(depth: int) -> Any:
        kind: Any = "long"
        for _ in range(depth):
            kind = array(kind)
        return kind

    assert parse_schema(nested(90), "none", "x").names == ["a"]
    with pytest.raises(UnsupportedFeature, match="nested more than"):
        parse_schema(nested(200), "none", "x")


@pytest.mark.parametrize("mode", ["id", "name"])
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ([field("a", id=1)], "physicalName null"),
        ([field("a", physical="x")], "id null"),
        ([field("a", id=1, physical="")], "physicalName"),
        ([field("a", id="1", physical="x")], "id"),
        ([field("a", id=-1, physical="x")], "id"),
        ([field("a", id=2**31, physical="x")], "id"),
        ([field("a", id=1, physical="x"), field("b", id=2, physical="x")], "two columns with the physical name"),
        ([field("a", id=1, physical="x"), field("b", id=1, physical="y")], "id as column"),
        ([field("a", struct(field("b", id=1, physical="y")), id=1, physical="x")], "id as column"),
        ([field("a", array(struct(field("b", id=2))), id=1, physical="x")], "physicalName null"),
    ],
)
def test_column_mapping_needs_an_id_and_a_physical_name_for_each_field(
    mode: str, fields: list[dict[str, Any]], fault: str
) -> None:
    with pytest.raises(CorruptMetadata, match=fault):
        parse_schema(json.dumps(struct(*fields)), mode, "0.json, line 1")
    assert parse_schema(json.dumps(struct(field("a", id=1))), "none", "x").names == ["a"]


def test_the_same_physical_name_may_be_in_two_structs() -> None:
    inner = [struct(field("v", id=number, physical="v")) for number in (2, 4)]
    fields = [field("a", inner[0], id=1, physical="a"), field("b", inner[1], id=3, physical="b")]
    schema = parse_schema(json.dumps(struct(*fields)), "name", "x")
    assert [schema.physical_path(schema.by_id[i]) for i in (2, 4)] == [("a", "v"), ("b", "v")]


@pytest.mark.parametrize("mode", ["none", "NAME", "Id"])
def test_the_mode_of_column_mapping_is_known_in_any_case(table: Path, mode: str) -> None:
    def mapped(lines: list[dict[str, Any]]) -> None:
        node = next(line["metaData"] for line in lines if "metaData" in line)
        schema = json.loads(node["schemaString"])
        for number, each in enumerate(schema["fields"]):
            each["metadata"] = field("", id=number + 1, physical=each["name"])["metadata"]
        node["schemaString"] = json.dumps(schema)
        node["configuration"] = {"delta.columnMapping.mode": mode}

    rewrite(commit_file(table, 0), mapped)
    assert lakescan.table(table).scan().select("p").count() == 6


@pytest.mark.parametrize("nested", [False, True])
def test_physical_names_without_a_mode_of_column_mapping_are_refused(nested: bool) -> None:
    """The columns would be read by physical names that no file has, and would be null."""

    def metadata(physical: str, **configuration: str) -> Metadata:
        inner = field("a", id=1, physical=physical)
        schema = struct(field("s", struct(inner), id=2, physical="s")) if nested else struct(inner)
        node = {"id": "x", "schemaString": json.dumps(schema), "partitionColumns": [], "configuration": configuration}
        return Metadata.parse(Action("metaData", node, "0.json, line 1"))

    most = {"delta.columnMapping.maxColumnId": "2"}
    with pytest.raises(CorruptMetadata, match=r'^0\.json, line 1: column "a" .*columnMapping\.mode is not'):
        metadata("col-1", **most).schema()
    metadata("a", **most).schema()  # a table that enabled column mapping later keeps its physical names
    metadata("col-1", **most, **{"delta.columnMapping.mode": "none"}).schema()
    metadata("col-1").schema()  # copied from another table's schema
