"""Choose the lane of each file: Spark's own Parquet reader (native) where it is exact, Arrow elsewhere.

Spark's reader is exact for columns of plain types, and for structs, lists and maps of them, found by field id or by
physical name. Files that it would read differently or not at all use the Arrow lane: correctness comes before speed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.metadata_columns import FILE, LAST_UPDATED, PARTITION_ID, POS, RESERVED_IDS, ROW_ID, SPEC_ID
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.plan import ScanPlan
from lakescan.spark.native.columns import has_members, mark_of
from lakescan.spark.native.filesystems import STORES, has_filesystem, root_for_spark
from lakescan.spark.native.footers import (
    FooterFacts,
    NamedColumns,
    ids_by_settled_name,
    lacking_codecs,
    read_footer_facts,
    sample_files,
    why_footers,
)
from lakescan.spark.session import conf
from lakescan.storage.locations import normalize, split_location, store_of, strip_roots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakescan.reading.context import ReadContext
    from lakescan.tables.scan_spec import ScanSpec

_PLAIN = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.DATE, t.STRING, t.BINARY)
MOST_DIGITS = 18  # of decimals that fit into 64 bits
LINEAGE = frozenset({ROW_ID.id, LAST_UPDATED.id})  # metadata columns that files may have
_ROOT = r"(?s)^(?:([a-zA-Z][a-zA-Z0-9+.-]+:(?://[^/]*)?)|).*$"
_MOST_ROOTS = 16  # buckets of one scan that are probed
_GLOB = r"[\[\]{}*?\\]"
_COLON = r"[:\x00-\x1f\x7f]"  # Hadoop parses text before a colon as a scheme; URIs have no control characters
_HIDDEN = r"(/|^)([_.][^/]*|[^/]*\._COPYING_)$"
_MOST_ROWS = 512 * 2**20  # of files with deletes: one bit per row, sent to every task


@dataclass(frozen=True)
class _FileLimits:
    """The maximum number of native files: `small` if their mean size is below `bytes`, else `large`."""

    small: int
    large: int
    bytes: int


# Spark looks up the status of every path before it reads, and keeps all of them: 0.3 ms and 1 KB of driver memory per
# file. Arrow also opens small files faster: it read 100,000 files of 1 KB in 72 s, Spark's reader in 188 s.
_OF_FOLDERS = _FileLimits(10_000, 200_000, 2**20)
# An object store takes three requests per file, two of them in sequence, as long as it takes to decode 8 MB.
_OF_STORES = _FileLimits(100, 10_000, 2**23)
LEAST_IN_STORES = 2**28  # bytes; with 100 MB in eight files, the look-up took 0.8 s more, and reading 0.5 s less
# Footers that are read to find codecs, and to find files without field ids in tables that have such files.
_MOST_FOOTERS, _MOST_FOOTERS_IN_STORES = 64, 16
_MOST_MAPPED, _MOST_MAPPED_IN_STORES = 4_000, 400
_MOST_LAYOUTS = 32  # each layout, with other column names, is a separate relation
_CONVERTS_INT96 = "spark.sql.parquet.int96TimestampConversion"
_NO_ROOTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Layout:
    """The table's columns by field id; their physical names are the names in a group of files of the `file_format`."""

    columns: Mapping[int, t.Field]
    file_format: str


@dataclass(frozen=True)
class Lanes:
    """The lane of each file of a plan: native (Spark's own reader) or Arrow.

    - `native`: a mask of the native files.
    - `why`: an Arrow array with the reason for the Arrow lane of each file; empty for native files.
    - `roots`: maps schemes with authorities (`s3://bucket`) to their names in Spark, if these differ.
    - `layout`: for files whose columns Spark finds by name (files without field ids, ORC files), the index in
      `layouts`; -1 for other files.
    """

    native: np.ndarray
    why: pa.Array
    roots: Mapping[str, str]
    layout: np.ndarray
    layouts: tuple[Layout, ...] = ()

    @property
    def reasons(self) -> dict[str, int]:
        """The reasons for the Arrow lane, each with the number of its files."""
        return dict(Counter(reason for reason in self.why.to_pylist() if reason))

    @property
    def files_by_name(self) -> int:
        """The number of native files that are read by the names of their columns."""
        return int((self.layout[self.native] >= 0).sum())


