"""SQL on Spark: run the user's text over frames of its tables, each narrowed to the data that the text needs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.api.changes import Changes
from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.common.metadata_columns import DELETED, FILE, FILE_METADATA, POS
from lakescan.common.references import backquote
from lakescan.errors import InvalidOption, InvalidStatement
from lakescan.formats.metadata_table import MetadataTable
from lakescan.spark.executor import MIN_BYTES
from lakescan.spark.frames import following_frame, frame_of, hide_columns, is_narrowed_by_spark
from lakescan.spark.registration import register
from lakescan.spark.session import ZONE, cache_settings, conf, create_frame, is_connect, session_zone, zone_name
from lakescan.spark.statements.names import NAMESPACE, current_namespace, has_catalog, is_of_session, is_temporary
from lakescan.spark.statements.session_tables import full_name, stored_view
from lakescan.spark.statements.views import (
    check_name,
    find_view_text,
    query_of,
    read_views,
    record_view,
    require_view_text,
    text_to_keep,
)
from lakescan.spark.types import schema_of
from lakescan.spark.wap import names_of_settings, settings_of_session
from lakescan.statements.select.analysis import QueryAnalysis, analyze
from lakescan.statements.select.query import explain_scans
from lakescan.statements.select.renaming import edits_of_names
from lakescan.statements.select.session import GivenFrames, QuerySettings
from lakescan.statements.select.table_references import Occurrence
from lakescan.statements.syntax.parse import Arguments
from lakescan.statements.syntax.spark_syntax import restore_with_clauses
from lakescan.statements.syntax.text import apply_edits, underline_place
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakescan.catalogs.views import StoredView

_LITTLE_METADATA = 64 << 10  # bytes of a table's metadata, which describe some hundred files
_NONE: Mapping[str, Callable[[ScanSpec], DataFrame]] = MappingProxyType({})
_OTHER_SYNTAX = (
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.legacy.consecutiveStringLiterals.enabled",
)


def query_frame(
    spark: SparkSession,
    text: str,
    args: Arguments,
    frames: Mapping[str, Any],
    read: Mapping[str, Callable[[ScanSpec], DataFrame]],
) -> DataFrame:
    """Return the frame of a query; `frames` are data frames, tables and scans by the names in the text.

    `read` maps names of tables in `frames` to functions that make a frame of the table's narrowed scan.
    """
    return frame_of_analysis(spark, analyze_query(spark, text, args, frames), frames, read)


def frame_of_others(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Return the frame of a query that reads no lakescan table; None for queries that read one."""
    found = analyze_query(spark, text, args, frames)
    return None if found.named else frame_of_analysis(spark, found, frames)


def query_schema(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> StructType:
    """Return the Spark schema of a query, analyzed over empty frames without planning its tables."""
    found = analyze_query(spark, text, args, frames)
    text, used = _resolve_frames(spark, found, frames, lambda each: _empty_frame(spark, found, each))
    return _run_text(spark, text, found, used).schema


def analyze_frame(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]
) -> tuple[DataFrame, QueryAnalysis]:
    """Return the frame of a query, and its analysis."""
    found = analyze_query(spark, text, args, frames)
    return frame_of_analysis(spark, found, frames), found


def frame_of_name(
    spark: SparkSession, parts: Sequence[str], options: Mapping[str, Any], *, with_metadata: bool = False
) -> DataFrame:
    """Return the frame of a table, metadata table, branch or view, by its full name, or by a format and a path.

    The frame follows its table (see `following_frame`), unless the name or the options select a snapshot or version.
    `options` are read options. With `with_metadata`, metadata columns can be selected by name, in a classic session;
    `*` leaves them out. Raises the errors of `analyze_query`.
    """
    name = ".".join(map(backquote, parts))
    found = analyze_query(spark, f"SELECT * FROM {name}", None, {})
    if len(found.named) != 1 or next(iter(found.named)).names != tuple(parts):
        return run_over_whole_tables(spark, found, {})  # a view
    each = next(iter(found.named))
    if with_metadata and not is_connect(spark):
        named = found.named[each]
        if options and named.metadata is None and not named.is_changes:
            named, options = replace(named, spec=named.spec.with_options(dict(options))), {}
        columns = {column.name for column in named.spec.snapshot.metadata_columns}
        wide = named.with_hidden(columns - {DELETED.name})  # a read of `_deleted` returns deleted rows
        if wide.hidden:
            own = named.spec.output.names
            frame = _following_frame(spark, replace(found, named={each: wide}), each, options)
            return hide_columns(spark, _with_file_metadata(frame, wide.hidden), own)
        found = replace(found, named={each: named})
    return _following_frame(spark, found, each, options)


