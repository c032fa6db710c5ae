"""The rows of a checkpoint: which columns its adds and removes have, by the table's properties, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.delta.commit.file_changes import ADD, REMOVE
from lakescan.delta.commit.json_stats import stats_texts
from lakescan.delta.commit.parsed_stats import ParsedStats, parsed_partitions, partition_type
from lakescan.delta.log.kept_rows import keep_rows
from lakescan.delta.log.replay import canonical_paths, log_position, resolve_paths
from lakescan.delta.log.text import ADVICE
from lakescan.errors import CorruptMetadata

_FIRST = ("path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "deletionVector", "baseRowId")
_LAST = ("defaultRowCommitVersion", "clusteringProvider")


@dataclass(frozen=True)
class CheckpointRows:
    """Makes the adds and removes of a checkpoint.

    - `location`: the table's; `partition_fields`: its partition columns.
    - `has_texts`: whether statistics are kept as JSON; `parsed`: how they are kept as columns, None if they are not.
    - `removed_after`: milliseconds since 1970; files that were removed until then have expired.
    """

    location: str
    partition_fields: Sequence[t.Field]
    has_texts: bool
    parsed: ParsedStats | None
    removed_after: int

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns `add` and `remove`."""
        fields = [ADD.field(name) for name in (*_FIRST, *_LAST)]
        if self.has_texts:
            fields.append(ADD.field("stats"))
        if self.parsed is not None:
            fields.append(pa.field("stats_parsed", self.parsed.type()))
            if self.partition_fields:
                fields.append(pa.field("partitionValues_parsed", partition_type(self.partition_fields)))
        return pa.schema([pa.field("add", pa.struct(fields)), pa.field("remove", pa.struct(list(REMOVE)))])

    def build(self, actions: pa.Table) -> pa.Table:
        """The rows of reconciled actions, those that have expired left out; raises `CorruptMetadata`."""
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
        """Statistics as columns: those of the last checkpoint if they have the same columns, else from the texts."""
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
    """The texts, and where there is none, texts made of the recorded statistics."""
    missing = pc.and_(texts.is_null(), recorded.is_valid())
    if not pc.any(missing).as_py():
        return texts
    return pc.replace_with_mask(texts, missing, stats_texts(recorded.filter(missing)))


def _clear_data_change(actions: pa.StructArray) -> pa.StructArray:
    """The actions with `dataChange` false, as those of a checkpoint have it."""
    members = dict(zip([f.name for f in actions.type], actions.flatten(), strict=True))
    members["dataChange"] = pa.repeat(pa.scalar(False), len(actions))
    return pa.StructArray.from_arrays(list(members.values()), fields=list(actions.type), mask=actions.is_null())


class LiveFileCounter:
    """What is counted of the adds of a checkpoint while it is written; each file must be live once."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._paths: list[pa.Array] = []
        self.count: int = 0
        self.size: int = 0

    def add(self, rows: pa.Table) -> None:
        """Count the adds of some rows."""
        adds = rows["add"].combine_chunks()
        adds = adds.filter(adds.is_valid())
        paths = resolve_paths(pa.table({"path": pc.struct_field(adds, "path")}), self._location)["path"]
        self._paths.append(canonical_paths(paths.combine_chunks()).cast(pa.large_string()))
        self.count += len(adds)
        self.size += pc.sum(pc.struct_field(adds, "size")).as_py() or 0

    def check(self) -> None:
        """Raise `CorruptMetadata` if a file is live twice: its rows would be read twice."""
        paths = pa.concat_arrays([pa.array([], pa.large_string()), *self._paths])
        codes = paths.dictionary_encode().indices.to_numpy()
        if (twice := np.flatnonzero(np.bincount(codes) > 1)).size:
            path = paths[int(np.flatnonzero(codes == twice[0])[0])].as_py()
            raise CorruptMetadata(
                f"{self._location}: the data file {path} is live twice: a remove action is missing or damaged. {ADVICE}"
            )