def why_arrow(scan: ScanSpec) -> str | None:
    """Return the reason why no file of a scan can use the native lane, whatever its plan; None without a reason."""
    if scan.options.lane == "arrow":
        return "the option lane is arrow"
    if scan.lane == "arrow":
        return "vectorized reads are switched off, by an option or a property of the table"
    if scan.storage.is_issued:
        return "the catalog issues temporary credentials, which Spark does not have"
    read = scan.read_context().columns_for(scan.filter).fields
    known = {FILE.id, POS.id, SPEC_ID.id, PARTITION_ID}
    if not scan.read_context().matching.ids_required:  # row lineage has no field ids in Delta's id mode
        known |= LINEAGE
    if others := [f.name for f in read if f.id in RESERVED_IDS and f.id not in known]:
        return f"the metadata column {others[0]}"
    if why := next((why for f in read if f.id == PARTITION_ID and (why := _why_partition(f)) is not None), None):
        return why
    names = scan.snapshot.schema.names
    if "_metadata" in names:
        return "a column has the name of Spark's metadata column, _metadata"
    if len({name.lower() for name in names}) < len(names):
        return "column names differ only in case"
    for field in columns_needed(scan):
        if field.id in LINEAGE:
            continue
        whole = scan.read_context().table_schema.by_id[field.id]
        if not _has_distinct_members(whole.type):
            return f"members of column {field.name!r} have names that differ only in case"
        if (why := _why_type(field)) is not None:
            return why
    return None


def _why_names(scan: ScanSpec) -> str | None:
    """Return why a scan's columns must be found by the names that they have in each file; None if field ids are enough.

    Spark finds the fields of a struct under the column's name, even if it finds the column by its id.
    """
    matching = scan.read_context().matching
    for field in columns_needed(scan):
        if matching.by_id and has_members(field.type) and field.id not in matching.settled:
            return f"column {field.name!r} may have another name in files"
    return None


def _why_partition(column: t.Field) -> str | None:
    """Return why Spark cannot make the metadata column of partition values, a struct; None if it can."""
    assert isinstance(column.type, t.Struct)
    if not column.type.fields:
        return f"the metadata column {column.name} of a table without partitions"
    if len({each.name.lower() for each in column.type.fields}) < len(column.type.fields):
        return f"two partition fields have the same name in the metadata column {column.name}"
    other = next((each for each in column.type.fields if not _is_plain(each.type)), None)
    return None if other is None else f"the metadata column {column.name} has a value of type {other.type}"


def columns_needed(scan: ScanSpec, compared: Iterable[int] = ()) -> tuple[t.Field, ...]:
    """Return the columns to read from files: those of the output, of the filter, and of equality deletes.

    `compared` are the field ids that equality deletes compare. Structs have only the members that are needed. Of the
    metadata columns, only those of row lineage are returned.
    """
    columns = scan.read_context().columns_for(scan.filter, compared)
    return tuple(f for f in columns.fields if f.id not in RESERVED_IDS or f.id in LINEAGE)


def _why_type(field: t.Field) -> str | None:
    if not _is_plain(field.type):
        return f"column {field.name!r} is of type {field.type}"
    if any(each.width for each in t.walk((field,))):
        return f"column {field.name!r} contains CHAR(n), which is padded"
    if field.default is not None and not _has_default_in_spark(field.type):
        return f"column {field.name!r} has a default of type {field.type}"
    return None


def _has_default_in_spark(kind: t.Type) -> bool:
    """Return whether Spark's readers apply defaults of a type; its vectorized reader does not for some types."""
    if isinstance(kind, t.Decimal):
        return kind.precision <= MOST_DIGITS
    return kind != t.BINARY and not isinstance(kind, t.Struct | t.ListOf | t.MapOf | t.Fixed)


