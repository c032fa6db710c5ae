"""The options of writes: the ecosystem's own names, checked; see `lakescan.options.read` for how names are compared."""

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
    """A codec's name; None is none."""
    return _CODECS(text(value))


# Each option: how its value is read, the formats that have it, what it does.
WRITE_OPTIONS: dict[str, tuple[Any, str, str]] = {
    "target-file-size-bytes": (parse_size, "both", "bytes past which a file ends"),
    "maxRecordsPerFile": (positive, "both", "rows of a file at most"),
    "compression-codec": (_codec, "both", "of data files: zstd (Iceberg), snappy (Delta)"),
    "compression": (_codec, "delta", "another name of compression-codec"),
    "compression-level": (integer, "iceberg", "of the codec"),
    "write-format": (one_of("parquet"), "iceberg", "parquet"),
    "fanout-enabled": (boolean, "both", "keep the files of many partitions open, for rows in any order: true"),
    "distribution-mode": (
        one_of("none", "hash"),
        "iceberg",
        "hash: rows of a Spark frame are brought together by partition before they are written; none",
    ),
    "optimizeWrite": (boolean, "delta", "the same, of a partitioned table: false"),
    "branch": (text, "iceberg", "the branch to commit to"),
    "merge-schema": (boolean, "both", "add columns that the table does not have: false"),
    "mergeSchema": (boolean, "both", "another name of merge-schema"),
    "overwriteSchema": (boolean, "both", "overwrite gives the table the columns of the rows (Delta): false"),
    "overwrite-mode": (_MODES, "both", "what overwrite replaces: static (all), dynamic (the partitions of the rows)"),
    "partitionOverwriteMode": (_MODES, "both", "another name of overwrite-mode"),
    "replaceWhere": (text, "both", "overwrite replaces the rows of this filter, which all new rows have to match"),
    "userMetadata": (text, "both", "a text that is kept with the commit"),
    "txnAppId": (text, "both", "with txnVersion: commit once, whatever is repeated"),
    "txnVersion": (whole, "both", "the application's own number of the commit, which grows"),
    "partition-by": (terms, "both", "partitions of a table that is made: days(ts), bucket(16, id), country"),
    "checkpointLocation": (text, "both", "of a stream: says which query it is"),
    "queryName": (text, "both", "of a stream"),
    "format": (text, "both", "iceberg or delta, where it should not be detected"),
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
    """What options say of a write."""

    overrides: Mapping[str, str] = field(default_factory=dict)  # by the names of Iceberg's properties
    branch: str = "main"
    merge_schema: bool = False
    overwrite_schema: bool = False
    dynamic: bool = False
    replace_where: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    partition_by: tuple[str, ...] = ()
    table_properties: Mapping[str, str] = field(default_factory=dict)  # of a table that is made

    @staticmethod
    def of(options: Mapping[str, Any], format_name: str) -> WriteOptions:
        """Raises `InvalidOption` for unknown names, bad values and options of the other format."""
        of_table = _prefixed(options, _TABLE_PROPERTY)
        properties = _prefixed(options, _SNAPSHOT_PROPERTY)
        said = _checked(options, format_name)
        if ("txnAppId" in said) != ("txnVersion" in said):
            raise InvalidOption("txnAppId and txnVersion go together: give both")
        optimized = None if "optimizeWrite" not in said else "hash" if said["optimizeWrite"] else "none"
        codec = said.get("compression-codec", said.get("compression"))
        named = {
            "write.target-file-size-bytes": said.get("target-file-size-bytes"),
            "max-records-per-file": said.get("maxRecordsPerFile"),
            "write.parquet.compression-codec": codec,
            "write.parquet.compression-level": said.get("compression-level"),
            "write.format.default": said.get("write-format"),
            "fanout-enabled": said.get("fanout-enabled"),
            "write.distribution-mode": said.get("distribution-mode", optimized),
        }
        user = {} if "userMetadata" not in said else {"userMetadata": said["userMetadata"]}
        modes = (said.get("overwrite-mode"), said.get("partitionOverwriteMode"))
        return WriteOptions(
            overrides={name: str(value) for name, value in named.items() if value is not None},
            branch=said.get("branch", "main"),
            merge_schema=bool(said.get("merge-schema") or said.get("mergeSchema")),
            overwrite_schema=bool(said.get("overwriteSchema")),
            dynamic="dynamic" in modes,
            replace_where=said.get("replaceWhere"),
            properties={**properties, **user},
            transaction=(said["txnAppId"], said["txnVersion"]) if "txnAppId" in said else None,
            partition_by=said.get("partition-by", ()),
            table_properties=of_table,
        )

    def check_appends(self) -> None:
        """Raises `InvalidOption` for what only overwrites do."""
        if self.overwrite_schema:
            raise InvalidOption("overwriteSchema is for overwrites: mergeSchema adds columns with an append")

    def check_overwrites(self, where: object) -> None:
        """Raises `InvalidOption` where one asks for more than one kind of overwrite; `where` are the rows it is of."""
        if self.dynamic and where is not None:
            raise InvalidOption("replaceWhere and dynamic overwrites are two ways to say what is replaced: give one")
        if self.overwrite_schema and (self.dynamic or where is not None or self.merge_schema):
            raise InvalidOption(
                "overwriteSchema goes with overwrites of the whole table: without replaceWhere, dynamic, mergeSchema"
            )


def _prefixed(options: Mapping[str, Any], prefix: str) -> dict[str, str]:
    """The options whose names begin so, by the rest of their names; keywords may have `_` for `-`."""
    begins = (prefix, prefix.replace("-", "_"))
    return {name[len(prefix) :]: str(value) for name, value in options.items() if name.lower().startswith(begins)}


def _checked(options: Mapping[str, Any], format_name: str) -> dict[str, Any]:
    said = {}
    for name, value in options.items():
        if name.lower().replace("_", "-").startswith((_SNAPSHOT_PROPERTY, _TABLE_PROPERTY)):
            continue
        known = _BY_NAME.get(normalised(name))
        if known is None:
            raise _unknown(name)
        parse, formats, does = WRITE_OPTIONS[known]
        if formats not in ("both", format_name):
            raise InvalidOption(f"option {known!r} is for {formats} tables; this is a {format_name} table")
        try:
            said[known] = parse(value)
        except (TypeError, ValueError) as error:
            raise InvalidOption(f"option {known!r} has the value {value!r}: {does} ({error})") from error
    return said


def _unknown(name: str) -> Exception:
    for theirs in _REFUSED:
        if normalised(theirs) == normalised(name):
            return UnsupportedFeature(f"write option {theirs!r}", "Remove the option to write without it.")
    suggestion = nearest(name, [*WRITE_OPTIONS, *_REFUSED])
    return InvalidOption(f"unknown write option {name!r}.{suggestion} Valid: {', '.join(WRITE_OPTIONS)}")