def _with_file_metadata(frame: DataFrame, hidden: Collection[str]) -> DataFrame:
    """Return the frame of a table with the column `_metadata`, which has members of that of Spark's file sources.

    `hidden` are the names of the frame's metadata columns. The frame is returned unchanged if columns of the table have
    the names of those that the members are made of.
    """
    from pyspark.sql import functions as F

    if not {FILE.name, POS.name}.issubset(hidden) or "_metadata" in map(str.lower, frame.columns):
        return frame
    members = {
        "file_path": F.col(FILE.name),
        "file_name": F.element_at(F.split(F.col(FILE.name), "/"), -1),
        "row_index": F.col(POS.name),
    }
    members |= {name[1:]: F.col(name) for name in FILE_METADATA[2:] if name in hidden}
    return frame.withColumn("_metadata", F.struct(*(value.alias(name) for name, value in members.items())))


def run_over_whole_tables(
    spark: SparkSession, found: QueryAnalysis, frames: Mapping[str, Any], before: str = ""
) -> DataFrame:
    """Run a query over frames of whole tables that follow these tables, and which Spark's optimizer narrows.

    `before` is the text before the query, if it is part of a statement of Spark's. Raises Spark's errors with positions
    in the user's text.
    """
    text, used = _resolve_frames(
        spark, found, frames, lambda each: _following_frame(spark, found, each, {}), whole=True
    )
    return _run_text(spark, text, found, used, before)


def _following_frame(
    spark: SparkSession, found: QueryAnalysis, each: Occurrence, options: Mapping[str, Any]
) -> DataFrame:
    """Return a frame of a whole table of a query that follows the table; changes of a table do not follow it."""
    named = found.named[each]
    if options and named.is_changes:
        named = replace(named, spec=named.spec.with_options(dict(options)))
    if named.is_net:
        return Changes(named.spec).to_spark(spark)
    if named.is_changes or named.is_given:
        return frame_of(spark, named.spec)
    spec = replace(named.spec, options=named.spec.options.exclude(("wap-branch",)))  # that of the session, until now
    frame = following_frame(spark, spec.with_options(dict(options)) if options else spec, named.metadata)
    return _with_file_metadata(frame, named.hidden) if "_metadata" in found.text.lower() else frame


def make_view(spark: SparkSession, name: str, source: str, *, replace: bool) -> None:
    """Create a view of a query or of a table; see `lakescan.spark.create_view`."""
    check_name(name)
    found = analyze_query(spark, query_of(source), None, {})
    text = text_to_keep(name, source, found)
    record_view(spark, name, text, frame_of_analysis(spark, found, {}), replace=replace)


def renew_view(spark: SparkSession, name: str) -> None:
    """Create a view again, over the current snapshots of its tables; see `lakescan.spark.refresh_view`."""
    make_view(spark, name, require_view_text(spark, name), replace=True)


