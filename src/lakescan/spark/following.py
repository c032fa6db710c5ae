"""Frames that follow their table: each query reads the state that is current when Spark plans it.

The frames of the JVM libraries do so, unless they select a snapshot or version. The columns stay those of the time when
the frame was made. One query reads one state of each table, however often it names the table: `PlanningStates` keeps
the states that a planning has resolved, by the id of the planning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import types as s

from lakescan.api.open import open_table
from lakescan.catalogs.lookup import find_table, identifier_of
from lakescan.catalogs.registry import registered_at
from lakescan.common import types as t
from lakescan.common.identifiers import Identifier
from lakescan.common.schema import Schema
from lakescan.errors import LakescanError, LocationRefused, NoSuchColumn, SchemaChanged
from lakescan.formats.metadata_table import MetadataTable
from lakescan.formats.table_format import SnapshotSelector, TableFormat
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.spark.session import is_connect
from lakescan.spark.types import as_spark_batch, schema_of, spark_schema, spark_type
from lakescan.storage import Storage
from lakescan.storage.errors import redact
from lakescan.storage.locations import normal
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.time_travel import selector_from
from lakescan.tables.wap import apply_session_reads, is_audited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
R = TypeVar("R")
FOLLOW = "follow"  # read option: the columns of a following frame, as a Spark schema in JSON
CATALOG = "follow-catalog"  # read option: when the table's catalog got its properties, which sets sessions apart
LATE = "follow-late"  # read option: one task opens the table when it reads, for a read that Spark plans only once
_MOST_FRAMES = 64
_MOST_TABLES = 64
_MOST_PLANNINGS = 128
Scope = Callable[["SparkSession"], AbstractContextManager[None]]
_SCOPES: list[Scope] = []


def use_scope(scope: Scope) -> None:
    """Set the function `scope`: while its context manager is entered, names of tables are those of the session."""
    _SCOPES[:] = [scope]


def follows(scan: ScanSpec) -> bool:
    """Return whether a frame of the scan may follow its table: the scan selects no snapshot, version, tag or changes.

    A branch is followed at its head.
    """
    if scan.state is not None or scan.executor is not None or scan.file_filters:
        return False
    try:
        selector = scan.selector or selector_from(scan.options) or SnapshotSelector()
    except LakescanError:
        return False
    return selector in (SnapshotSelector(), SnapshotSelector(branch=selector.branch, wap_branch=selector.wap_branch))


@dataclass(frozen=True)
class FollowingRead:
    """A read that follows its table.

    - `spec`: the scan when the frame was made, with the table's state of then.
    - `metadata`: the name of the metadata table that is read; None for the table's rows.
    - `schema`: the columns of the frame.
    - `catalog_at`: when the catalog of the table's name got its properties; see `registered_at`.
    """

    spec: ScanSpec
    metadata: str | None
    schema: s.StructType
    catalog_at: int = 0
    _last: list[tuple[TableFormat, SessionSettings, ScanSpec]] = field(default_factory=list, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return FollowingRead, (self.spec, self.metadata, self.schema, self.catalog_at)

    @staticmethod
    def of(spec: ScanSpec, metadata: str | None = None) -> FollowingRead:
        """Return the read of a scan, with the columns that the scan has now."""
        schema = schema_of(spec) if metadata is None else spark_schema(spec.metadata_table(metadata).schema)
        identifier = identifier_of(spec.name) if spec.name else None
        catalog_at = 0 if identifier is None else registered_at(identifier.catalog)
        return FollowingRead(spec, metadata, schema, catalog_at)

    @property
    def has_secrets(self) -> bool:
        """Whether its options would show secrets in plans. The name of a table shows none: workers know its catalog."""
        storage = self.spec.storage
        return bool(storage.options) or (storage.has_secrets and not self.spec.name)

    def to_options(self) -> dict[str, str]:
        """Return options of `spark.read.format("lakescan")` that open the table when Spark plans the read.

        Raises `InvalidOption` as `ScanSpec.to_options` does.
        """
        options = self.spec.to_following_options()
        if self.metadata is not None:
            options["path"] = f"{options['path']}#{self.metadata}"
        catalog = {CATALOG: str(self.catalog_at)} if self.catalog_at else {}
        return {**options, **catalog, FOLLOW: self.schema.json()}

    def scan_at(self, table: TableFormat, staging: Callable[[], SessionSettings]) -> ScanSpec:
        """Return the scan of the frame's columns in a state of the table.

        `staging` returns the staging settings of the session, and is only called for audited tables. Raises
        `SchemaChanged` if the table lacks a column, or has it with another type.
        """
        spec = self._at(table)
        session = staging() if is_audited(spec) else NO_SESSION
        last = self._last[0] if self._last else None
        if last is not None and last[0] is table and last[1] == session:
            return last[2]
        found = self._with_columns(apply_session_reads(spec, session))
        self._last[:] = [(table, session, found)]
        return found

    def _at(self, table: TableFormat) -> ScanSpec:
        if table is self.spec.table:
            return self.spec
        is_moved = normal(table.location) != normal(self.spec.table.location)
        storage: Storage = getattr(table, "storage", self.spec.storage) if is_moved else self.spec.storage
        return replace(self.spec, table=table, storage=storage)

    def _with_columns(self, spec: ScanSpec) -> ScanSpec:
        names = self.schema.names
        try:
            found = spec if spec.output.names == names else spec.narrow_columns(names)
            if found.output.names != names:
                raise self._changed(f"they are now {', '.join(found.output.names)}")
        except NoSuchColumn as error:
            raise self._changed(str(error).rstrip(".")) from error
        nanos = spec.options.nanos_as_long
        kinds: dict[int, t.Type] = {}
        for own, wanted in zip(found.output.fields, self.schema.fields, strict=True):
            kind = _narrow_type(own, wanted.dataType, wanted.nullable, nanos)
            if kind is None:
                raise self._changed(f"column {own.name} is now {_describe(own, nanos)}, and was {_spark_text(wanted)}")
            if kind != own.type:
                kinds[own.id] = kind
        return found if not kinds else self._with_types(found, kinds)

    def _with_types(self, spec: ScanSpec, kinds: Mapping[int, t.Type]) -> ScanSpec:
        """Return the scan with fewer members in some columns, by field id: those of the frame."""
        snapshot = spec.snapshot
        fields = tuple(replace(e, type=kinds[e.id]) if e.id in kinds else e for e in snapshot.schema.fields)
        found = replace(spec, state=replace(snapshot, schema=Schema(fields, snapshot.schema.id)))
        if schema_of(found).simpleString() != self.schema.simpleString():
            raise self._changed("columns have other members")
        return found

    def metadata_at(self, table: TableFormat) -> MetadataTable:
        """Return the metadata table in a state of the table."""
        assert self.metadata is not None
        return self._at(table).metadata_table(self.metadata)

    def narrow_metadata(self, table: MetadataTable, names: Sequence[str]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return a function that narrows batches of the metadata table to columns and members of the frame.

        Raises `SchemaChanged` as `scan_at` does.
        """
        by_name = {each.name: each for each in table.schema.fields}
        schema = s.StructType([self.schema[name] for name in names])
        kinds = []
        for wanted in schema.fields:
            own = by_name.get(wanted.name)
            if own is None:
                raise self._changed(f"there is no column {wanted.name}")
            kind = _narrow_type(own, wanted.dataType, wanted.nullable, False)
            if kind is None:
                raise self._changed(f"column {own.name} is now {_describe(own, False)}, and was {_spark_text(wanted)}")
            kinds.append(replace(own, type=kind))
        return partial(_narrow_batch, kinds, schema)

    def _changed(self, how: str) -> SchemaChanged:
        return SchemaChanged(
            f"the columns of {self.spec.name or redact(self.spec.location)} have changed since the frame was made: "
            f"{how}. Make the frame again"
        )


