"""The options of compactions: those of writes, and those of Iceberg's `rewrite_data_files`, under the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from lakescan.common.option_values import ValueParser, boolean, names, one_of, parse_size, positive, terms
from lakescan.errors import InvalidOption
from lakescan.options.declaration import ICEBERG, Group, option
from lakescan.options.write import WriteOptions

_REWRITE = Group.REWRITE


def _share(value: Any) -> float:
    number = float(str(value).strip())
    if not 0 < number <= 1:
        raise ValueError(value)
    return number


_ratio = ValueParser(_share, "a number above 0, up to 1", "float | str")


@dataclass(frozen=True, repr=False, kw_only=True)
class CompactOptions(WriteOptions):
    """The parsed options of a compaction; None for an option that was not passed and has no default."""

    KIND: ClassVar[str] = "compaction option"
    WITHOUT: ClassVar[str] = "compact"
    UNSUPPORTED: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **WriteOptions.UNSUPPORTED,
        "rewrite_data_files": (
            "max-concurrent-file-group-rewrites",
            "partial-progress.max-failed-commits",
            "max-file-group-input-files",
            "max-files-to-rewrite",
            "rewrite-job-order",
            "compression-factor",
            "shuffle-partitions-per-file",
            "var-length-contribution",
            "max-output-size",
            "output-spec-id",
        ),
    }

    @classmethod
    def _other_side(cls) -> None:
        return None

    strategy: str = option(
        "strategy",
        one_of("binpack", "sort", "zorder"),
        "How rows are arranged: in any order (binpack), or sorted over all files of a partition, by columns (sort) or "
        "along a curve through several columns (zorder). Given without it, `sort-order` and `zorder-by` imply theirs.",
        _REWRITE,
        default="binpack",
    )
    sort_order: tuple[str, ...] = option(
        "sort-order",
        terms.describe("a string, or a list of them: country, days(ts) DESC NULLS LAST"),
        "The sort order of the strategy `sort`.",
        _REWRITE,
        default=(),
        unset="the table's sort order",
    )
    zorder_by: tuple[str, ...] = option(
        "zorder-by", names, "The columns of the strategy `zorder`.", _REWRITE, default=(), unset="none"
    )
    purge: bool = option(
        "purge",
        boolean,
        "Rewrite all files that have deletes, and no others (REORG TABLE ... APPLY (PURGE)).",
        _REWRITE,
        default=False,
    )
    rewrite_all: bool | None = option(
        "rewrite-all",
        boolean,
        "Rewrite all files, whatever their sizes and deletes.",
        _REWRITE,
        unset="true for the strategies `sort` and `zorder`, else false",
    )
    min_input_files: int | None = option(
        "min-input-files",
        positive,
        "The least number of files of wrong size in a partition for which they are rewritten.",
        _REWRITE,
        unset="2",
    )
    min_file_size_bytes: int | None = option(
        "min-file-size-bytes", parse_size, "Rewrite smaller files.", _REWRITE, unset="75% of the target file size"
    )
    max_file_size_bytes: int | None = option(
        "max-file-size-bytes", parse_size, "Rewrite larger files.", _REWRITE, unset="no maximum"
    )
    delete_file_threshold: int | None = option(
        "delete-file-threshold",
        positive,
        "Rewrite files that have at least as many delete files or deletion vectors.",
        _REWRITE,
        unset="1, unless `delete-ratio-threshold` is given",
    )
    delete_ratio_threshold: float | None = option(
        "delete-ratio-threshold",
        _ratio,
        "Rewrite files with at least this share of deleted rows, counting position deletes of only that file.",
        _REWRITE,
        unset="0.3",
    )
    max_file_group_size_bytes: int = option(
        "max-file-group-size-bytes",
        parse_size,
        "The maximum size of the files of a partition that are rewritten, and sorted, together, in bytes.",
        _REWRITE,
        default=100 * 2**30,
        unset="100g",
    )
    partial_progress_enabled: bool = option(
        "partial-progress.enabled",
        boolean,
        "Commit each group of files when it is rewritten. Commits stay if a later group fails.",
        _REWRITE,
        default=False,
    )
    partial_progress_max_commits: int = option(
        "partial-progress.max-commits",
        positive,
        "The maximum number of commits of a compaction with `partial-progress.enabled`.",
        _REWRITE,
        default=10,
    )
    use_starting_sequence_number: bool | None = option(
        "use-starting-sequence-number",
        boolean,
        "Whether new files have the sequence number of the snapshot that was read, so that equality deletes of "
        "concurrent commits apply to them. If false, such deletes are conflicts.",
        _REWRITE,
        ICEBERG,
        unset="true if the table has equality deletes, else false",
    )
    remove_dangling_deletes: bool = option(
        "remove-dangling-deletes",
        boolean,
        "Also remove deletes that apply to no data file. Deletes of only rewritten files are always removed.",
        _REWRITE,
        ICEBERG,
        default=False,
    )

    @classmethod
    def parse(cls, values: Mapping[str, object], format_name: str | None = None) -> Self:
        """Parse options; raises `InvalidOption` for errors as in writes, and for options that contradict each other.

        Without `strategy`, `zorder_by` or `sort_order` selects it. `format_name` is the table's format, if known.
        """
        options = super().parse(values, format_name)
        if options.is_staged:
            raise InvalidOption(
                "wap-id and wap-branch are for new rows only: to compact a branch, use the option branch"
            )
        if "strategy" not in map(str.lower, values) and (options.zorder_by or options.sort_order):
            options = replace(options, strategy="zorder" if options.zorder_by else "sort")
        if options.sort_order and options.strategy != "sort":
            raise InvalidOption("sort-order is for strategy=sort")
        if options.zorder_by and options.strategy != "zorder":
            raise InvalidOption("zorder-by is for strategy=zorder")
        if options.strategy == "zorder" and not options.zorder_by:
            raise InvalidOption("strategy=zorder needs zorder-by, the columns of the order")
        if options.purge and options.rewrite_all:
            raise InvalidOption("purge rewrites files with deletes, and rewrite-all every file: give only one")
        return options
