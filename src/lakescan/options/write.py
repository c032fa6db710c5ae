"""The options of writes, under the names of Iceberg, Delta and Spark; `options.read` says how names are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.common.option_values import boolean, integer, one_of, parse_size, positive, terms, text, whole
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest
from lakescan.options.read import normalised

_SNAPSHOT_PROPERTY, _TABLE_PROPERTY = "snapshot-property.", "table-property."
_MODES = one_of("static", "dynamic")
_CODECS = one_of("zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed", "none")


def _codec(value: Any) -> str:
    """Parse the name of a codec; None, which is not a name, raises."""
    return _CODECS(text(value))


# Each option: parser, formats that have it, description.
WRITE_OPTIONS: dict[str, tuple[Any, str, str]] = {
    "target-file-size-bytes": (parse_size, "both", "target size of a data file in bytes"),
    "maxRecordsPerFile": (positive, "both", "maximum rows of a data file"),
    "compression-codec": (_codec, "both", "codec of data files: zstd (Iceberg), snappy (Delta)"),
    "compression": (_codec, "delta", "another name of compression-codec"),
    "compression-level": (integer, "iceberg", "level of the codec"),
    "write-format": (one_of("parquet"), "iceberg", "format of data files: parquet"),
    "fanout-enabled": (boolean, "both", "keep the files of many partitions open, for rows in any order: true"),
    "distribution-mode": (
        one_of("none", "hash"),
        "iceberg",
        "hash: shuffle the rows of a Spark frame by partition before writing; none",
    ),
    "optimizeWrite": (boolean, "delta", "shuffle the rows by partition, if the table is partitioned: false"),
    "branch": (text, "iceberg", "the branch to commit to"),
    "merge-schema": (boolean, "both", "add columns that the table lacks: false"),
    "mergeSchema": (boolean, "both", "another name of merge-schema"),
    "overwriteSchema": (boolean, "both", "an overwrite replaces the table's schema by that of the rows (Delta): false"),
    "overwrite-mode": (_MODES, "both", "what overwrite replaces: static (all), dynamic (the partitions of the rows)"),
    "partitionOverwriteMode": (_MODES, "both", "another name of overwrite-mode"),
    "replaceWhere": (text, "both", "overwrite only the rows that match this filter; all new rows must match it"),
    "userMetadata": (text, "both", "text that is stored with the commit"),
    "txnAppId": (text, "both", "application id: a commit with the same txnAppId and txnVersion is made only once"),
    "txnVersion": (whole, "both", "the application's number of the commit, increasing"),
    "partition-by": (terms, "both", "partition transforms of a table to create: days(ts), bucket(16, id), country"),
    "checkpointLocation": (text, "both", "checkpoint of a stream; identifies the query"),
    "queryName": (text, "both", "name of a streaming query"),
    "format": (text, "both", "iceberg or delta, instead of detecting it"),
    "path": (text, "both", "the table's identifier or location"),
}
_REFUSED = (
    "dataChange",
    "replaceOn",
    "replaceUsing",
    "check-ordering",
    "check-nullability",
    "isolation-level",
    "validate-from-snapshot-id",
    "output-spec-id",
)
_BY_NAME = {normalised(name): name for name in WRITE_OPTIONS}


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, parsed."""

    overrides: Mapping[str, str] = field(default_factory=dict)  # under the names of Iceberg's table properties
    branch: str = "main"
    merge_schema: bool = False
    overwrite_schema: bool = False
    dynamic: bool = False
    replace_where: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    partition_by: tuple[str, ...] = ()
    table_properties: Mapping[str, str] = field(default_factory=dict)  # of a table to create

    @staticmethod
    def of(options: Mapping[str, Any], format_name: str) -> WriteOptions:
        """Parse options; raises `InvalidOption` for unknown names, bad values and options of the other format."""
        of_table = _prefixed(options, _TABLE_PROPERTY)
        properties = _prefixed(options, _SNAPSHOT_PROPERTY)
        parsed = _checked(options, format_name)
        if ("txnAppId" in parsed) != ("txnVersion" in parsed):
            raise InvalidOption("txnAppId and txnVersion must be given together")
        optimized = None if "optimizeWrite" not in parsed else "hash" if parsed["optimizeWrite"] else "none"
        codec = parsed.get("compression-codec", parsed.get("compression"))
        named = {
            "write.target-file-size-bytes": parsed.get("target-file-size-bytes"),
            "max-records-per-file": parsed.get("maxRecordsPerFile"),
            "write.parquet.compression-codec": codec,
            "write.parquet.compression-level": parsed.get("compression-level"),
            "write.format.default": parsed.get("write-format"),
            "fanout-enabled": parsed.get("fanout-enabled"),
            "write.distribution-mode": parsed.get("distribution-mode", optimized),
        }
        user = {} if "userMetadata" not in parsed else {"userMetadata": parsed["userMetadata"]}
        modes = (parsed.get("overwrite-mode"), parsed.get("partitionOverwriteMode"))
        return WriteOptions(
            overrides={name: str(value) for name, value in named.items() if value is not None},
            branch=parsed.get("branch", "main"),
            merge_schema=bool(parsed.get("merge-schema") or parsed.get("mergeSchema")),
            overwrite_schema=bool(parsed.get("overwriteSchema")),
            dynamic="dynamic" in modes,
            replace_where=parsed.get("replaceWhere"),
            properties={**properties, **user},
            transaction=(parsed["txnAppId"], parsed["txnVersion"]) if "txnAppId" in parsed else None,
            partition_by=parsed.get("partition-by", ()),
            table_properties=of_table,
        )

    def check_appends(self) -> None:
        """Raise `InvalidOption` for options that only overwrites have."""
        if self.overwrite_schema:
            raise InvalidOption("overwriteSchema is for overwrites only: to add columns in an append, use mergeSchema")

    def check_overwrites(self, where: object) -> None:
        """Raise `InvalidOption` if kinds of overwrites are combined; `where` is the filter of the overwrite or None."""
        if self.dynamic and where is not None:
            raise InvalidOption("replaceWhere and a dynamic overwrite both set what to replace: give only one")
        if self.overwrite_schema and (self.dynamic or where is not None or self.merge_schema):
            raise InvalidOption(
                "overwriteSchema needs an overwrite of the whole table: remove replaceWhere, dynamic, mergeSchema"
            )