def _narrow_batch(fields: Sequence[t.Field], schema: s.StructType, batch: pa.RecordBatch) -> pa.RecordBatch:
    names = [each.name for each in fields]
    columns = [_narrow_array(batch.column(each.name), each.type) for each in fields]
    return as_spark_batch(pa.RecordBatch.from_arrays(columns, names), fields, schema)


def _narrow_array(array: pa.Array, kind: t.Type) -> pa.Array:
    """Return an array of structs without the members that the type lacks; other arrays are returned unchanged."""
    if not isinstance(kind, t.Struct) or [each.name for each in array.type] == [each.name for each in kind.fields]:
        return array
    members = [_narrow_array(array.field(each.name), each.type) for each in kind.fields]
    fields = [pa.field(each.name, member.type) for each, member in zip(kind.fields, members, strict=True)]
    return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)


def _describe(own: t.Field, nanos: bool) -> str:
    return f"{spark_type(own.type, nanos).simpleString()}{' NOT NULL' if own.required else ''}"


def _spark_text(wanted: s.StructField) -> str:
    return f"{wanted.dataType.simpleString()}{'' if wanted.nullable else ' NOT NULL'}"


def _narrow_type(own: t.Field, wanted: s.DataType, nullable: bool, nanos: bool) -> t.Type | None:
    """Return the type of a field without the struct members that a Spark type lacks.

    None if the field has another type, lacks a member, or may be null although the Spark type is not.
    """
    if not nullable and not own.required:
        return None
    kind = own.type
    match kind, wanted:
        case t.Struct(), s.StructType():
            by_name = {each.name: each for each in kind.fields}
            members = []
            for each in wanted.fields:
                member = by_name.get(each.name)
                found = None if member is None else _narrow_type(member, each.dataType, each.nullable, nanos)
                if member is None or found is None:
                    return None
                members.append(member if found == member.type else replace(member, type=found))
            return kind if tuple(members) == kind.fields else t.Struct(tuple(members))
        case t.ListOf(), s.ArrayType():
            element = _narrow_type(kind.element, wanted.elementType, wanted.containsNull, nanos)
            if element is None:
                return None
            return kind if element == kind.element.type else t.ListOf(replace(kind.element, type=element))
        case t.MapOf(), s.MapType():
            key = _narrow_type(replace(kind.key, required=True), wanted.keyType, True, nanos)
            value = _narrow_type(kind.value, wanted.valueType, wanted.valueContainsNull, nanos)
            if key is None or value is None:
                return None
            if (key, value) == (kind.key.type, kind.value.type):
                return kind
            return t.MapOf(replace(kind.key, type=key), replace(kind.value, type=value))
    return kind if spark_type(kind, nanos).simpleString() == wanted.simpleString() else None


