"""Properties of new tables are kept and obeyed, or refused by name; lakescan can read the tables that it creates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakescan
from lakescan.delta.metadata.table_properties import SETTABLE as DELTA
from lakescan.iceberg.metadata.table_properties import IcebergProperties

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})
DELTA_VALUES = {
    "delta.autoOptimize.autoCompact": "auto",
    "delta.columnMapping.mode": "name",
    "delta.dataSkippingNumIndexedCols": "1",
    "delta.dataSkippingStatsColumns": "id",
    "delta.isolationLevel": "Serializable",
    "delta.minReaderVersion": "2",
    "delta.minWriterVersion": "5",
    "delta.parquet.compression.codec": "zstd",
    "delta.targetFileSize": "10mb",
    "delta.checkpointInterval": "2",
    "delta.checkpointPolicy": "v2",
    "delta.randomPrefixLength": "3",
}
ICEBERG_VALUES = {
    "write.delete.format.default": "parquet",
    "write.delete.granularity": "partition",
    "write.delete.mode": "merge-on-read",
    "write.delete.parquet.compression-codec": "gzip",
    "write.delete.parquet.compression-level": "3",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "copy-on-write",
    "write.upsert.enabled": "false",
    "write.wap.enabled": "true",
    "write.delete.isolation-level": "snapshot",
    "write.distribution-mode": "none",
    "write.merge.isolation-level": "serializable",
    "write.update.isolation-level": "Snapshot",
    "write.metadata.compression-codec": "gzip",
    "write.metadata.metrics.default": "truncate(4)",
    "write.parquet.compression-codec": "gzip",
    "write.parquet.compression-level": "3",
    "commit.manifest-merge.enabled": "true",
    "gc.enabled": "true",
    "read.data-planning-mode": "local",
    "read.delete-planning-mode": "local",
    "read.parquet.vectorization.enabled": "false",
    "read.split.adaptive-size.enabled": "false",
    "schema.name-mapping.default": "[]",
    "write.format.default": "PARQUET",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.object-storage.enabled": "true",
    "write.object-storage.partitioned-paths": "false",
}


def value_of(name: str) -> str:
    return DELTA_VALUES.get(name, "interval 3 weeks" if name.endswith("Duration") else "true")


def made(local: lakescan.Catalog, format: str, **properties: str) -> lakescan.Table:
    return local.create_table("db.t", COLUMNS, format=format, properties=properties)


def rows(table: Any) -> list[dict[str, Any]]:
    return table.sort_by("id").to_pylist()


@pytest.mark.parametrize("name", DELTA)
def test_a_delta_table_with_a_property_is_written_and_read_by_lakescan_and_deltalake(
    local: lakescan.Catalog, name: str
) -> None:
    table = made(local, "delta", **{name.upper().replace("DELTA.", "delta."): value_of(name)})
    assert (name in table.properties) == (name not in ("delta.minReaderVersion", "delta.minWriterVersion"))
    table.append(ROWS)
    assert rows(local.load_table("db.t").scan().to_arrow()) == ROWS.to_pylist()
    unknown = ("delta.enableDeletionVectors", "delta.columnMapping.mode", "delta.checkpointPolicy")
    if name == "delta.enableTypeWidening":
        return  # deltalake does not open such tables
    opened = DeltaTable(table.location)
    if name not in unknown:  # to deltalake's Arrow reader
        assert rows(opened.to_pyarrow_table()) == ROWS.to_pylist()
    if name == "delta.parquet.compression.codec":
        import pyarrow.parquet as pq

        (file,) = Path(table.location.removeprefix("file://")).glob("*.parquet")
        assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        ("delta.enableVariantShredding", "TRUE", lakescan.UnsupportedFeature, "shredded"),
        ("delta.checkpointPolicy", "v3", lakescan.InvalidOption, "classic"),
        ("delta.universalFormat.enabledFormats", "iceberg", lakescan.UnsupportedFeature, "Iceberg"),
        ("delta.compatibility.symlinkFormatManifest.enabled", "true", lakescan.UnsupportedFeature, "manifest"),
        ("delta.constraints.c", "id > 0", lakescan.UnsupportedFeature, "ALTER TABLE"),
        ("delta.feature.clustering", "supported", lakescan.UnsupportedFeature, "CLUSTER BY"),
        ("delta.feature.appendOnly", "on", lakescan.InvalidOption, "supported"),
        ("delta.minReaderVersion", "3", lakescan.InvalidOption, "1, 2"),
        ("delta.minWriterVersion", "7", lakescan.InvalidOption, "features"),
        ("delta.columnMapping.mode", "id", lakescan.InvalidOption, "name"),
        ("delta.columnMapping.maxColumnId", "7", lakescan.InvalidOption, "no table property"),
        ("delta.appendOnli", "true", lakescan.InvalidOption, "delta.appendOnly"),
        ("delta.appendOnly", "maybe", lakescan.InvalidOption, "true or false"),
        ("delta.dataSkippingNumIndexedCols", "x", lakescan.InvalidOption, "whole number"),
        ("delta.isolationLevel", "Nonsense", lakescan.InvalidOption, "Serializable"),
        ("delta.logRetentionDuration", "2 months", lakescan.InvalidOption, "interval 30 days"),
        ("delta.targetFileSize", "large", lakescan.InvalidOption, "bytes"),
    ],
)
def test_unsupported_delta_properties_are_refused(
    local: lakescan.Catalog, name: str, value: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        made(local, "delta", **{name: value})


def test_delta_properties_without_effect_are_kept(local: lakescan.Catalog) -> None:
    table = made(
        local, "delta", **{"delta.enableRowTracking": "false", "owner": "me", "delta.feature.appendOnly": "supported"}
    )
    assert table.properties["owner"] == "me"
    assert "delta.feature.appendOnly" not in table.properties


def test_durations_are_recorded_as_deltalake_reads_them(local: lakescan.Catalog) -> None:
    table = made(local, "delta", **{"delta.deletedFileRetentionDuration": "30 Days"})
    assert table.properties["delta.deletedFileRetentionDuration"] == "interval 30 days"


def test_column_mapping_works_with_listed_features(local: lakescan.Catalog) -> None:
    columns = pa.schema([("at", pa.timestamp("us"))])
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    table = local.create_table("db.t", columns, format="delta", properties=properties)
    table.append(pa.table({"at": pa.array([0], pa.timestamp("us"))}))
    features = {"columnMapping", "deletionVectors", "timestampNtz"}
    assert features == set(DeltaTable(table.location).protocol().reader_features)
    assert local.load_table("db.t").scan().count() == 1


@pytest.mark.parametrize(
    "name", [each for each in IcebergProperties.declarations() if not each.startswith("encryption.")]
)
def test_an_iceberg_table_with_a_property_is_written_and_read_by_lakescan_and_pyiceberg(
    local: lakescan.Catalog, name: str, tmp_path: Path
) -> None:
    value = str(tmp_path / "elsewhere") if name.endswith(".path") else ICEBERG_VALUES.get(name, "10")
    table = made(local, "iceberg", **{name: value})
    table.append(ROWS)
    assert rows(local.load_table("db.t").scan().to_arrow()) == ROWS.to_pylist()
    assert rows(local._catalog.load_table("db.t").scan().to_arrow()) == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        ("format-version", "4", lakescan.InvalidOption, "1, 2 or 3"),
        ("write.format.default", "ORC", lakescan.UnsupportedFeature, "Parquet"),
        ("encryption.key-id", "k", lakescan.InvalidOption, "format version 3"),
        ("current-snapshot-id", "1", lakescan.InvalidOption, "metadata"),
        ("write.target-file-size-bytes", "512mb", lakescan.InvalidOption, "whole number"),
        ("write.parquet.compression-codec", "zip", lakescan.InvalidOption, "zstd"),
        ("write.metadata.metrics.column.id", "some", lakescan.InvalidOption, "truncate"),
        ("gc.enabled", "no", lakescan.InvalidOption, "true or false"),
        ("write.location-provider.impl", "org.x.Y", lakescan.UnsupportedFeature, "Iceberg's own providers"),
        ("write.data.path", "", lakescan.InvalidOption, "a folder's location"),
        ("write.data.path", "data/of/t", lakescan.InvalidOption, "an absolute path"),
        ("write.metadata.path", " /meta", lakescan.InvalidOption, "an absolute path"),
        ("write.object-storage.path", "file:data", lakescan.InvalidOption, "an absolute path"),
    ],
)
def test_unsupported_iceberg_properties_are_refused(
    local: lakescan.Catalog, name: str, value: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        made(local, "iceberg", **{name: value})


def test_properties_of_other_writers_are_kept(local: lakescan.Catalog) -> None:
    table = made(local, "iceberg", **{"write.delete.mode": "merge-on-read", "owner": "me"})
    assert (table.properties["write.delete.mode"], table.properties["owner"]) == ("merge-on-read", "me")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("write.target-file-size-bytes", "large"),
        ("write.parquet.compression-codec", "lzo"),
        ("write.parquet.compression-level", "high"),
        ("write.parquet.page-size-bytes", "0"),
        ("write.metadata.metrics.max-inferred-column-defaults", "all"),
        ("commit.manifest.target-size-bytes", "8mb"),
        ("write.data.path", ""),
        ("write.data.path", "data/of/t"),
    ],
)
def test_a_property_of_another_writer_that_cannot_be_obeyed_is_reported(
    local: lakescan.Catalog, tmp_path: Path, name: str, value: str
) -> None:
    table = made(local, "iceberg")
    with local._catalog.load_table("db.t").transaction() as transaction:
        transaction.set_properties({name: value})
    with pytest.raises(lakescan.InvalidOption, match=f"cannot be written to: '{name}'='{value}': expected"):
        lakescan.table("local.db.t").append(ROWS)
    assert not list(tmp_path.rglob("*.parquet"))
    assert table.scan().count() == 0


def test_codecs_without_levels_ignore_a_level(local: lakescan.Catalog) -> None:
    made(local, "iceberg", **{"write.parquet.compression-codec": "snappy", "write.parquet.compression-level": "3"})
    table = lakescan.table("local.db.t")
    table.append(ROWS)
    table.append(ROWS, compression_codec="uncompressed")
    assert lakescan.table("local.db.t").scan().count() == 2 * len(ROWS)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed", "none"])
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_each_codec_of_the_option_is_written(local: lakescan.Catalog, format: str, codec: str) -> None:
    made(local, format)
    lakescan.table("local.db.t").append(ROWS, compression_codec=codec)
    assert rows(lakescan.table("local.db.t").scan().to_arrow()) == ROWS.to_pylist()


@pytest.mark.parametrize(
    "options", [{"compression_codec": "lzo"}, {"compression_codec": "gzip", "compression_level": 99}]
)
def test_unsupported_codec_options_are_refused(local: lakescan.Catalog, options: dict[str, Any]) -> None:
    made(local, "iceberg")
    with pytest.raises(lakescan.InvalidOption, match="gzip"):
        lakescan.table("local.db.t").append(ROWS, **options)


@pytest.mark.parametrize("value", ["false", "no", "0"])
def test_a_table_owns_its_files_only_if_gc_is_enabled(local: lakescan.Catalog, value: str) -> None:
    """As in Java, any value of `gc.enabled` other than `true` is false."""
    made(local, "iceberg")
    with local._catalog.load_table("db.t").transaction() as transaction:
        transaction.set_properties({"gc.enabled": value})
    for remove in (
        lambda: lakescan.table("local.db.t").expire_snapshots(),
        lambda: lakescan.table("local.db.t").remove_orphans(),
        lambda: local.drop_table("db.t", purge=True),
    ):
        with pytest.raises(lakescan.UnsupportedFeature, match=r"gc\.enabled is not true"):
            remove()