def _prefixed(options: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """Return the options with that prefix, without it; in keywords the prefix may have `_` for `-`."""
    begins = (prefix, prefix.replace("-", "_"))
    return {name[len(prefix) :]: str(value) for name, value in options.items() if name.lower().startswith(begins)}


def _checked(options: Mapping[str, Any], format_name: str) -> dict[str, Any]:
    parsed = {}
    for name, value in options.items():
        if name.lower().replace("_", "-").startswith((_SNAPSHOT_PROPERTY, _TABLE_PROPERTY)):
            continue
        known = _BY_NAME.get(normalised(name))
        if known is None:
            raise _unknown(name)
        parse, formats, description = WRITE_OPTIONS[known]
        if formats not in ("both", format_name):
            raise InvalidOption(f"option {known!r} is for {formats} tables; this is a {format_name} table")
        try:
            parsed[known] = parse(value)
        except (TypeError, ValueError) as error:
            raise InvalidOption(
                f"option {known!r} ({description}) has the invalid value {value!r}; expected: {error}"
            ) from error
    return parsed


def _unknown(name: str) -> Exception:
    for theirs in _REFUSED:
        if normalised(theirs) == normalised(name):
            return UnsupportedFeature(f"write option {theirs!r}", "Remove the option to write without it.")
    suggestion = nearest(name, [*WRITE_OPTIONS, *_REFUSED])
    return InvalidOption(f"unknown write option {name!r}.{suggestion} Valid: {', '.join(WRITE_OPTIONS)}")