class PlanningStates:
    """The states of tables that the most recent plannings have resolved.

    `table` resolves the state of a read's table once per planning. A planning without an id resolves each read alone.
    """

    def __init__(self) -> None:
        self._plannings: OrderedDict[str, _Tables] = OrderedDict()
        self._latest: OrderedDict[_Key, TableFormat] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._plannings)

    def table(self, spark: SparkSession, planning: str | None, read: FollowingRead) -> TableFormat:
        """Return the state of a read's table for a planning of a session; raises the errors of opening the table."""
        with self._lock:
            tables = _Tables() if planning is None else self._plannings.setdefault(planning, _Tables())
            if planning is not None:
                self._plannings.move_to_end(planning)
            while len(self._plannings) > _MOST_PLANNINGS:
                self._plannings.popitem(last=False)
        key = _key(read.spec, (read.spec.name or normal(read.spec.table.location), read.catalog_at))
        with tables.lock:
            if key not in tables.by_key:
                with _SCOPES[0](spark) if _SCOPES else nullcontext():
                    table = self._newest(key, read.spec)
                tables.by_key[key] = tables.by_key.setdefault(_key(read.spec, normal(table.location)), table)
            return tables.by_key[key]

    def forget(self, planning: str) -> None:
        """Forget the states of a planning that has ended."""
        with self._lock:
            self._plannings.pop(planning, None)

    def _newest(self, key: _Key, spec: ScanSpec) -> TableFormat:
        """Return the table in its newest state; metadata that was read before is used again if it is unchanged."""
        with self._lock:
            known = self._latest.get(key, spec.table)
        table = newest_table(spec, known)
        with self._lock:
            self._latest[key] = table
            self._latest.move_to_end(key)
            while len(self._latest) > _MOST_TABLES:
                self._latest.popitem(last=False)
        return table


