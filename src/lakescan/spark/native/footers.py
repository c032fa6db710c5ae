"""Find reasons in the footers of data files not to read them with Spark's own Parquet reader.

Footers are read only if file names and the table's metadata leave it open: of an even sample of files, of one file per
commit, or of all files up to a limit if the table has files without field ids.

A file without field ids is read by its own column names, which the table's name mapping gives: `NamedColumns`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import dictionary_codes
from lakescan.common.cache import CacheKind
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import LakescanError
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import FileField, has_ids, ids_of_columns, ids_of_fields, read_fields
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.reading.projection import FieldSource, Projection, resolve
from lakescan.spark.native.columns import unique_name

_MOST = 8
_READERS = 16
# Compression codecs by their numbers in `parquet.thrift`, and by the suffixes of file names (`.zstd.parquet`). Spark
# has no classes for LZO and Brotli. The deprecated LZ4 stands for two framings, of which Hadoop reads only its own.
_LACKING = {3: "LZO", 4: "Brotli", 5: "LZ4"}
_SUFFIX = r"(?i)^.*\.(?P<suffix>[a-z0-9_]+)\.parquet$"
_READ_BY_SPARK = ("snappy", "gz", "gzip", "zstd", "zst", "lz4raw", "lz4_raw")
_NOT_READ_BY_SPARK = {"br": "Brotli", "brotli": "Brotli", "lzo": "LZO", "lz4": "LZ4", "lz4hadoop": "LZ4"}
_SERIES = r"[-_.]?[0-9]*\.parquet$"  # the end of file names, which differs between files of one writer


_RESERVED = ("_metadata", "__lakescan_", "_tmp_metadata_")  # prefixes of names with a meaning for the reader


@dataclass(frozen=True)
class FileLayout:
    """The columns of a data file, with their properties that Spark's reader may treat differently.

    - `schema`: the Arrow schema, without metadata. It does not show INT96 and nesting, and is compared without ids.
    - `ids`: the field ids of all fields, including nested ones.
    - `int96`: the indices of the leaf columns of that type.
    - `other_nesting`: the indices of columns with lists or maps that are not in the three-level form, which readers
      interpret differently.
    """

    schema: pa.Schema
    ids: tuple[int | None, ...]
    int96: frozenset[int] = frozenset()
    other_nesting: frozenset[int] = frozenset()


@dataclass(frozen=True)
class FooterFacts:
    """The facts of a data file's footer that matter for Spark's reader.

    - `has_ids`: whether the file has field ids.
    - `lacking`: a compression codec of the file that Spark's reader lacks; None without one.
    - `columns`: the names of the columns in lower case, with their field ids.
    - `calendar`: set if dates and times are in the calendar of Spark 2.
    - `layout`: None if the footer cannot be read.
    """

    has_ids: bool
    lacking: str | None
    columns: tuple[tuple[str, int | None], ...] = ()
    calendar: LegacyCalendar | None = None
    layout: FileLayout | None = None

    def name_of_another(self, expected: Mapping[str, int]) -> str | None:
        """Return a name whose column in the file has another field id than in `expected` (ids by lower-case name).

        None without such a column.
        """
        return next((name for name, i in self.columns if expected.get(name, i) != i), None)


_FACTS: CacheKind[FooterFacts] = CacheKind("footers for Spark", lambda facts: 200 + 300 * len(facts.columns))


def read_footer_facts(
    context: ReadContext,
    paths: pa.Array,
    sizes: pa.ChunkedArray,
    places: np.ndarray,
    *,
    raises: bool = False,
    file_format: str = "parquet",
) -> list[FooterFacts]:
    """Read the footers of the files at the indices `places`, several concurrently; they are cached by path and size.

    A file that cannot be read raises with `raises`. Otherwise it counts as a file without field ids and layout: the
    Arrow lane raises the error.
    """

    def one(place: int) -> FooterFacts:
        path = paths[place].as_py()
        try:
            return _FACTS.get((path, sizes[place].as_py()), lambda: _read(context, path, file_format))
        except LakescanError:
            if raises:
                raise
            return FooterFacts(False, None)

    known = [_FACTS.find((paths[n].as_py(), sizes[n].as_py())) for n in places.tolist()]
    unknown = [n for n, facts in zip(places.tolist(), known, strict=True) if facts is None]
    if not unknown:
        return [facts for facts in known if facts is not None]
    with ThreadPoolExecutor(min(_READERS, len(unknown))) as pool:
        found = iter(list(pool.map(one, unknown)))
    return [next(found) if facts is None else facts for facts in known]


def _read(context: ReadContext, path: str, file_format: str) -> FooterFacts:
    with open_data_file(context.storage, path, file_format, None) as data:
        if not isinstance(data, ParquetData):
            ids = tuple((name.lower(), i) for name, i in ids_of_columns(data.schema))
            layout = FileLayout(data.schema.remove_metadata(), ids_of_fields(data.schema))
            return FooterFacts(has_ids(data.schema), None, ids, None, layout)
        codecs = data.footer.codecs(range(data.file.metadata.num_columns)).values()
        lacking = next((_LACKING[each] for found in codecs for each in found if each in _LACKING), None)
        ids = tuple((name.lower(), i) for name, i in ids_of_columns(data.schema))
        calendar = LegacyCalendar.read_metadata(data.file.metadata.metadata)
        return FooterFacts(has_ids(data.schema), lacking, ids, calendar, _layout(data))


def _layout(data: ParquetData) -> FileLayout:
    schema, columns = data.schema.remove_metadata(), data.file.schema
    int96 = frozenset(n for n in range(len(columns)) if columns.column(n).physical_type == "INT96")
    other, leaf = set(), 0
    for field in read_fields(schema, FieldMatching()):
        for depth in _depths(field):
            if columns.column(leaf).path.count(".") != depth:
                other.add(field.index)
            leaf += 1
    return FileLayout(schema, ids_of_fields(schema), int96, frozenset(other))


def _depths(field: FileField) -> Iterator[int]:
    """Yield, for each leaf column of a field, the number of dots in its Parquet path in the three-level form."""
    dots = field.name.count(".")
    if not field.children:
        yield dots
        return
    more = 1 if pa.types.is_struct(field.type) else 2
    for child in field.children:
        # A list's element and a map's value may have any name, so it counts as a name without dots.
        named = child if more == 1 else replace(child, name="")
        yield from (dots + more + each for each in _depths(named))


def lacking_codecs(
    context: ReadContext, paths: pa.Array, files: pa.Table, native: np.ndarray, most: int
) -> dict[str, np.ndarray]:
    """Find native files with a compression codec that Spark's reader lacks; return a mask of files by the codec's name.

    `native` is the mask of candidates. Names of files written by Spark or delta-rs contain the codec. For other files,
    at most `most` footers are read: all, or one per commit (Iceberg's sequence number), else one per series of names.
    """
    suffixes = pc.fill_null(pc.utf8_lower(pc.struct_field(pc.extract_regex(paths, _SUFFIX), "suffix")), "")
    found: dict[str, np.ndarray] = {}
    for suffix, name in _NOT_READ_BY_SPARK.items():
        found[name] = found.get(name, False) | (np.asarray(pc.equal(suffixes, suffix)) & native)
    is_named = np.asarray(pc.is_in(suffixes, value_set=pa.array([*_READ_BY_SPARK, *_NOT_READ_BY_SPARK])))
    open_places = np.flatnonzero(native & ~is_named)
    if not len(open_places):
        return found
    group = _groups(paths, files, open_places, most)
    _, firsts = np.unique(group, return_index=True)
    firsts = firsts[:: max(1, -(-len(firsts) // most))]
    lacking = np.array(
        [each.lacking or "" for each in read_footer_facts(context, paths, files["size"], open_places[firsts])]
    )
    for codec in sorted({*lacking.tolist()} - {""}):
        of_codec = np.isin(group, group[firsts[lacking == codec]])
        found.setdefault(codec, np.zeros(len(native), dtype=bool))[open_places[of_codec]] = True
    return found


def _groups(paths: pa.Array, files: pa.Table, places: np.ndarray, most: int) -> np.ndarray:
    """Return a group number for each file of the indices `places`; files of a group are assumed to have the same codec.

    Each file is a group of its own if there are at most `most`.
    """
    if len(places) <= most:
        return np.arange(len(places))
    chosen = pa.array(places)
    commits = files["sequence_number"].combine_chunks().take(chosen)
    series = pc.replace_substring_regex(pc.replace_substring_regex(paths.take(chosen), r"^.*/", ""), _SERIES, "")
    return dictionary_codes(pc.coalesce(commits.cast(pa.string()), series))


def why_footers(context: ReadContext, paths: pa.Array, sizes: pa.ChunkedArray, native: np.ndarray) -> str | None:
    """Return the reason to read files with field ids through Arrow, from an even sample of `_MOST` footers.

    None without a reason. `native` is the mask of the files to sample. Reasons: a file without field ids, which
    Spark refuses; another column under a settled name, as Spark pushes filters by name; and dates in the calendar of
    Spark 2, which Spark rebases and Iceberg's reader does not. Raises the errors of reading the footers.
    """
    expected = ids_by_settled_name(context)
    for facts in read_footer_facts(context, paths, sizes, sample_files(native), raises=True):
        if not facts.has_ids:
            return "data files have no field ids"
        if (wrong := facts.name_of_another(expected)) is not None:
            return f"a data file has another column under the name {wrong!r}"
        if facts.calendar is not None and not context.matching.legacy_calendar:
            return "data files have dates in the calendar of Spark 2, which Spark would rebase"
    return None


def ids_by_settled_name(context: ReadContext) -> dict[str, int]:
    """Return the field ids of columns with a settled name (see `FileColumns`), by this name in lower case."""
    return {f.name.lower(): f.id for f in context.table_schema.fields if f.id in context.matching.settled}


def sample_files(native: np.ndarray) -> np.ndarray:
    """Return the indices of an even sample of about `_MOST` of the files in the mask `native`."""
    places = np.flatnonzero(native)
    return places[:: max(1, len(places) // _MOST)]


class _Differs(Exception):
    """The reason why Spark's reader would read a file's columns differently from the Arrow lane."""


@dataclass(frozen=True)
class NamedColumns:
    """Finds the columns `wanted` of the table by the names that they have in each data file.

    `mark` is the table's part of names that no file has. `reads_int96` is False if the session converts INT96
    timestamps when it reads them.
    """

    context: ReadContext
    wanted: tuple[t.Field, ...]
    mark: str
    reads_int96: bool
    file_format: str = "parquet"

    def find_columns(self, facts: FooterFacts, constants: Collection[int]) -> tuple[t.Field, ...] | str:
        """Return the wanted columns, with their names in a file as physical names, or the reason for the Arrow lane.

        A column that the file lacks, or that is constant in it (`constants` are field ids), gets a name that no file
        has.
        """
        if (layout := facts.layout) is None:
            return "its footer cannot be read"
        matching, values = self.context.matching, dict.fromkeys(constants, pa.scalar(None))
        is_orc = self.file_format == "orc"
        cause = "it is an ORC file" if is_orc else "it has no field ids" if not facts.has_ids else "it is read by names"
        if is_orc and not facts.has_ids:
            return f"{cause} without field ids"
        if is_orc and all(name.startswith("_col") for name, _ in facts.columns):
            return f"{cause} whose columns Spark would find by their places"
        try:
            fields = read_fields(layout.schema, matching)
            projection = resolve(fields, Schema(self.wanted), matching, values)
            found = (_OrcFile if is_orc else _File)(facts, layout, projection, fields, self)
            columns = tuple(found.column(each) for each in projection.sources)
        except LakescanError as error:
            return f"{cause}, and its columns are not the table's ({error})"
        except _Differs as reason:
            return f"{cause}, and {reason}"
        names = [each.physical_name.lower() for each in columns]
        return columns if len({*names}) == len(names) else "two of its columns are the same column of the file"


@dataclass(frozen=True)
class _File:
    """The columns of one file, checked for types that Spark's reader and Arrow read to the same values.

    - `projection`: how the wanted columns are found in the file.
    - `fields`: all fields of the file.
    - `named`: the wanted columns, and the session's settings.
    """

    facts: FooterFacts
    layout: FileLayout
    projection: Projection
    fields: tuple[FileField, ...]
    named: NamedColumns

    def column(self, source: FieldSource) -> t.Field:
        """Return the table column that `source` finds in the file, with its name there as physical name.

        Raises `_Differs` if Spark would read it differently.
        """
        if source.child is not None:
            place = self.projection.read[source.child].index
            if place in self.layout.other_nesting:
                raise _Differs(f"column {source.target.name!r} has lists or maps in another form")
        return self._field(source, self.projection.read, self.fields)

    def _field(self, source: FieldSource, read: tuple[FileField, ...], siblings: tuple[FileField, ...]) -> t.Field:
        """Return a column or struct field as `column` does.

        `siblings` are the fields next to it, `read` those that are read.
        """
        target = source.target
        if source.child is None:
            return replace(target, physical_name=unique_name(target.id, self.named.mark))
        if len({each.name.lower() for each in siblings}) < len(siblings):
            raise _Differs("names of its columns differ only in case")
        field = read[source.child]
        if field.name.lower().startswith(_RESERVED):
            raise _Differs(f"it has a column {field.name!r}, a name that Spark's reader uses")
        return replace(target, physical_name=field.name, type=self._type(source, field, siblings[field.index]))

    def _type(self, source: FieldSource, field: FileField, whole: FileField) -> t.Type:
        kind = source.target.type
        match kind:
            case t.Struct():
                return t.Struct(tuple(self._field(each, field.children, whole.children) for each in source.children))
            case t.ListOf():
                return replace(kind, element=self._inner(source.children[0], whole))
            case t.MapOf():
                key, value = (self._inner(each, whole) for each in source.children)
                return replace(kind, key=key, value=value)
        if not self._is_read_alike(source.target, field):
            raise _Differs(f"column {source.target.name!r} is {kind} in the table and {field.type} in the file")
        return kind

    def _inner(self, source: FieldSource, whole: FileField) -> t.Field:
        """Return the table's list element, map key or map value of `source`, with its type checked by `_type`.

        `whole` is the list or map in the file. Readers find its parts by position, so their names do not matter.
        """
        assert source.child is not None
        field = whole.children[source.child]
        return replace(source.target, type=self._type(source, field, field))

    def _is_read_alike(self, target: t.Field, field: FileField) -> bool:
        """Return whether Spark and Arrow read a leaf column of the file to the same values of the column `target`."""
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        match target.type:
            case t.Decimal() as decimal:
                same = pa.types.is_decimal(kind) and kind.scale == decimal.scale
                return bool(same and kind.precision <= decimal.precision)
            case t.Fixed() as fixed:
                return kind in (fixed.arrow(), *_SAME[t.BINARY])
            case t.Timestamp() as timestamp:
                return self._is_same_timestamp(target, timestamp, kind)
            case t.DATE:
                return bool(pa.types.is_date32(kind)) and not (self._calendar and self._calendar.datetimes)
        return kind in _SAME.get(target.type, ())

    def _is_same_timestamp(self, target: t.Field, timestamp: t.Timestamp, kind: pa.DataType) -> bool:
        if not pa.types.is_timestamp(kind) or kind.unit not in ("ms", "us"):
            return False
        if self.layout.int96:
            at = self.projection.leaf_of(target.id, self.fields)
            if at is None:  # in a list or map
                return False
            if at[0] in self.layout.int96:
                is_rebased = self._calendar is not None and self._calendar.int96
                return timestamp.zoned and self.named.reads_int96 and not is_rebased
        is_rebased = timestamp.zoned and self._calendar is not None and self._calendar.datetimes
        return (kind.tz is not None) == timestamp.zoned and not is_rebased

    @property
    def _calendar(self) -> LegacyCalendar | None:
        """The calendar from which Spark rebases dates and times, unlike Iceberg's reader; None without rebasing."""
        return None if self.named.context.matching.legacy_calendar else self.facts.calendar


class _OrcFile(_File):
    """The columns of an ORC file. They must have exactly the table's types, and no nested, date or time types.

    Spark interprets dates and times in the calendar of Spark 2 if the file does not record its calendar.
    """

    def _field(self, source: FieldSource, read: tuple[FileField, ...], siblings: tuple[FileField, ...]) -> t.Field:
        target = source.target
        if source.constant is None and source.child is None and target.default is not None:
            raise _Differs(f"column {target.name!r} has a default")
        return super()._field(source, read, siblings)

    def _type(self, source: FieldSource, field: FileField, whole: FileField) -> t.Type:
        kind = source.target.type
        if kind not in _OF_ORC and not isinstance(kind, t.Decimal):
            raise _Differs(f"column {source.target.name!r} is of type {kind}")
        return super()._type(source, field, whole)

    def _is_read_alike(self, target: t.Field, field: FileField) -> bool:
        return field.type == target.type.arrow()


_OF_ORC = (t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.STRING, t.BINARY)
_INTEGERS = (pa.int8(), pa.int16(), pa.int32())
_SAME: dict[t.Type, tuple[pa.DataType, ...]] = {
    t.BOOLEAN: (pa.bool_(),),
    t.BYTE: _INTEGERS[:1],
    t.SHORT: _INTEGERS[:2],
    t.INT: _INTEGERS,
    t.LONG: (*_INTEGERS, pa.int64()),
    t.FLOAT: (pa.float32(),),
    t.DOUBLE: (pa.float32(), pa.float64()),
    t.STRING: (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
    t.BINARY: (pa.binary(), pa.large_binary()),
}
