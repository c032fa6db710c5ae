"""Build the rows of a checkpoint; the table's properties decide which columns its adds and removes have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal as PyDecimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.commit.actions import ADD, REMOVE, TEXTS
from lakescan.delta.commit.json_texts import stats_texts
from lakescan.delta.data_files.stats_json import is_indexed
from lakescan.delta.log.json_lines import parse_json_texts
from lakescan.delta.log.log_text import ADVICE, Action, LogText, only_actions, single_actions
from lakescan.delta.log.replay import canonical_paths, keep_rows, log_position, resolve_paths
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.partition_values import parse_timestamps, typed_values
from lakescan.delta.scan.statistics import DECIMALS, NOT_FINITE, within
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.writing.file_statistics import LeafColumn, leaves_of

_FIRST = ("path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "deletionVector", "baseRowId")
_LAST = ("defaultRowCommitVersion", "clusteringProvider")


@dataclass(frozen=True)
class CheckpointRows:
    """Builds the add and remove rows of a checkpoint.

    - `location`: the table's location; `partition_fields`: its partition columns.
    - `has_texts`: whether statistics are kept as JSON (`stats`); `parsed`: the columns of `stats_parsed`, or None.
    - `removed_after`: milliseconds since 1970; tombstones of files that were removed until then have expired.
    """

    location: str
    partition_fields: Sequence[t.Field]
    has_texts: bool
    parsed: ParsedStats | None
    removed_after: int

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows, with the columns `add` and `remove`."""
        fields = [ADD.field(name) for name in (*_FIRST, *_LAST)]
        if self.has_texts:
            fields.append(ADD.field("stats"))
        if self.parsed is not None:
            fields.append(pa.field("stats_parsed", self.parsed.type()))
            if self.partition_fields:
                fields.append(pa.field("partitionValues_parsed", partition_type(self.partition_fields)))
        return pa.schema([pa.field("add", pa.struct(fields)), pa.field("remove", pa.struct(list(REMOVE)))])

    def build(self, actions: pa.Table) -> pa.Table:
        """Return the checkpoint rows of reconciled file actions, without expired tombstones.

        Raises `CorruptMetadata` for an add without a value for every partition column.
        """
        is_add = actions["is_add"].to_numpy()
        removed = pc.struct_field(actions["remove"].combine_chunks(), "deletionTimestamp")
        fresh = pc.fill_null(pc.greater(removed, self.removed_after), False).to_numpy(zero_copy_only=False)
        kept = keep_rows(actions, is_add | fresh)
        self._check_partitions(kept)
        adds, removes = kept["add"].combine_chunks(), kept["remove"].combine_chunks()
        recorded = kept["stats_parsed"].combine_chunks() if "stats_parsed" in kept.column_names else None
        recorded = recorded if recorded is not None and pa.types.is_struct(recorded.type) else None
        return pa.table([self._adds(adds, recorded), _clear_data_change(removes)], schema=self.schema)

    def _check_partitions(self, actions: pa.Table) -> None:
        row = pc.index(pc.and_(actions["is_add"], pc.invert(actions["has_partition"])), True).as_py()
        if row >= 0:
            names = ", ".join(f.physical_name for f in self.partition_fields)
            raise CorruptMetadata(
                f"{log_position(actions, row)}: the action needs a value for each partition column ({names}). {ADVICE}"
            )

    def _adds(self, adds: pa.StructArray, recorded: pa.StructArray | None) -> pa.StructArray:
        kind = self.schema.field("add").type
        members = {name: pc.struct_field(_clear_data_change(adds), name) for name in (*_FIRST, *_LAST)}
        texts = pc.struct_field(adds, "stats")
        if self.has_texts:
            members["stats"] = texts if recorded is None else _fill_texts(texts, recorded)
        if self.parsed is not None:
            members["stats_parsed"] = self._parse_stats(texts, recorded, self.parsed)
            if self.partition_fields:
                values = pc.struct_field(adds, "partitionValues")
                members["partitionValues_parsed"] = parsed_partitions(values, self.partition_fields)
        values = [members[field.name] for field in kind]
        return pa.StructArray.from_arrays(values, fields=list(kind), mask=adds.is_null())

    def _parse_stats(self, texts: pa.Array, recorded: pa.StructArray | None, parsed: ParsedStats) -> pa.StructArray:
        """Return the column `stats_parsed`.

        It is copied from `recorded`, that of the last checkpoint, where possible, else parsed from the JSON in `texts`.
        """
        if recorded is None:
            return parsed.parse_texts(texts)
        if recorded.type.equals(parsed.type()):
            first, use_first = recorded, recorded.is_valid()
        else:
            first, use_first = parsed.convert_stats(recorded), texts.is_null()
        if pc.all(pc.or_(use_first, texts.is_null()), min_count=0).as_py():
            return first
        return pc.if_else(use_first, first, parsed.parse_texts(texts))