_Place = str | tuple[str, int]  # a location, or a name with the time at which its catalog got its properties
_Key = tuple[str, _Place, str]


def _key(spec: ScanSpec, place: _Place) -> _Key:
    return spec.table.name, place, repr((spec.storage.options, spec.storage.relocate))


@dataclass
class _Tables:
    """The states of a planning's tables, by name and by location."""

    lock: RLock = field(default_factory=RLock)
    by_key: dict[_Key, TableFormat] = field(default_factory=dict)


def newest_table(spec: ScanSpec, known: TableFormat) -> TableFormat:
    """Return the table of a scan in its newest state, given an earlier state (`known`), which is returned if unchanged.

    A name refers to the table that its catalog has under it now. Raises `NotATable` or `NoSuchTable` if it is gone.
    """
    identifier = identifier_of(spec.name) if spec.name else None
    if identifier is None:
        return known.follow()
    if not known.knows_its_name:
        entry = find_table(identifier)
        is_moved = entry.format != known.name or normal(entry.location) != normal(known.location)
        return _open_again(spec, identifier) if is_moved else known.follow()
    try:
        found = known.follow()
    except LocationRefused:  # of the storage of the table's earlier location
        return _open_again(spec, identifier)
    return found if normal(found.location) == normal(known.location) else _open_again(spec, identifier)


def _open_again(spec: ScanSpec, identifier: Identifier) -> TableFormat:
    """Open the table that a catalog has under the name now, at another location than before."""
    given: dict[str, Any] = {"storage-options": spec.storage.options, "relocate": spec.storage.relocate}
    options = spec.options.merge_arguments({name: each for name, each in given.items() if each})
    return open_table(identifier, options).scan().spec.table


_OPERATION: ContextVar[str | None] = ContextVar("lakescan_operation", default=None)
_PROPERTY = "lakescan.operation"  # local property of Spark, which the optimizer rule reads


@contextmanager
def one_state(spark: SparkSession) -> Iterator[None]:
    """Context manager: all queries of this thread read one state per table, like those of a MERGE that reads its source
    twice.
    """
    if _OPERATION.get() is not None:
        yield
        return
    operation = uuid4().hex
    token = _OPERATION.set(operation)
    context = None if is_connect(spark) else spark.sparkContext
    if context is not None:
        context.setLocalProperty(_PROPERTY, operation)
    try:
        yield
    finally:
        if context is not None:
            context.setLocalProperty(_PROPERTY, None)
        _OPERATION.reset(token)
        STATES.forget(operation)


def in_one_state(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of a function whose first argument is a session: it runs in `one_state`."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        spark: Any = args[0]
        with one_state(spark):
            return function(*args, **kwargs)

    return run


@contextmanager
def planning() -> Iterator[str]:
    """Context manager: return the id of a planning in this thread, whose states are forgotten at the end."""
    operation = _OPERATION.get()
    found = operation or uuid4().hex
    try:
        yield found
    finally:
        if operation is None:
            STATES.forget(found)


class FollowingReads:
    """The following reads of the most recent frames, by the options of their reads."""

    def __init__(self) -> None:
        self._known: OrderedDict[frozenset[tuple[str, str]], FollowingRead] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, options: Mapping[str, str], read: FollowingRead) -> None:
        """Store the read of a frame with these options, and remove the least recently used ones above a limit."""
        with self._lock:
            self._known[_options_key(options)] = read
            self._known.move_to_end(_options_key(options))
            while len(self._known) > _MOST_FRAMES:
                self._known.popitem(last=False)

    def find(self, options: Mapping[str, str]) -> FollowingRead | None:
        """Return the read of a frame with these options; None if it is not stored."""
        with self._lock:
            key = _options_key(options)
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)


def _options_key(options: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name.lower(), value) for name, value in options.items())


FOLLOWING = FollowingReads()
STATES = PlanningStates()
