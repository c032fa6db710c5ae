"""The options of writes, under the names that Iceberg, Delta and Spark use.

A declaration here adds an option to `Table.append`, `Table.overwrite`, `Table.compact`, `lakescan.save`, `df.write` and
`df.writeStream`. `scripts/options_doc.py` generates the keywords and the documentation from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from lakescan.common.option_values import (
    ValueParser,
    boolean,
    integer,
    one_of,
    parse_size,
    positive,
    secrets,
    snapshot,
    terms,
    text,
    whole,
)
from lakescan.errors import InvalidOption
from lakescan.options.declaration import DELTA, ICEBERG, Group, OptionSet, option, prefix_option
from lakescan.options.session_settings import NO_SESSION, SessionSettings

MODE, FILES, COMMIT, CREATE, OPENING = Group.MODE, Group.FILES, Group.COMMIT, Group.CREATE, Group.OPENING
_MODES = one_of("static", "dynamic")
_CODECS = one_of("zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed", "none")
_UPSERTS = "upsert-mode is for Table.upsert and lakescan.spark.upsert_sink"


@dataclass(frozen=True, repr=False, kw_only=True)
class WriteOptions(OptionSet):
    """The parsed options of a write; None for an option that was not passed and has no default.

    `session` has the settings of the Spark session that the rows come from, if any.
    """

    KIND: ClassVar[str] = "write option"
    WITHOUT: ClassVar[str] = "write"
    UNSUPPORTED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "write": (
            "replaceOn",
            "replaceUsing",
            "check-ordering",
            "check-nullability",
            "output-spec-id",
        )
    }

    @classmethod
    def _other_side(cls) -> type[OptionSet] | None:
        from lakescan.options.read import ReadOptions

        return ReadOptions

    session: SessionSettings = NO_SESSION  # the session that the rows come from; not an option
    save_mode: str | None = None  # Spark's save mode that a new table records in its history; not an option
    output_mode: str | None = None  # Spark's output mode of the stream that the rows come from; not an option

    # What a write does
    overwrite_mode: str = option(
        "overwrite-mode",
        _MODES,
        "What an overwrite replaces: all rows (static), or the partitions of the new rows (dynamic).",
        MODE,
        default="static",
        aliases={"partitionOverwriteMode": ("iceberg", "delta")},
    )
    replace_where: str | None = option(
        "replaceWhere",
        text.describe("a filter, a string"),
        "Overwrite only the rows that match this filter. All new rows must match it.",
        MODE,
    )
    merge_schema: bool = option(
        "mergeSchema",
        boolean,
        "Add the columns and members of structs that the table lacks, and widen types.",
        MODE,
        default=False,
    )
    overwrite_schema: bool = option(
        "overwriteSchema",
        boolean,
        "Replace the table's schema by that of the rows, and its partitions by `partition-by`.",
        MODE,
        default=False,
    )
    data_change: bool = option(
        "dataChange",
        boolean,
        "Whether an append or overwrite changes rows. `false` is for writes that only move rows to other files: "
        "streams and change feeds skip the commit. Streaming writes ignore the option.",
        MODE,
        DELTA,
        default=True,
    )
    branch: str = option(
        "branch",
        text.describe("the name of a branch, a string"),
        "The branch to commit to.",
        MODE,
        ICEBERG,
        default="main",
    )

    wap_id: str | None = option(
        "wap-id",
        text.describe("an id, a string"),
        "Stage the rows of a table with `write.wap.enabled` under this id: nobody reads them before `Table.publish`. "
        "Writes from Spark also take the session's setting `spark.wap.id`.",
        MODE,
        ICEBERG,
    )
    wap_branch: str | None = option(
        "wap-branch",
        text.describe("the name of a branch, a string"),
        "The branch to commit to instead of `main`, in a table with `write.wap.enabled`, until "
        "`Table.fast_forward`. Writes from Spark also take the session's setting `spark.wap.branch`.",
        MODE,
        ICEBERG,
    )
    isolation_level: str | None = option(
        "isolation-level",
        one_of("serializable", "snapshot"),
        "Whether a concurrent commit conflicts (serializable) or not (snapshot) if it adds rows to the data that an "
        "overwrite replaces, or that a DELETE, UPDATE or MERGE reads.",
        MODE,
        ICEBERG,
        unset="serializable; for row changes the table property `write.delete.isolation-level`, "
        "`write.update.isolation-level` or `write.merge.isolation-level`",
    )
    row_change_mode: str | None = option(
        "row-change-mode",
        one_of("merge-on-read", "copy-on-write"),
        "How DELETE, UPDATE and MERGE change rows: by delete files and deletion vectors (merge-on-read), or by writing "
        "the files of changed rows again (copy-on-write).",
        MODE,
        unset="Iceberg: table property `write.delete.mode`, `write.update.mode` or `write.merge.mode`, else "
        "copy-on-write; Delta: merge-on-read if `delta.enableDeletionVectors` is true, else copy-on-write",
    )
    memory_limit: int | None = option(
        "memory-limit",
        parse_size,
        "The memory, in bytes, that the query of a DELETE, UPDATE or MERGE takes in this process. Rows beyond it "
        "wait in files in the temporary directory.",
        MODE,
        unset="80% of the machine's memory",
    )
    upsert_mode: str | None = option(
        "upsert-mode",
        one_of("merge", "equality"),
        "How rows are upserted: by reading the table's keys (merge), or without reading, by equality delete files "
        "(equality), which readers apply until `Table.convert_equality_deletes` or `Table.compact`.",
        MODE,
        ICEBERG,
        unset="merge; for streams without a table sequence column, equality if table property `write.upsert.enabled` "
        "is true",
    )
    validate_from_snapshot_id: int | None = option(
        "validate-from-snapshot-id",
        snapshot,
        "The snapshot from which the new rows of an overwrite or a row change were derived. The write is checked for "
        "conflicts with all later commits.",
        MODE,
        ICEBERG,
        unset="the snapshot that is current when the write begins",
    )

    # Data files
    target_file_size_bytes: int | None = option(
        "target-file-size-bytes",
        parse_size,
        "The target size of a data file, in bytes.",
        FILES,
        unset="Iceberg: table property `write.target-file-size-bytes`, else 512m; "
        "Delta: table property `delta.targetFileSize`, else 128m",
    )
    max_records_per_file: int | None = option(
        "maxRecordsPerFile", positive, "The maximum number of rows of a data file.", FILES
    )
    compression_codec: str | None = option(
        "compression-codec",
        ValueParser(lambda value: _CODECS(text(value)), _CODECS.expects, "str"),
        "The codec of data files.",
        FILES,
        unset="Iceberg: table property `write.parquet.compression-codec`, else zstd; "
        "Delta: table property `delta.parquet.compression.codec`, else snappy",
        aliases={"compression": DELTA},
    )
    compression_level: int | None = option(
        "compression-level",
        integer,
        "The codec's level.",
        FILES,
        ICEBERG,
        unset="table property `write.parquet.compression-level`, else the codec's own",
    )
    write_format: str | None = option(
        "write-format",
        one_of("parquet"),
        "The format of data files.",
        FILES,
        ICEBERG,
        unset="table property `write.format.default`, else parquet",
    )
    fanout_enabled: bool = option(
        "fanout-enabled",
        boolean,
        "Keep the files of many partitions open, so that rows may arrive in any order.",
        FILES,
        default=True,
    )
    distribution_mode: str | None = option(
        "distribution-mode",
        one_of("none", "hash"),
        "Whether the rows of a Spark frame are shuffled by partition before they are written (hash).",
        FILES,
        ICEBERG,
        unset="table property `write.distribution-mode`, else hash",
    )
    optimize_write: bool | None = option(
        "optimizeWrite",
        boolean,
        "Whether the rows of a Spark frame are shuffled by partition before they are written. It has no effect on "
        "`df.write`, since Spark does not shuffle for Python data sources; `Table.append` shuffles.",
        FILES,
        DELTA,
        unset="table property `delta.autoOptimize.optimizeWrite`, else false",
    )

    # The commit
    user_metadata: str | None = option("userMetadata", text, "Text to store with the commit.", COMMIT)
    snapshot_properties: Mapping[str, str] = prefix_option(
        "snapshot-property.NAME", "A property to store with the commit.", COMMIT
    )
    txn_app_id: str | None = option(
        "txnAppId",
        text,
        "The id of an application, of which each transaction (`txnVersion`) is committed only once.",
        COMMIT,
    )
    txn_version: int | None = option(
        "txnVersion", whole, "The number of the application's transaction; must increase.", COMMIT
    )
    checkpoint_location: str | None = option(
        "checkpointLocation",
        text.describe("a location"),
        "The stream's checkpoint, which identifies the stream.",
        COMMIT,
    )
    query_name: str | None = option("queryName", text, "The stream's name.", COMMIT)

    # New tables
    partition_by: tuple[str, ...] = option(
        "partition-by",
        terms,
        "The partitioning of a new table, or of a table overwritten with `overwriteSchema`. In other writes it must be "
        "the same as the table's.",
        CREATE,
        default=(),
        unset="a new table: unpartitioned",
    )
    table_properties: Mapping[str, str] = prefix_option("table-property.NAME", "A property of a new table.", CREATE)

    # Where the table is
    path: str | None = option("path", text.describe("a name or a location"), "The table to write to.", OPENING)
    format: str | None = option(
        "format",
        text.describe("iceberg or delta"),
        "The format of a new table.",
        OPENING,
        unset="the table's format; for a new name in a catalog, iceberg",
    )
    storage_options: Mapping[str, Any] | None = option(
        "storage-options", secrets, "Settings of the filesystem.", OPENING
    )

    @classmethod
    def parse(cls, values: Mapping[str, object], format_name: str | None = None) -> Self:
        """Parse options, and check them against the format of the table (`format_name`) if it is known.

        Raises `InvalidOption` for unknown names, invalid values, contradictions, and options of the other format.
        """
        options = super().parse(values)
        if format_name is not None:
            options.check_format(format_name)
        if (options.txn_app_id is None) != (options.txn_version is None):
            raise InvalidOption("txnAppId and txnVersion must be given together")
        options.check_staging()
        return options

    @property
    def is_dynamic(self) -> bool:
        """Whether an overwrite replaces only the partitions of the new rows (overwrite-mode=dynamic)."""
        return self.overwrite_mode == "dynamic"

    @property
    def transaction(self) -> tuple[str, int] | None:
        """The application id and transaction number of the write, which is committed only once; None if not set."""
        if self.txn_app_id is None or self.txn_version is None:
            return None
        return self.txn_app_id, self.txn_version

    @property
    def commit_properties(self) -> Mapping[str, str]:
        """The properties to store with the commit, as text by name: those of the options, and `userMetadata`."""
        user = {} if self.user_metadata is None else {"userMetadata": self.user_metadata}
        return {**self.snapshot_properties, **user}

    def check_staging(self) -> None:
        """Raise `InvalidOption` if options contradict each other on how rows are staged, such as id and branch."""
        if self.wap_id is not None and self.wap_branch is not None:
            raise InvalidOption("wap-id and wap-branch both set how rows are staged: give only one")
        if self.wap_branch is not None and self.branch not in ("main", self.wap_branch):
            raise InvalidOption("branch and wap-branch both set the branch to write to: give only one")
        if self.wap_id is not None and (self.transaction is not None or self.checkpoint_location is not None):
            raise InvalidOption(
                "wap-id is not for streams and for writes with txnAppId: whether a staged transaction was committed is "
                "known only once it is published. Use wap-branch"
            )

    @property
    def is_staged(self) -> bool:
        """Whether rows are staged for an audit before they are published: under an id, or in a branch."""
        return self.wap_id is not None or self.wap_branch is not None

    def apply_session(self, session: SessionSettings) -> Self:
        """Return these options with the settings of the session that the rows come from."""
        return replace(self, session=session)

    def apply_session_staging(self) -> Self:
        """Return these options, staged as the session sets unless set here, for a table with `write.wap.enabled`.

        As in Iceberg's Spark writer, the option `branch` takes precedence over the session's branch. Raises
        `InvalidOption` if the session sets both an id and a branch, or an id for a stream.
        """
        if self.is_staged or self.session == self.session.options_only:
            return self
        if "branch" in self.given:
            staged = replace(self, wap_id=self.session.wap_id)
        else:
            self.session.check()
            staged = replace(self, wap_id=self.session.wap_id, wap_branch=self.session.wap_branch)
        staged.check_staging()
        return staged

    def check_changes(self, *, upserts: bool = False) -> None:
        """Raise `InvalidOption` for options that DELETE, UPDATE and MERGE do not have, such as those of overwrites.

        With `upserts`, options of upserts are allowed, too.
        """
        if self.upsert_mode is not None and not upserts:
            raise InvalidOption(_UPSERTS)
        for name, is_given in (
            ("replaceWhere", self.replace_where is not None),
            ("overwrite-mode", self.overwrite_mode is not None and self.is_dynamic),
            ("overwriteSchema", self.overwrite_schema),
            ("dataChange", not self.data_change),
        ):
            if is_given:
                raise InvalidOption(
                    f"{name} is for overwrites only: the condition of a statement selects the rows to change"
                )

    def check_new_table(self) -> None:
        """Raise `InvalidOption` for options that the first rows of a table cannot have: a branch, dataChange=false."""
        if self.branch != "main":
            raise InvalidOption("branch: a new table gets its first rows in the branch main")
        if not self.data_change:
            raise InvalidOption("dataChange=false is for writes that only move rows: there is no table yet")

    def check_appends(self) -> None:
        """Raise `InvalidOption` for options that appends do not have."""
        self._check_rows_stay()
        if self.isolation_level is not None or self.validate_from_snapshot_id is not None:
            raise InvalidOption("isolation-level and validate-from-snapshot-id are for overwrites only")
        if self.overwrite_schema:
            raise InvalidOption("overwriteSchema is for overwrites only: to add columns in an append, use mergeSchema")

    def check_overwrites(self, where: object) -> None:
        """Raise `InvalidOption` if options ask for two kinds of overwrites: of partitions, by filter, or of the schema.

        `where` is the overwrite's filter, or None.
        """
        self._check_rows_stay()
        if self.is_dynamic and where is not None:
            raise InvalidOption("replaceWhere and a dynamic overwrite both set what to replace: give only one")
        if self.overwrite_schema and (self.is_dynamic or where is not None or self.merge_schema):
            raise InvalidOption(
                "overwriteSchema needs an overwrite of the whole table: remove replaceWhere, dynamic, mergeSchema"
            )

    def _check_rows_stay(self) -> None:
        if self.row_change_mode is not None or self.memory_limit is not None:
            raise InvalidOption("row-change-mode and memory-limit are for delete, update, merge and upsert only")
        if self.upsert_mode is not None:
            raise InvalidOption(_UPSERTS)