def _fill_texts(texts: pa.Array, recorded: pa.StructArray) -> pa.Array:
    """Return the JSON statistics in `texts`; missing ones are generated from `recorded`, the last `stats_parsed`."""
    missing = pc.and_(texts.is_null(), recorded.is_valid())
    if not pc.any(missing).as_py():
        return texts
    return pc.replace_with_mask(texts, missing, stats_texts(recorded.filter(missing)))


def _clear_data_change(actions: pa.StructArray) -> pa.StructArray:
    """Return the actions with `dataChange` set to false, as a checkpoint requires."""
    members = dict(zip([f.name for f in actions.type], actions.flatten(), strict=True))
    members["dataChange"] = pa.repeat(pa.scalar(False), len(actions))
    return pa.StructArray.from_arrays(list(members.values()), fields=list(actions.type), mask=actions.is_null())


class LiveFileCounter:
    """Counts the adds of a checkpoint while it is written, and checks that each file is live only once.

    `count` and `size` are the number and total bytes of the files so far.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._paths: list[pa.Array] = []
        self.count: int = 0
        self.size: int = 0

    def add(self, rows: pa.Table) -> None:
        """Count the adds in these rows."""
        adds = rows["add"].combine_chunks()
        adds = adds.filter(adds.is_valid())
        paths = resolve_paths(pa.table({"path": pc.struct_field(adds, "path")}), self._location)["path"]
        self._paths.append(canonical_paths(paths.combine_chunks()).cast(pa.large_string()))
        self.count += len(adds)
        self.size += pc.sum(pc.struct_field(adds, "size")).as_py() or 0

    def check(self) -> None:
        """Raise `CorruptMetadata` if a file is live twice, since its rows would be read twice."""
        paths = pa.concat_arrays([pa.array([], pa.large_string()), *self._paths])
        codes = paths.dictionary_encode().indices.to_numpy()
        if (twice := np.flatnonzero(np.bincount(codes) > 1)).size:
            path = paths[int(np.flatnonzero(codes == twice[0])[0])].as_py()
            raise CorruptMetadata(
                f"{self._location}: the data file {path} is live twice: a remove action is missing or damaged. {ADVICE}"
            )


_STRINGS = pa.list_(pa.string())
_FORMAT = pa.struct([pa.field("provider", pa.string()), pa.field("options", TEXTS)])
OTHER_ACTIONS: Mapping[str, pa.StructType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", _FORMAT),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", TEXTS),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
_NAMES = tuple(OTHER_ACTIONS)


@dataclass
class OtherActions:
    """The newest protocol, metaData, txn per application and domainMetadata per domain of a log.

    Actions are applied in ascending order of versions. `of_table` has protocol and metaData by action name,
    `transactions` has txn actions by application id, and `domains` has domainMetadata actions by domain, also removed
    ones.
    """

    of_table: dict[str, Action] = field(default_factory=dict)
    transactions: dict[str | None, Action] = field(default_factory=dict)
    domains: dict[str | None, Action] = field(default_factory=dict)

    def apply_commit(self, commit: LogText) -> None:
        """Apply the actions of the next commit; raises `CorruptMetadata`."""
        self.apply(reversed(list(single_actions(commit, _NAMES))))

    def apply(self, actions: Iterable[Action]) -> None:
        """Apply the actions of one version, oldest first.

        Raises `CorruptMetadata` for two different protocol or metaData actions, or an action without its key.
        """
        actions = list(actions)
        self.of_table |= only_actions(each for each in actions if each.name in ("protocol", "metaData"))
        for action in actions:
            if action.name == "txn":
                self.transactions[_key(action, "appId")] = action
            elif action.name == "domainMetadata":
                self.domains[_key(action, "domain")] = action

    def required_action(self, name: str, location: str, version: int) -> Action:
        """Return the protocol or metaData action; raises `CorruptMetadata` without one."""
        if name not in self.of_table:
            raise CorruptMetadata(f"{location}: the log has no {name} action up to version {version}")
        return self.of_table[name]

    def live(self, transactions_after: int | None = None) -> list[Action]:
        """Return the actions without removed domains and without transactions last updated at or before a time.

        `transactions_after` is the time in milliseconds since 1970, None for all transactions. Raises
        `CorruptMetadata`.
        """
        domains = [each for each in self.domains.values() if not each.get("removed")]
        recent = [
            each
            for each in self.transactions.values()
            if transactions_after is None or (each.whole_number("lastUpdated") or 0) > transactions_after
        ]
        return [*self.of_table.values(), *domains, *recent]

    def rows(self, transactions_after: int | None) -> list[tuple[str, dict[str, Any]]]:
        """Return the name and checkpoint row of each live action; `transactions_after` as for `live`.

        Raises `CorruptMetadata`, and `UnsupportedFeature` for fields that the checkpoint would lose.
        """
        return [(each.name, _row(each)) for each in self.live(transactions_after)]


def _key(action: Action, member: str) -> str | None:
    key = action.text(member)
    if key is None:
        raise action.wrong(member, "text")
    return key


def _row(action: Action) -> dict[str, Any]:
    kind = OTHER_ACTIONS[action.name]
    return {f.name: _value(action, f) for f in _check_members(action, kind)}


def _check_members(action: Action, kind: pa.StructType) -> pa.StructType:
    known = {f.name for f in kind}
    if lost := sorted(name for name, value in action.members.items() if value is not None and name not in known):
        raise UnsupportedFeature(
            f"writing a checkpoint with the member {action.name}.{lost[0]}", f"{action.where} has it; it would be lost."
        )
    return kind


def _value(action: Action, member: pa.Field) -> Any:
    """Return a field of an action as a value that `pa.array` accepts for its type."""
    if member.type == TEXTS:
        return list(action.text_map(member.name).items())
    if member.type == _FORMAT:
        node = action.get("format") or {"provider": "parquet"}
        inner = Action("metaData.format", node, action.where)
        return {"provider": inner.text("provider"), "options": list(inner.text_map("options").items())}
    if member.type == _STRINGS:
        return action.texts(member.name)
    if pa.types.is_integer(member.type):
        return action.whole_number(member.name)
    return bool(action.get(member.name)) if pa.types.is_boolean(member.type) else action.text(member.name)


# Implements `stats_parsed` and `partitionValues_parsed` (protocol, "Checkpoints"). A value that does not fit its
# column's type becomes null, which readers take as unknown.

_BOUNDS = ("minValues", "maxValues")
_DATE = r"^\d{4}-\d{2}-\d{2}$"
_TIME = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?$"
_ZONE = r"(Z|[+-]\d{2}:\d{2})$"


@dataclass(frozen=True)
class StatsColumn:
    """A column with statistics: its path of physical names and its type."""

    path: tuple[str, ...]
    type: t.Type

    @property
    def has_bounds(self) -> bool:
        """True if Delta records minimum and maximum values for columns of this type."""
        kinds = (*t.INTEGRAL, *t.FLOATING, t.DATE, t.STRING)
        return self.type in kinds or isinstance(self.type, t.Timestamp | t.Decimal)


def columns_with_stats(schema: Schema, partition: Sequence[str], properties: DeltaProperties) -> list[StatsColumn]:
    """Return the columns whose statistics a table keeps, in schema order; never those inside lists and maps.

    `partition` are the names of the partition columns, which have none.
    """
    fields = tuple(f for f in schema.fields if f.name not in partition and f.type != t.UNKNOWN)
    leaves = leaves_of(fields)
    indexed = is_indexed(leaves, properties)
    return [_column(leaf) for leaf, kept in zip(leaves, indexed, strict=True) if kept and leaf.field.type != t.UNKNOWN]


def _column(leaf: LeafColumn) -> StatsColumn:
    return StatsColumn(tuple(field.physical_name for field in leaf.way), leaf.field.type)


@dataclass(frozen=True)
class ParsedStats:
    """Converts file statistics to `stats_parsed`; `has_tight_bounds` adds the field that deletion vectors need."""

    columns: Sequence[StatsColumn]
    has_tight_bounds: bool

    def parse_texts(self, texts: pa.Array) -> pa.StructArray:
        """Return `stats_parsed` from JSON statistics, null for files without them."""
        texts = pc.replace_substring_regex(texts, NOT_FINITE, ":null")
        return self._build(parse_json_texts(texts, self._schema(parsed=False)), texts.is_valid())

    def convert_stats(self, stats: pa.StructArray) -> pa.StructArray:
        """Return `stats_parsed` from that of another checkpoint, whose columns may differ."""
        return self._build(stats, stats.is_valid())

    def type(self) -> pa.DataType:
        """Return the Arrow type of `stats_parsed`."""
        return pa.struct(list(self._schema(parsed=True)))

    def _build(self, source: pa.Table | pa.StructArray, present: pa.Array) -> pa.StructArray:
        rows = source.combine_chunks().to_struct_array() if isinstance(source, pa.Table) else source
        rows = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
        kind = self.type()
        members = [self._member(rows, field, ()) for field in kind]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=pc.invert(present))

    def _member(self, rows: pa.StructArray, field: pa.Field, path: tuple[str, ...]) -> pa.Array:
        way = (*path, field.name)
        if pa.types.is_struct(field.type):
            members = [self._member(rows, inner, way) for inner in field.type]
            return pa.StructArray.from_arrays(members, fields=list(field.type))
        recorded = _walk(rows, way)
        return pa.nulls(len(rows), field.type) if recorded is None else _convert_or_null(recorded, field.type, way[0])

    def _schema(self, *, parsed: bool) -> pa.Schema:
        bounded = [(c.path, c.type.arrow() if parsed else _json_type(c.type)) for c in self.columns if c.has_bounds]
        fields = [pa.field("numRecords", pa.int64())]
        if bounded:
            fields += [pa.field(name, nested_type(bounded)) for name in _BOUNDS]
        if self.columns:
            fields.append(pa.field("nullCount", nested_type([(c.path, pa.int64()) for c in self.columns])))
        if self.has_tight_bounds:
            fields.append(pa.field("tightBounds", pa.bool_()))
        return pa.schema(fields)


def nested_type(leaves: Sequence[tuple[tuple[str, ...], pa.DataType]]) -> pa.DataType:
    """Return a struct type that has a leaf of each type at its path."""
    heads: dict[str, list[tuple[tuple[str, ...], pa.DataType]]] = {}
    for path, kind in leaves:
        heads.setdefault(path[0], []).append((path[1:], kind))
    return pa.struct(
        [pa.field(name, rest[0][1] if not rest[0][0] else nested_type(rest)) for name, rest in heads.items()]
    )


def _json_type(kind: t.Type) -> pa.DataType:
    """Return the Arrow type that a column's bounds have when JSON statistics are parsed."""
    if isinstance(kind, t.Decimal):
        return DECIMALS
    if kind in t.INTEGRAL:
        return pa.int64()
    return pa.float64() if kind in t.FLOATING else pa.string()