def _is_plain(kind: t.Type) -> bool:
    match kind:
        case t.Struct():
            return all(_is_plain(f.type) and f.default is None for f in kind.fields) and len(kind.fields) > 0
        case t.ListOf():
            return _is_plain(kind.element.type)
        case t.MapOf():
            return _is_plain(kind.key.type) and _is_plain(kind.value.type)
        case t.Timestamp():
            return kind.unit == "us"
        case t.Decimal() | t.Fixed():
            return True
    return kind in _PLAIN


def _has_distinct_members(kind: t.Type) -> bool:
    """Return whether the members of every struct in a type, read or not, have names that differ ignoring case."""
    if isinstance(kind, t.Struct) and len({f.name.lower() for f in kind.fields}) < len(kind.fields):
        return False
    return all(_has_distinct_members(f.type) for f in t.children(kind))


def choose_lanes(scan: ScanSpec, plan: ScanPlan, spark: SparkSession | None, *, looks_up: bool = True) -> Lanes:
    """Choose the lane of each file of a plan for a session; reads at most a limited number of footers.

    Without a session, files in object stores are for the Arrow lane. `looks_up` is whether Spark gets paths, and looks
    up each file before reading, which limits the number of files. Otherwise it gets the files themselves
    (`file_index.py`).
    """
    files, count = plan.files, len(plan.table)
    why = _LaneReasons(count)
    if (reason := why_arrow(scan)) is not None:
        why.add_reason(np.ones(count, dtype=bool), reason)
        return why.lanes()
    is_orc = _mask(pc.equal(files["file_format"], "orc"))
    for file_format in ("orc", "avro") if looks_up else ("avro",):
        why.add_reason(_mask(pc.equal(files["file_format"], file_format)), f"its file format is {file_format.upper()}")
    why.add_reason(_mask(pc.is_valid(files["key_metadata"])), "it has key metadata, so it may be encrypted")
    context = scan.read_context()
    paths = pa.array([context.storage.current_location(path) for path in files["path"].to_pylist()], pa.string())
    places = normalize(paths)
    if looks_up:
        why.add_reason(_mask(pc.match_substring_regex(paths, _GLOB)), "Spark interprets its path as a glob pattern")
        why.add_reason(
            _mask(pc.match_substring_regex(paths, _HIDDEN)), "Spark skips it as a hidden file, because of its name"
        )
        counts = places.value_counts()
        again = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
        why.add_reason(_mask(pc.is_in(places, value_set=again)), "it is read more than once")
    why.add_reason(~_mask(pc.equal(strip_roots(paths), strip_roots(places))), "Spark normalizes its path differently")
    why.add_reason(
        _mask(pc.match_substring_regex(strip_roots(paths), _COLON)), "its path has a colon or a control character"
    )
    _add_delete_reasons(scan, plan, why)
    roots = _find_roots(scan, paths, files["size"], spark, why, looks_up=looks_up)
    limits = _OF_STORES if roots else _OF_FOLDERS
    most = limits.small if _mean_size(plan, why.native) < limits.bytes else limits.large
    if looks_up and why.native.sum() > most:
        small = "small " if most == limits.small else ""
        why.add_reason(
            why.native.copy(), f"there are more than {most:,} {small}files, and Spark looks up each of them first"
        )
    readable = ~_is_only_sparks(paths)
    named = _LayoutFinder(scan, plan, paths, spark, limits is _OF_STORES, why, readable)
    named.add_orc(is_orc)
    _add_codec_reasons(context, paths, files, limits is _OF_STORES, why, ~is_orc & readable)
    named.add_parquet(~is_orc)
    by_id = why.native & (why.layout < 0)
    footers = why_footers(context, paths, files["size"], by_id & readable) if context.matching.by_id else None
    if footers is not None:
        why.add_reason(by_id, footers)
    return why.lanes(roots, named.layouts)


