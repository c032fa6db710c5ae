"""Typed table properties: parsed on use; an invalid one fails only the operations that depend on it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakescan
from lakescan.common.option_values import positive
from lakescan.common.properties import Properties, Property
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.iceberg.metadata.table_properties import IcebergProperties

ROWS = pa.table({"id": [1, 2]})


class Sizes(Properties):
    """Table properties for these tests."""

    width = Property("width", 3, positive, "how wide it is")


def test_a_missing_property_has_its_default() -> None:
    assert Sizes({}, "here").width == 3
    assert Sizes({"width": "5"}, "here").width == 5


def test_a_property_is_parsed_once() -> None:
    texts = {"width": "5"}
    sizes = Sizes(texts, "here")
    assert sizes.width == 5
    texts["width"] = "none"
    assert sizes.width == 5


def test_an_invalid_value_is_reported_with_its_place_and_the_expected_form() -> None:
    with pytest.raises(lakescan.InvalidOption, match="here: 'width'='0': expected a whole number above 0"):
        _ = Sizes({"width": "0"}, "here").width


@pytest.mark.parametrize("kind", [IcebergProperties])
def test_every_property_has_a_description_and_a_default_of_its_type(kind: type[Properties]) -> None:
    for name, each in kind.declarations().items():
        assert each.doc, name
        assert getattr(kind({}, ""), each._attribute) == each.default


@pytest.mark.parametrize(
    "name",
    [
        "delta.targetFileSize",
        "delta.dataSkippingNumIndexedCols",
        "delta.parquet.compression.codec",
        "delta.deletedFileRetentionDuration",
    ],
)
def test_a_property_of_writers_does_not_make_a_delta_read_fail(tmp_path: Path, name: str) -> None:
    write_deltalake(tmp_path / "t", ROWS)
    _set(tmp_path / "t", {name: "?"})
    table = lakescan.table(tmp_path / "t")
    assert table.scan().to_arrow().sort_by("id") == ROWS
    with pytest.raises(lakescan.LakescanError, match=name):
        table.remove_orphans(dry_run=True) if name.endswith("Duration") else table.append(ROWS)


@pytest.mark.parametrize(
    "name", ["write.target-file-size-bytes", "history.expire.max-snapshot-age-ms", "write.parquet.compression-codec"]
)
def test_a_property_of_writers_does_not_make_an_iceberg_read_fail(tmp_path: Path, name: str) -> None:
    table = _iceberg(tmp_path, {name: "?"})
    assert table.scan().to_arrow() == ROWS
    with pytest.raises(lakescan.LakescanError, match=name):
        table.expire_snapshots() if name.startswith("history.") else table.append(ROWS)


@pytest.mark.parametrize(
    "name", ["read.split.target-size", "read.split.open-file-cost", "read.split.planning-lookback"]
)
def test_an_invalid_number_in_a_read_property_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match=f"'{name}'='large': expected a whole number"):
        _iceberg(tmp_path, {name: "large"}).scan().to_arrow()


def _set(folder: Path, configuration: dict[str, str]) -> None:
    """Commit a metaData action with this configuration."""
    log, version = folder / "_delta_log", DeltaTable(folder).version()
    actions = [json.loads(line) for line in (log / f"{version:020}.json").read_text().splitlines()]
    metadata: dict[str, Any] = next(each["metaData"] for each in actions if "metaData" in each)
    text = json.dumps({"metaData": {**metadata, "configuration": configuration}})
    (log / f"{version + 1:020}.json").write_text(text)


def _iceberg(tmp_path: Path, properties: dict[str, str]) -> lakescan.Table:
    lake = lakescan.catalog("typed", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    lake.create_table("db.t", ROWS.schema).append(ROWS)
    with lake._catalog.load_table("db.t").transaction() as transaction:
        transaction.set_properties(properties)
    return lake.load_table("db.t")


@pytest.mark.parametrize("declared", [IcebergProperties, DeltaProperties])
def test_a_documented_property_is_read_by_code_or_listed_as_without_effect(declared: type[Properties]) -> None:
    source = Path(lakescan.__file__).parent
    code = "".join(file.read_text() for file in source.rglob("*.py"))
    for kind in declared.__mro__:
        for attribute, each in vars(kind).items():
            if isinstance(each, Property) and not each.is_internal and not each.doc.endswith("(pyiceberg)"):
                is_read = re.search(rf"(?<!Properties)\.{attribute}\b", code) is not None
                assert is_read is not each.is_kept, each.name