def _walk(rows: pa.StructArray, path: Sequence[str]) -> pa.Array | None:
    for name in path:
        index = rows.type.get_field_index(name) if pa.types.is_struct(rows.type) else -1
        if index < 0:
            return None
        rows = pc.struct_field(rows, [index])
    return rows


def _convert_or_null(values: pa.Array, kind: pa.DataType, role: str) -> pa.Array:
    """Convert recorded statistics values to a column's type, or return nulls if they cannot be converted.

    `role` is their field in the statistics, such as `minValues`: decimal bounds are rounded down or up accordingly.
    """
    try:
        return _convert(values, kind, role)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(values), kind)


def _convert(values: pa.Array, kind: pa.DataType, role: str) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_decimal(kind) and pa.types.is_decimal(values.type):
        rounded = pc.round(values.cast(DECIMALS), kind.scale, "down" if role == "minValues" else "up")
        return within(rounded, PyDecimal((0, (9,) * kind.precision, -kind.scale))).cast(kind)
    if pa.types.is_string(values.type) and pa.types.is_date(kind):
        return _matching(values, _DATE).cast(kind)
    if pa.types.is_string(values.type) and pa.types.is_timestamp(kind):
        texts = _matching(values, _TIME)
        if kind.tz is not None:
            texts = _matching(texts, _ZONE)
        return parse_timestamps(texts, t.Timestamp("us", zoned=kind.tz is not None))
    return values.cast(kind)


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def parsed_partitions(values: pa.MapArray, fields: Sequence[t.Field]) -> pa.StructArray:
    """Return `partitionValues_parsed`: partition values as a struct of typed columns by physical name.

    Raises `CorruptMetadata` for a text that is not a value of the column's type.
    """
    members = [
        typed_values(pc.map_lookup(values, pa.scalar(f.physical_name), "first"), replace(f, pad=0)) for f in fields
    ]
    return pa.StructArray.from_arrays(members, fields=list(partition_type(fields)))


def partition_type(fields: Sequence[t.Field]) -> pa.DataType:
    """Return the Arrow type of `partitionValues_parsed`."""
    return pa.struct([pa.field(f.physical_name, f.type.arrow()) for f in fields])