def _is_only_sparks(paths: pa.Array) -> np.ndarray:
    """Return a mask of the paths in filesystems that only Spark's Hadoop client may support."""
    roots = pc.replace_substring_regex(paths, _ROOT, r"\1").dictionary_encode()
    is_other = np.array([_is_other(root) for root in roots.dictionary.to_pylist()], dtype=bool)
    found: np.ndarray = is_other[roots.indices.to_numpy()]
    return found


def _is_other(root: str) -> bool:
    scheme = split_location(root)[0] if root else "file"
    return scheme not in ("file", "hdfs") and store_of(scheme) not in STORES


class _LayoutFinder:
    """Finds the layouts of files whose columns Spark finds by name, and adds reasons for files without a layout.

    `readable` is a mask of the files whose footers this process can read.
    """

    def __init__(
        self,
        scan: ScanSpec,
        plan: ScanPlan,
        paths: pa.Array,
        spark: SparkSession | None,
        is_remote: bool,
        why: _LaneReasons,
        readable: np.ndarray,
    ) -> None:
        self._scan, self._plan, self._paths, self._spark, self._why = scan, plan, paths, spark, why
        self._context, self._most = scan.read_context(), _MOST_MAPPED_IN_STORES if is_remote else _MOST_MAPPED
        self._readable = readable
        self._numbers: dict[tuple[str, tuple[t.Field, ...]], int] = {}

    @property
    def layouts(self) -> tuple[Layout, ...]:
        """The layouts found so far; a file's layout number is an index in them."""
        return tuple(Layout({field.id: field for field in columns}, name) for name, columns in self._numbers)

    def add_orc(self, is_orc: np.ndarray) -> None:
        """Find the layouts of the ORC files in a mask, if the native lane can read them.

        Spark's ORC reader finds columns by name, and has no row positions, so files with deletes are for the Arrow
        lane.
        """
        why = self._why
        why.add_reason(is_orc & (self._plan.table.references.counts > 0), "it is an ORC file with deletes")
        positions = {POS.id, *LINEAGE}.intersection(f.id for f in self._context.columns_for(self._scan.filter).fields)
        if positions:
            why.add_reason(is_orc, "it is an ORC file, and Spark's reader has no positions of its rows")
        if (is_orc & why.native).any():
            self._add(is_orc & why.native, "orc", "the table has ORC files", every=True)

    def add_parquet(self, candidates: np.ndarray) -> None:
        """Find the layouts of the Parquet files in a mask that have no field ids, or of all if ids are not enough.

        Spark reads other files by id. It would read files without ids as nulls, or refuse them. So if the table has a
        name mapping, or if a sample contains files without ids, the footers of all files are read, up to a limit. For
        ids that are not enough, see `_why_names`.
        """
        matching, native = self._context.matching, candidates & self._why.native
        if not matching.by_id or not native.any():
            return
        cause = _why_names(self._scan)
        if cause is not None:
            self._add(native, "parquet", cause, every=True)
        elif matching.name_mapping is not None:
            self._add(native, "parquet", "the table has a name mapping")
        elif not matching.ids_required:
            some = read_footer_facts(
                self._context, self._paths, self._plan.files["size"], sample_files(native & self._readable), raises=True
            )
            if not all(each.has_ids for each in some):
                self._add(native, "parquet", "the table has files without field ids")

    def _add(self, mask: np.ndarray, file_format: str, cause: str, *, every: bool = False) -> None:
        """Find the layouts of the files in a mask from their footers, up to a limit.

        Further files are for the Arrow lane. `cause` begins the reasons of these: why footers must be read. Files with
        field ids also get a layout if `every` file is read by names, or if a file uses a settled name for another
        column, whose statistics Spark would compare.
        """
        self._why.add_reason(mask & ~self._readable, f"{cause}, and only Spark can read the footer of the file")
        places, count = np.flatnonzero(mask & self._readable), len(mask)
        read, others = places[: self._most], places[self._most :]
        facts = read_footer_facts(self._context, self._paths, self._plan.files["size"], read, file_format=file_format)
        names = ids_by_settled_name(self._context)
        found = [
            (int(place), each)
            for place, each in zip(read, facts, strict=True)
            if every or not each.has_ids or each.lacking or each.name_of_another(names)
        ]
        self._find_layouts(found, file_format)
        self._why.add_reason(
            _mask_of_places(others, count), f"{cause}, and the footers of only {self._most:,} files are read"
        )

    def _find_layouts(self, files: list[tuple[int, FooterFacts]], file_format: str) -> None:
        kinds: dict[tuple[FooterFacts, int], list[int]] = {}
        specs, count = self._plan.files["spec_id"].to_numpy(), len(self._plan.files)
        for place, each in files:  # at most as many as footers are read
            kinds.setdefault((each, int(specs[place])), []).append(place)
        if not kinds:
            return
        named, numbers = self._named_columns(file_format), self._numbers
        for (each, spec), found in kinds.items():
            mask = _mask_of_places(np.array(found), count)
            columns = named.find_columns(each, self._plan.table.constant_fields.get(spec, ()))
            if each.lacking:
                self._why.add_reason(mask, _codec_reason(each.lacking))
            elif isinstance(columns, str):
                self._why.add_reason(mask, columns)
            elif len(numbers) == _MOST_LAYOUTS and (file_format, columns) not in numbers:
                self._why.add_reason(
                    mask, f"its column names differ from those of the first {_MOST_LAYOUTS} groups of files"
                )
            else:
                self._why.layout[mask] = numbers.setdefault((file_format, columns), len(numbers))

    def _named_columns(self, file_format: str) -> NamedColumns:
        deletes = self._plan.deletes
        equality = deletes.filter(pc.equal(deletes["kind"], DeleteKind.EQUALITY))["equality_ids"]
        wanted = columns_needed(self._scan, {i for ids in equality.to_pylist() for i in ids})
        reads_int96 = self._spark is not None and conf(self._spark, _CONVERTS_INT96) != "true"
        return NamedColumns(self._context, wanted, mark_of(self._scan.table.location), reads_int96, file_format)


