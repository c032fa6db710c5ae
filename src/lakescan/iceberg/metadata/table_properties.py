"""The table properties of Iceberg that lakescan obeys, itself or through pyiceberg, and the check of new properties.

The specification allows any property. Properties that only configure other writers are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lakescan.common.option_values import boolean, integer, one_of, positive, whole
from lakescan.common.properties import Property, is_true
from lakescan.common.retries import RetryPolicy
from lakescan.errors import CorruptMetadata, InvalidOption, UnsupportedFeature
from lakescan.planning.split import ReadProperties
from lakescan.storage.encryption.table_keys import parse_key_length
from lakescan.storage.locations import split_location

_MODE = re.compile(r"(none|counts|full)|truncate\(\s*(\d+)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class MetricsMode:
    """The metrics to write for a column: `name` is none, counts, truncate or full; `length` is for truncate."""

    name: str
    length: int | None = None

    @staticmethod
    def parse(text: str) -> MetricsMode | None:
        """Parse a property value; return None for an invalid one, which Iceberg ignores."""
        match = _MODE.fullmatch(text.strip())
        if match is None or (match[2] is not None and int(match[2]) == 0):
            return None
        return MetricsMode("truncate", int(match[2])) if match[1] is None else MetricsMode(match[1].lower())

    @staticmethod
    def parse_strictly(text: str) -> MetricsMode:
        """Parse the property value of a new table; raises `ValueError` for an invalid one."""
        if (mode := MetricsMode.parse(text)) is None:
            raise ValueError("none, counts, truncate(16) with a number of characters, or full")
        return mode


NO_METRICS, DEFAULT_METRICS = MetricsMode("none"), MetricsMode("truncate", 16)


_LEVEL = re.compile(r"null|-?[0-9]+")
_COLUMN_METRICS = "write.metadata.metrics.column."
_CODECS = one_of("zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed", "none")
SERIALIZABLE, SNAPSHOT = "serializable", "snapshot"  # isolation levels
ISOLATION = one_of(SERIALIZABLE, SNAPSHOT)
_MODES = one_of("copy-on-write", "merge-on-read")
_DAY_MS = 24 * 60 * 60 * 1000


def _level(text: str) -> int | None:
    if _LEVEL.fullmatch(text.strip()) is None:
        raise ValueError("a whole number")
    return None if text.strip() == "null" else int(text)


def _path(text: str) -> str:
    # A relative path would mean another folder in each process.
    scheme, _, path = split_location(text)
    if not text.strip() or (scheme == "file" and not path.startswith("/")):
        raise ValueError("a folder's location: an absolute path, or one with a scheme")
    return text


class IcebergProperties(ReadProperties):
    """The properties of an Iceberg table. pyiceberg itself reads those marked "(pyiceberg)" when it commits."""

    # Data files
    file_format: Property[str] = Property("write.format.default", "parquet", str.lower, "format of data files")
    target_file_size: Property[int] = Property(
        "write.target-file-size-bytes", 512 * 2**20, positive, "target size of a data file in bytes"
    )
    distribution_mode: Property[str] = Property(
        "write.distribution-mode",
        "hash",
        str,
        "how rows of a Spark DataFrame are shuffled before they are written; range acts as hash",
        check=one_of("none", "hash", "range"),
    )
    codec: Property[str] = Property("write.parquet.compression-codec", "zstd", _CODECS, "codec of data files")
    compression_level: Property[int | None] = Property(
        "write.parquet.compression-level", None, _level, "compression level; null is the codec's default"
    )
    page_size: Property[int] = Property("write.parquet.page-size-bytes", 2**20, positive, "bytes of a page of data")
    row_group_rows: Property[int] = Property(
        "write.parquet.row-group-limit", 2**20, positive, "maximum rows of a row group"
    )
    row_group_size: Property[int | None] = Property(
        "write.parquet.row-group-size-bytes",
        None,
        positive,
        "size of a row group in memory, in bytes; by default, rows and file size decide",
    )
    # Delete files
    delete_mode: Property[str] = Property("write.delete.mode", "copy-on-write", _MODES, "how DELETE changes rows")
    update_mode: Property[str] = Property("write.update.mode", "copy-on-write", _MODES, "how UPDATE changes rows")
    merge_mode: Property[str] = Property("write.merge.mode", "copy-on-write", _MODES, "how MERGE changes rows")
    delete_granularity: Property[str] = Property(
        "write.delete.granularity",
        "file",
        one_of("file", "partition"),
        "whether a position delete file covers one data file or those of a partition",
    )
    upserts: Property[bool] = Property(
        "write.upsert.enabled",
        False,
        boolean,
        "whether appended rows replace rows with the same keys, as in Flink's writer",
    )
    target_delete_file_size: Property[int] = Property(
        "write.delete.target-file-size-bytes",
        64 * 2**20,
        positive,
        "target size of a position delete file in bytes",
    )
    delete_format: Property[str | None] = Property(
        "write.delete.format.default", None, str.lower, "format of delete files; by default, that of data files"
    )
    delete_codec: Property[str | None] = Property(
        "write.delete.parquet.compression-codec", None, _CODECS, "codec of delete files; by default, that of data files"
    )
    delete_compression_level: Property[int | None] = Property(
        "write.delete.parquet.compression-level", None, _level, "its compression level; null is the codec's default"
    )
    # Encryption
    encryption_key: Property[str | None] = Property(
        "encryption.key-id", None, str, "the id of the table's encryption key; it never changes"
    )
    data_key_length: Property[int] = Property(
        "encryption.data-key-length", 16, parse_key_length, "bytes of the keys of new files: 16, 24 or 32"
    )
    # Folders
    data_path: Property[str | None] = Property("write.data.path", None, _path, "the folder of new data files")
    metadata_path: Property[str | None] = Property(
        "write.metadata.path", None, str, "the folder of metadata files (pyiceberg)", check=_path
    )
    object_path: Property[str | None] = Property(
        "write.object-storage.path", None, _path, "the folder of data files (deprecated name)"
    )
    folder_path: Property[str | None] = Property(
        "write.folder-storage.path", None, _path, "the folder of data files (deprecated name)"
    )
    is_object_store: Property[bool] = Property(
        "write.object-storage.enabled", False, is_true, "whether hashes in paths spread data files", check=boolean
    )
    has_partitions_in_object_store: Property[bool] = Property(
        "write.object-storage.partitioned-paths", True, is_true, "whether these paths name partitions", check=boolean
    )
    # Metrics
    default_metrics: Property[MetricsMode | None] = Property(
        "write.metadata.metrics.default",
        None,
        MetricsMode.parse,
        "the metrics mode of columns without their own; invalid modes are ignored",
        check=MetricsMode.parse_strictly,
    )
    columns_with_metrics: Property[int] = Property(
        "write.metadata.metrics.max-inferred-column-defaults",
        100,
        integer,
        "how many columns have metrics if no default mode is set",
    )
    name_mapping: Property[str | None] = Property(
        "schema.name-mapping.default", None, str, "names of columns in files without field ids, as JSON"
    )
    # Metadata that commits write
    merges_manifests: Property[bool] = Property(
        "commit.manifest-merge.enabled", True, is_true, "whether commits merge small manifests", check=boolean
    )
    min_manifests_to_merge: Property[int] = Property(
        "commit.manifest.min-count-to-merge", 100, positive, "how many manifests it takes to merge them with new ones"
    )
    manifest_size: Property[int] = Property(
        "commit.manifest.target-size-bytes", 8 * 2**20, positive, "target size of a manifest in bytes"
    )
    retries: Property[int] = Property("commit.retry.num-retries", 4, whole, "how often a commit is retried")
    retry_min_wait_ms: Property[int] = Property(
        "commit.retry.min-wait-ms", 100, whole, "minimum wait before a retry, in ms"
    )
    retry_max_wait_ms: Property[int] = Property(
        "commit.retry.max-wait-ms", 60_000, whole, "maximum wait before a retry, in ms"
    )
    retry_timeout_ms: Property[int] = Property(
        "commit.retry.total-timeout-ms", 1_800_000, whole, "how long a commit is retried, in ms"
    )
    delete_isolation: Property[str] = Property(
        "write.delete.isolation-level", SERIALIZABLE, ISOLATION, "the isolation level of commits that delete rows"
    )
    update_isolation: Property[str] = Property(
        "write.update.isolation-level", SERIALIZABLE, ISOLATION, "the isolation level of commits that update rows"
    )
    merge_isolation: Property[str] = Property(
        "write.merge.isolation-level", SERIALIZABLE, ISOLATION, "the isolation level of commits that merge rows"
    )
    metadata_codec: Property[str] = Property(
        "write.metadata.compression-codec", "none", one_of("none", "gzip"), "codec of metadata files"
    )
    removes_metadata: Property[bool] = Property(
        "write.metadata.delete-after-commit.enabled",
        False,
        is_true,
        "whether commits remove old metadata files",
        check=boolean,
    )
    metadata_versions: Property[int] = Property(
        "write.metadata.previous-versions-max", 100, positive, "maximum entries of the metadata log (pyiceberg)"
    )
    partitions_in_summary: Property[int] = Property(
        "write.summary.partition-limit", 0, whole, "maximum partitions with counts in a snapshot's summary"
    )
    # For other writers and readers
    split_size_of_metadata: Property[int] = Property(
        "read.split.metadata-target-size", 32 * 2**20, positive, "target size of a task over metadata", is_kept=True
    )
    is_audited: Property[bool] = Property(
        "write.wap.enabled", False, boolean, "whether writers may stage rows for audit before publishing"
    )
    # Maintenance
    owns_files: Property[bool] = Property(
        "gc.enabled", True, is_true, "whether the table owns its files, so that they may be deleted", check=boolean
    )
    max_snapshot_age_ms: Property[int] = Property(
        "history.expire.max-snapshot-age-ms",
        5 * _DAY_MS,
        integer,
        "the age in ms beyond which snapshots expire",
        check=positive,
        error=CorruptMetadata,
    )
    min_snapshots: Property[int] = Property(
        "history.expire.min-snapshots-to-keep",
        1,
        integer,
        "minimum snapshots to keep on each branch",
        check=positive,
        error=CorruptMetadata,
    )
    max_ref_age_ms: Property[int] = Property(
        "history.expire.max-ref-age-ms",
        2**63 - 1,
        integer,
        "the age in ms beyond which branches and tags expire",
        check=positive,
        error=CorruptMetadata,
    )

    def metrics_of(self, column: str) -> MetricsMode | None:
        """Return the metrics mode that a property sets for a column, by its dotted name; None if unset or invalid."""
        return MetricsMode.parse(self.texts.get(f"{_COLUMN_METRICS}{column}", ""))

    def retry_policy(self, default: RetryPolicy) -> RetryPolicy:
        """Return the retry policy of commits from the properties `commit.retry.*`, or `default` if none is set."""
        if not any(name.startswith("commit.retry.") for name in self.texts):
            return default
        return RetryPolicy(
            self.retries + 1,
            self.retry_min_wait_ms / 1000,
            ceiling=self.retry_max_wait_ms / 1000,
            timeout=self.retry_timeout_ms / 1000,
        )

    @property
    def is_encrypted(self) -> bool:
        """Whether the table's files are encrypted."""
        return self.encryption_key is not None

    @property
    def folders(self) -> list[str]:
        """The values of the properties for folders of new data and metadata files, including obsolete properties."""
        named = (self.data_path, self.metadata_path, self.object_path, self.folder_path)
        return [each for each in named if each is not None]

    def check_obeyed(self) -> None:
        """Check the properties that every write depends on.

        Raises `InvalidOption` for an invalid value, `UnsupportedFeature` for a location provider class: lakescan runs
        no code that a table names.
        """
        if named := [name for name in _PROVIDERS if name in self.texts]:
            raise UnsupportedFeature(
                f"writing a table with '{named[0]}'={self.texts[named[0]]!r} ({self.where})",
                "Only Iceberg's own providers are supported: remove the property, or set write.data.path or "
                "write.object-storage.enabled.",
            )
        _ = (
            *(self.min_manifests_to_merge, self.manifest_size, self.data_path, self.columns_with_metrics),
            *(self.codec, self.compression_level, self.page_size, self.partitions_in_summary, self.target_file_size),
            *(self.row_group_rows, self.row_group_size),
        )


