"""Reasons in the footers of data files not to read them with Spark's own Parquet reader.

Footers are read only where the names of files and the table's metadata leave it open: of an even sample of files, of a
file of each commit, or, in a table with a name mapping, of all files.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import codes
from lakescan.common.cache import Kind
from lakescan.errors import LakescanError
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.file_schema import has_ids, ids_of_columns
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar

_MOST = 8
_READERS = 16
# Compressions by their numbers in `parquet.thrift`, and by the suffixes of file names (`.zstd.parquet`). Spark has no
# classes for LZO and Brotli. The deprecated LZ4 stands for two framings, of which Hadoop reads only its own.
_LACKING = {3: "LZO", 4: "Brotli", 5: "LZ4"}
_SUFFIX = r"(?i)^.*\.(?P<suffix>[a-z0-9_]+)\.parquet$"
_READ_BY_SPARK = ("snappy", "gz", "gzip", "zstd", "zst", "lz4raw", "lz4_raw")
_NOT_READ_BY_SPARK = {"br": "Brotli", "brotli": "Brotli", "lzo": "LZO", "lz4": "LZ4", "lz4hadoop": "LZ4"}
_SERIES = r"[-_.]?[0-9]*\.parquet$"  # the end of the names of files that one writer wrote


@dataclass(frozen=True)
class FooterFacts:
    """Whether a file has field ids and dates in the calendar of Spark 2; a compression that Spark's reader lacks.

    `columns` are the names in lower case, with the ids.
    """

    has_ids: bool
    lacking: str | None
    columns: tuple[tuple[str, int | None], ...] = ()
    is_legacy: bool = False


_FACTS: Kind[FooterFacts] = Kind("footers for Spark", lambda facts: 100 + 100 * len(facts.columns))


def facts_of(
    context: ReadContext, paths: pa.Array, sizes: pa.ChunkedArray, places: np.ndarray, *, raises: bool = False
) -> list[FooterFacts]:
    """Read the footers of the files at some places, a few at once; they are cached by path and size.

    Unless it `raises`, a file that cannot be read counts as one without field ids: the reader of the Arrow lane raises
    the error.
    """

    def one(place: int) -> FooterFacts:
        path = paths[place].as_py()
        try:
            return _FACTS.get((path, sizes[place].as_py()), lambda: _read(context, path))
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


def _read(context: ReadContext, path: str) -> FooterFacts:
    with open_data_file(context.storage, path, "parquet", None) as data:
        assert isinstance(data, ParquetData)
        codecs = data.footer.codecs(range(data.file.metadata.num_columns)).values()
        lacking = next((_LACKING[each] for found in codecs for each in found if each in _LACKING), None)
        ids = tuple((name.lower(), i) for name, i in ids_of_columns(data.schema))
        is_legacy = LegacyCalendar.of(data.file.metadata.metadata) is not None
        return FooterFacts(has_ids(data.schema), lacking, ids, is_legacy)


def lacking_codecs(
    context: ReadContext, paths: pa.Array, files: pa.Table, native: np.ndarray, most: int
) -> dict[str, np.ndarray]:
    """The native files with a compression that Spark's reader lacks: a mask by the compression's name.

    It is in the names that Spark's writers and delta-rs give to files. Of other files, at most `most` footers are read:
    all, or one of each commit (Iceberg's sequence number), else of each series of names.
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
    lacking = np.array([each.lacking or "" for each in facts_of(context, paths, files["size"], open_places[firsts])])
    for codec in sorted({*lacking.tolist()} - {""}):
        of_codec = np.isin(group, group[firsts[lacking == codec]])
        found.setdefault(codec, np.zeros(len(native), dtype=bool))[open_places[of_codec]] = True
    return found


def _groups(paths: pa.Array, files: pa.Table, places: np.ndarray, most: int) -> np.ndarray:
    """A number for each file: files of one number are taken to have the same compression."""
    if len(places) <= most:
        return np.arange(len(places))
    chosen = pa.array(places)
    commits = files["sequence_number"].combine_chunks().take(chosen)
    series = pc.replace_substring_regex(pc.replace_substring_regex(paths.take(chosen), r"^.*/", ""), _SERIES, "")
    return codes(pc.coalesce(commits.cast(pa.string()), series))


def why_footers(context: ReadContext, paths: pa.Array, sizes: pa.ChunkedArray, native: np.ndarray) -> str | None:
    """The reason to read files with field ids through Arrow, from an even sample of `_MOST` footers; None without one.

    Spark refuses files without field ids, and pushes filters by name. It rebases dates if a footer says that they are
    in the calendar of Spark 2, which Iceberg's reader does not do.
    """
    places = np.flatnonzero(native)
    expected = {f.name.lower(): f.id for f in context.table_schema.fields if f.id in context.matching.settled}
    for facts in facts_of(context, paths, sizes, places[:: max(1, len(places) // _MOST)], raises=True):
        if not facts.has_ids:
            return "data files have no field ids"
        # A settled name (see `FileColumns`) that the file nevertheless uses for another column.
        if (wrong := next((name for name, i in facts.columns if expected.get(name, i) != i), None)) is not None:
            return f"a data file has another column under the name {wrong!r}"
        if facts.is_legacy and not context.matching.legacy_calendar:
            return "data files have dates in the calendar of Spark 2, which Spark would rebase"
    return None