def _codec_reason(compression: str) -> str:
    return f"it is compressed by {compression}, which Spark's reader lacks"


def _add_codec_reasons(
    context: ReadContext, paths: pa.Array, files: pa.Table, is_remote: bool, why: _LaneReasons, candidates: np.ndarray
) -> None:
    """Add the reasons of the files in the mask `candidates` with codecs that Spark's reader lacks.

    `is_remote`, for files in object stores, lowers the number of footers to read.
    """
    most = _MOST_FOOTERS_IN_STORES if is_remote else _MOST_FOOTERS
    for name, mask in lacking_codecs(context, paths, files, why.native & candidates, most).items():
        why.add_reason(mask, _codec_reason(name))


def _find_roots(
    scan: ScanSpec,
    paths: pa.Array,
    sizes: pa.ChunkedArray,
    spark: SparkSession | None,
    why: _LaneReasons,
    *,
    looks_up: bool,
) -> Mapping[str, str]:
    """Return Spark's names for the roots of native files in object stores; add reasons for files it cannot read.

    Roots are `s3://bucket`. For `looks_up`, see `choose_lanes`.
    """
    roots = pc.replace_substring_regex(paths, _ROOT, r"\1").dictionary_encode()
    codes, found, asked = roots.indices.to_numpy(), {}, 0
    size = pc.sum(sizes.filter(pa.array(why.native))).as_py() or 0
    is_small = looks_up and scan.options.lane != "native" and size < LEAST_IN_STORES
    for code, root in enumerate(roots.dictionary.to_pylist()):
        mask = (codes == code) & why.native
        scheme = split_location(root)[0] if root else "file"
        if not mask.any() or scheme in ("file", "hdfs"):
            continue
        if _is_other(root):
            if looks_up and scan.options.lane != "native":
                why.add_reason(mask, "Spark may have no filesystem for it (lane=native tries)")
            elif not looks_up and not (spark is not None and has_filesystem(spark, scheme)):
                why.add_reason(mask, f"Spark has no filesystem for {scheme}://")
        elif is_small:
            why.add_reason(mask, f"{size:,} bytes in an object store are read faster by Arrow (lane=native uses Spark)")
        elif spark is None:
            why.add_reason(
                mask, "it is in an object store, and without a session it is unknown whether Spark can read it"
            )
        elif asked == _MOST_ROOTS:
            why.add_reason(mask, f"it is in another bucket than the first {_MOST_ROOTS} of the scan")
        else:
            asked += 1
            places = np.flatnonzero(mask)[[0, -1]]
            some = [(paths[n].as_py()[len(root) :], sizes[n].as_py()) for n in dict.fromkeys(places.tolist())]
            found[root], reason = root_for_spark(spark, scan.storage, root, some, looks_up=looks_up)
            why.add_reason(mask & bool(reason), reason)
    return found