_PROVIDERS = ("write.location-provider.impl", "write.py-location-provider.impl")
# Metadata fields that the Java implementation exposes as properties; they cannot be set.
_RESERVED = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)


def check_properties(properties: Mapping[str, str], of: str = "a new table") -> None:
    """Check properties to set on a table, described by `of` in messages.

    Raises `InvalidOption` for an invalid value or a reserved name, `UnsupportedFeature` for a value without support.
    """
    declared = IcebergProperties.declarations()
    for name, value in properties.items():
        if name.startswith("encryption.") and name not in declared:
            known = f"{IcebergProperties.encryption_key.name} and {IcebergProperties.data_key_length.name}"
            raise UnsupportedFeature(f"'{name}' for {of}", f"The supported encryption properties are {known}.")
        if name in _RESERVED:
            raise InvalidOption(f"{name!r} cannot be set as a property: Iceberg keeps it in the table's metadata")
        if name == IcebergProperties.file_format.name and str(value).lower() != IcebergProperties.file_format.default:
            raise UnsupportedFeature(f"'{name}'={value!r} for {of}", "Files are written as Parquet.")
        if name in _PROVIDERS:
            raise UnsupportedFeature(f"'{name}' for {of}", "Only Iceberg's own providers are supported.")
        try:
            if name.startswith(_COLUMN_METRICS):
                MetricsMode.parse_strictly(str(value))
            elif name in declared:
                declared[name].check(str(value))
        except ValueError as error:
            raise InvalidOption(f"'{name}'={str(value)!r}: expected {error}") from error