def analyze_query(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> QueryAnalysis:
    """Resolve the tables and views that a query names, and return the analysis.

    Raises `NoSuchTable` for a name that neither lakescan nor Spark has. Names within Spark's catalogs are not checked.
    """
    views = SparkNames(spark, frames)
    found = analyze(text, args, views.tables, current_namespace(spark), session_settings(spark), views)
    for each in found.unknown:
        is_missing = len(each.names) > 2 and not has_catalog(spark, each.names[0])
        if is_missing or (len(each.names) == 1 and not views.has(each.names[0])):
            raise found.tables.not_found_error(each, lambda: [view.name for view in spark.catalog.listTables()])
    return found


class SparkNames(GivenFrames):
    """Frames that the user passed by name, and the session's own views and tables, as a query can name them.

    `tables` are those of the frames that are tables or scans of lakescan.
    """

    def __init__(self, spark: SparkSession, frames: Mapping[str, Any]) -> None:
        self.tables = {name: each for name, each in frames.items() if isinstance(each, Table | Scan)}
        others = {name: each for name, each in frames.items() if name not in self.tables}
        self._spark, self._given = spark, {name.lower(): frame for name, frame in others.items()}
        super().__init__({name: frame for name, frame in others.items() if not hasattr(frame, "sparkSession")})

    def has(self, name: str) -> bool:
        """Return whether there is a frame, temporary view or Spark table that an unqualified name refers to."""
        return name.lower() in self._given or is_of_session(self._spark, name)

    def has_catalog(self, name: str) -> bool:
        """Return whether qualified names that begin with this name are Spark's."""
        return has_catalog(self._spark, name)

    def full_name(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the full name of a lakescan table in Spark's own catalog; None for any other name."""
        return full_name(self._spark, names, with_views=True)

    @property
    def has_queries(self) -> bool:
        """Whether the session has views made by `create_view`."""
        return bool(read_views(self._spark))

    def query(self, name: str) -> str | None:
        """Return the text of a view made by `create_view`; None for other names and frames."""
        return None if name.lower() in self._given else find_view_text(self._spark, name)

    def stored_view(self, names: tuple[str, ...]) -> StoredView | None:
        """Return a view of Spark's own catalog that reads its Iceberg tables; None for frames and other names."""
        found = stored_view(self._spark, names)
        if found is None or len(names) > 1:
            return found
        return None if names[0].lower() in self._given or is_temporary(self._spark, names[0]) else found

    def frame_names(self) -> Sequence[str]:
        """Return the names of the frames, in lower case."""
        return tuple(self._given)

    def columns(self, name: str) -> Sequence[str] | None:
        """Return the names of the columns of a frame, else of Spark's view or table of that name."""
        frame = self._given.get(name.lower())
        if frame is not None and not hasattr(frame, "sparkSession"):
            return super().columns(name)
        return (self._spark.table(backquote(name)) if frame is None else frame).columns


def replace_braces(text: str, frames: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Replace `{name}` by the frame's name, as `spark.sql` allows it; return the text, and the frames by their names.

    Doubled braces become single ones. `{name}` always refers to the frame: if the text has a WITH query of the same
    name, the frame gets another name. Raises `InvalidOption` for a name without a frame.
    """
    if not frames:
        return text, frames
    names = {name: name for name in frames}
    for name in frames:
        query = rf"\b{re.escape(name)}`?\s*(\([^()]*\)\s*)?as\s*\("
        if f"{{{name}}}" in text and re.search(query, text, re.IGNORECASE):
            names[name] = f"{name}{'_' * text.lower().count(name.lower())}"

    def plain(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0]
        if found[1] not in frames:
            raise InvalidOption(f"the text has {{{found[1]}}}, but no frame of that name was given")
        return backquote(names[found[1]])

    others = {names[name]: frame for name, frame in frames.items()}
    return re.sub(r"\{\{|\}\}|\{(\w+)\}", plain, text), {**frames, **others}


def session_settings(spark: SparkSession) -> QuerySettings:
    """Return the session's settings that the meaning of a statement depends on: zone, ANSI, case, syntax, staging."""
    name = zone_name(spark)
    return QuerySettings(
        session_zone(spark),
        name,
        is_ansi=_is_set(spark, "spark.sql.ansi.enabled", "true"),
        case_sensitive=_is_set(spark, "spark.sql.caseSensitive", "false"),
        shows_all=True,
        reads_as_default=not any(_is_set(spark, each, "false") for each in _OTHER_SYNTAX),
        session=settings_of_session(spark),
    )


@contextmanager
def cache_query_settings(spark: SparkSession) -> Iterator[None]:
    """Context manager: in a classic session, read each setting that `session_settings` returns only once."""
    if is_connect(spark):  # Connect sends all settings in one response
        yield
        return
    names = (ZONE, NAMESPACE, "spark.sql.ansi.enabled", "spark.sql.caseSensitive", *_OTHER_SYNTAX)
    with cache_settings({name: conf(spark, name) for name in (*names, *names_of_settings())}):
        yield


def _is_set(spark: SparkSession, name: str, default: str) -> bool:
    return (conf(spark, name) or default).lower() == "true"


def frame_of_analysis(
    spark: SparkSession,
    found: QueryAnalysis,
    frames: Mapping[str, Any],
    read: Mapping[str, Callable[[ScanSpec], DataFrame]] = _NONE,
) -> DataFrame:
    """Return a frame of a query's rows: Spark runs the text, with frames instead of the tables.

    If metadata answers the query, its row is returned instead. `read` is as in `query_frame`. Raises Spark's errors
    with positions in the user's text.
    """
    if not read:
        found = _without_useless_keys(spark, found)
    each = found.aggregate_table
    if each is not None and found.scans[each].metadata_bytes < MIN_BYTES and found.metadata_row is not None:
        return _metadata_frame(spark, found, frames)
    text, used = _narrowed_frames(spark, found, frames, read)
    try:
        return _run_text(spark, text, found, used)
    except Exception as error:
        if "UNRESOLVED_COLUMN" in str(error):
            _name_all_columns(spark, found, text, used)
        raise


def _without_useless_keys(spark: SparkSession, found: QueryAnalysis) -> QueryAnalysis:
    """Return the analysis without keys of joins if Spark narrows all of its tables, and each has little metadata.

    To read the keys and to plan twice takes longer than to read the few files that they would exclude. Keys of frames
    that the user passed are in memory.
    """
    keys = [each for pushed in found.pushdowns.values() for _, values in pushed.among for each in values]
    if any(each.occurrence not in found.named for each in keys):
        return found
    own = [each for each, named in found.named.items() if named.metadata is None]
    if not all(is_narrowed_by_spark(spark, found.named[each].spec) for each in own):
        return found
    if any(
        found.named[each].spec.metadata_bytes > _LITTLE_METADATA
        for each, pushed in found.pushdowns.items()
        if pushed.among
    ):
        return found
    return found.without_join_keys()


def _narrowed_frames(
    spark: SparkSession,
    found: QueryAnalysis,
    frames: Mapping[str, Any],
    read: Mapping[str, Callable[[ScanSpec], DataFrame]] = _NONE,
) -> tuple[str, dict[str, Any]]:
    """Return the text that Spark runs, and the frames of its tables: narrowed ones, or whole ones that Spark narrows.

    `read` is as in `query_frame`.
    """
    if found.reads_keys:
        return _resolve_frames(spark, found, frames, lambda each: _frame_of(spark, found, each, read))

    def whole(each: Occurrence) -> DataFrame:
        named = found.named[each]
        return _frame_of(spark, found, each) if named.metadata or named.is_net else frame_of(spark, named.spec)

    return _resolve_frames(spark, found, frames, whole, whole=True)


def _run_text(
    spark: SparkSession, text: str, found: QueryAnalysis, used: Mapping[str, Any], before: str = ""
) -> DataFrame:
    values, text = dict(found.values) or None, before + restore_with_clauses(text)
    renamed = {each: "_" * FRAME_LENGTH for each in (*found.named, *found.unknown) if _is_renamed(found, each, used)}
    edits = [(len(before) + start, len(before) + end, new) for start, end, new in edits_of_names(found.tree, renamed)]
    with translate_positions(before + found.text, edits):
        if used:
            return spark.sql(text, values, **used)
        return spark.sql(text, values) if values else spark.sql(text)


def _is_renamed(found: QueryAnalysis, each: Occurrence, used: Mapping[str, Any]) -> bool:
    """Return whether a data frame from `used` replaces a table in the text that Spark runs."""
    return each in found.named or (len(each.names) == 1 and each.names[0].lower() in map(str.lower, used))


def _name_all_columns(spark: SparkSession, found: QueryAnalysis, text: str, used: Mapping[str, Any]) -> None:
    """Raise Spark's error for an unknown column again, with suggestions from all columns and not just those read.

    Returns if Spark finds the column in the whole tables.
    """
    whole = {
        found.name_of(each): _empty_frame(spark, found, each)
        for each, named in found.named.items()
        if each in found.scans and not named.is_changes
    }
    _run_text(spark, text, found, {**used, **whole})


def _empty_frame(spark: SparkSession, found: QueryAnalysis, each: Occurrence) -> DataFrame:
    """Return an empty frame with all columns of a table; for changes and metadata tables, a frame of their rows."""
    named = found.named[each]
    if each not in found.scans or named.is_changes:
        return _frame_of(spark, found, each)
    return spark.createDataFrame([], schema_of(named.spec))


def _metadata_frame(spark: SparkSession, found: QueryAnalysis, frames: Mapping[str, Any]) -> DataFrame:
    """Return the single row of a query that metadata answers, as a frame with the query's columns in Spark."""
    [(each, spec)] = found.scans.items()
    empty = spark.createDataFrame([], schema_of(spec))
    text, used = _mark_frames(found, {each: found.name_of(each)}), {found.name_of(each): empty}
    columns = spark.sql(text, dict(found.values) or None, **used).schema
    values = [pa.array([value], value.type) for value in found.metadata_row or ()]
    return spark.createDataFrame(pa.table(values, names=columns.names), columns)


def _resolve_frames(
    spark: SparkSession,
    found: QueryAnalysis,
    frames: Mapping[str, Any],
    frame_of_table: Callable[[Occurrence], DataFrame],
    *,
    whole: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Return the text with `{name}` instead of its tables, and their frames; a table with one scan has one frame.

    With `whole`, the scans are not narrowed first, which may read join keys.
    """
    used: dict[str, Any] = {}
    made: dict[Any, Any] = {}
    names: dict[Occurrence, str] = {}
    for each, named in found.named.items():
        name = found.name_of(each)
        key = (id(named.spec), named.metadata) if whole else id(found.names[name])
        if key not in made:
            made[key] = frame_of_table(each)
        used[name] = made[key]
        names[each] = name
    for each in found.unknown:
        given = {name.lower(): name for name in frames}.get(each.names[0].lower()) if len(each.names) == 1 else None
        if given is not None:
            found.tables.refuse_changes(each)
            if each.travel is not None:
                raise InvalidStatement(f"{given} is a data frame, which has no earlier versions")
            used[given] = _as_frame(spark, found, given, frames[given])
            names[each] = given
    if not used:
        return found.text, used
    return _mark_frames(found, names), used


def _mark_frames(found: QueryAnalysis, names: Mapping[Occurrence, str]) -> str:
    """Return the text with `{name}` instead of the tables in `names`, as `spark.sql` takes frames."""
    marked = found.text_with({each: f"\0{name}\1" for each, name in names.items()})
    return marked.replace("{", "{{").replace("}", "}}").replace("\0", "{").replace("\1", "}")


def _frame_of(
    spark: SparkSession,
    found: QueryAnalysis,
    each: Occurrence,
    read: Mapping[str, Callable[[ScanSpec], DataFrame]] = _NONE,
) -> DataFrame:
    source: ScanSpec | Changes | MetadataTable = found.names[found.name_of(each)]
    if isinstance(source, ScanSpec):
        own = read.get(each.names[0]) if len(each.names) == 1 else None
        return frame_of(spark, source) if own is None else own(source)
    if isinstance(source, Changes):
        return source.to_spark(spark)
    register(spark, names=("lakescan",))
    options = found.named[each].spec.to_options()
    path = f"{options.pop('path')}#{found.named[each].metadata}"
    return spark.read.format("lakescan").options(**options).load(path)


def _as_frame(spark: SparkSession, found: QueryAnalysis, name: str, frame: Any) -> DataFrame:
    if hasattr(frame, "sparkSession"):
        spark_frame: DataFrame = frame
        return spark_frame
    return create_frame(spark, found.tables.views.rows(name))


def explain_query(spark: SparkSession, text: str, mode: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame:
    """Return one row of text with the scans of the tables and Spark's plan, like Spark's own EXPLAIN in `mode`."""
    text, frames = replace_braces(text, frames)
    found = analyze_query(spark, text, args, frames)
    found = _without_useless_keys(spark, found)
    own, used = _narrowed_frames(spark, found, frames)
    values = dict(found.values) or None
    of_spark = spark.sql(f"EXPLAIN {mode} {own}", values, **used).first()
    plan = f"== Scans ==\n{explain_scans(found)}\n\n{of_spark[0] if of_spark else ''}"
    return spark.createDataFrame([(plan,)], "plan string")


def describe_query(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame:
    """Return the result of Spark's DESCRIBE QUERY, the names and types of a query's columns, as a frame."""
    text, frames = replace_braces(text, frames)
    found = analyze_query(spark, text, args, frames)
    own, used = _resolve_frames(spark, found, frames, lambda each: _empty_frame(spark, found, each))
    return _run_text(spark, f"DESCRIBE QUERY {own}", found, used)


# Spark analyzes a changed text, in which data frames replace tables. Its errors count positions in that text, and end
# with a plan that contains internal names.

Edit = tuple[int, int, str]
_PLACE = re.compile(r"(?:;\s*|\s*\()line (\d+),? pos (\d+)\)?")
_FRAME = re.compile(r"`?_pyspark_\w+`?")
_BEHIND = re.compile(r";\n|\n+== SQL ==")  # the begin of a plan, or of the text that Spark parsed
_WORD = re.compile(r"[\w.`]+")
FRAME_LENGTH = len("_pyspark_") + 32  # length of the name that PySpark gives a data frame in a text


@contextmanager
def translate_positions(text: str, edits: Sequence[Edit]) -> Iterator[None]:
    """Context manager: re-raise PySpark's errors about a statement with positions in the user's text.

    Args:
        text: The statement as the user wrote it.
        edits: The replacements that turn it into Spark's text: start and end in `text`, and new text.
    """
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        change_message(error, lambda said: translate_message(said, text, edits))
        raise


def change_message(error: Exception, change: Callable[[str], str]) -> None:
    """Apply `change` to the message of a PySpark error, of a classic or Connect session, in place."""
    for name in ("_desc", "_message"):
        if isinstance(said := getattr(error, name, None), str) and said:
            setattr(error, name, change(said))


def translate_message(said: str, text: str, edits: Sequence[Edit]) -> str:
    """Return Spark's message `said` without plan and statement, and with the place underlined in the user's `text`.

    For `edits`, see `translate_positions`.
    """
    head = _BEHIND.split(said.strip(), maxsplit=1)[0]
    place = _PLACE.search(said)
    at = None if place is None else _find_position(int(place[1]), int(place[2]), text, edits)
    message = _FRAME.sub("a table", _PLACE.sub("", head)).strip()
    if at is None:
        return message
    word = _WORD.match(text, at)
    return f"{message}{underline_place(text, at, at + 1 if word is None else word.end())}"


def _find_position(line: int, column: int, text: str, edits: Sequence[Edit]) -> int | None:
    """Convert a line (from 1) and column (from 0) of Spark's text to a position in the user's `text`.

    A position in replaced text becomes the start of the replacement. None if the place is not in the text.
    """
    lines = apply_edits(text, edits).split("\n")
    if line > len(lines):
        return None
    place = sum(len(each) + 1 for each in lines[: line - 1]) + column
    moved = 0
    for start, end, new in sorted(edits):
        if place < start + moved:
            break
        if place < start + moved + len(new):
            return start
        moved += len(new) - (end - start)
    found = place - moved
    return found if 0 <= found < len(text) else None