def _mean_size(plan: ScanPlan, wanted: np.ndarray) -> float:
    """Return the mean size in bytes of the files in the mask `wanted`; infinite without files."""
    sizes = pc.fill_null(plan.files["size"], 0).to_numpy()[wanted]
    return float(sizes.mean()) if len(sizes) else math.inf


class _LaneReasons:
    """Collects, for each file, the first reason why Spark's own reader does not read it (see `Lanes`).

    Files without a reason are native, all others are read by Arrow. `layout` is as in `Lanes`.
    """

    def __init__(self, count: int) -> None:
        self._codes = np.zeros(count, dtype=np.int32)
        self.layout = np.full(count, -1, dtype=np.int32)
        self._texts = [""]

    @property
    def native(self) -> np.ndarray:
        result: np.ndarray = self._codes == 0
        return result

    def add_reason(self, mask: np.ndarray, reason: str) -> None:
        new = mask & self.native
        if new.any():
            self._codes[new] = len(self._texts)
            self._texts.append(reason)

    def lanes(self, roots: Mapping[str, str] = _NO_ROOTS, layouts: tuple[Layout, ...] = ()) -> Lanes:
        return Lanes(self.native, pa.array(self._texts).take(pa.array(self._codes)), roots, self.layout, layouts)


def _add_delete_reasons(scan: ScanSpec, plan: ScanPlan, why: _LaneReasons) -> None:
    """Add the reasons of files with deletes that the native lane cannot apply, for example on nested fields."""
    references, every = plan.table.references, np.ones(plan.deletes.num_rows, dtype=bool)
    kept = _mask(plan.deletes["kept"])
    why.add_reason(references.sums(kept) > 0, "only some of its rows are selected")
    by_position = references.has(every) & why.native
    rows = pc.fill_null(plan.files["record_count"], 0).to_numpy()[by_position].sum()
    if rows > _MOST_ROWS:
        why.add_reason(
            by_position, f"files with deletes have {rows:,} rows: their bitmaps are too large to send to every task"
        )
    equality = plan.deletes.filter(pc.equal(plan.deletes["kind"], DeleteKind.EQUALITY))
    by_keys = references.has_equality
    for ids in {tuple(ids) for ids in equality["equality_ids"].to_pylist()}:
        if (reason := _why_keys(scan, ids)) is not None:
            why.add_reason(by_keys, reason)


def _why_keys(scan: ScanSpec, ids: tuple[int, ...]) -> str | None:
    known = scan.read_context().table_schema
    for each in ids:
        if each not in known.by_id or known.top_level_of[each].id != each:
            return "it has equality deletes on nested fields"
        if known.by_id[each].type in t.FLOATING:
            return "it has equality deletes on floats, and Spark's joins treat -0.0 as 0.0"
        if (why := _why_type(known.by_id[each])) is not None:
            return f"equality deletes compare a column that Spark cannot read exactly: {why}"
    return None


def _mask_of_places(places: np.ndarray, count: int) -> np.ndarray:
    mask = np.zeros(count, dtype=bool)
    mask[places] = True
    return mask


def _mask(values: pa.ChunkedArray | pa.Array) -> np.ndarray:
    result: np.ndarray = np.asarray(pc.fill_null(values, False)).astype(bool)
    return result
