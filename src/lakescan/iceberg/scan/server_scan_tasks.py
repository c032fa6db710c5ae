"""Convert file scan tasks of a catalog's server to file tables (REST specification, `ScanTasks`).

Tasks list the deletes of each data file, but no sequence numbers. Readers need these to decide which equality deletes
are newer than a file, so `equality_scopes` invents consistent ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.manifests.manifest_reader import STATS
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.scan.manifest_scan import ManifestScan
from lakescan.planning.candidates import Candidates
from lakescan.planning.delete_files import DeleteKind, DeleteReferences
from lakescan.planning.file_table import DELETES, FileTable

_PAIRS = {
    name: pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary() if name.endswith("bounds") else pa.int64())]))
    for name in STATS.values()
}
_WIDTHS: dict[t.Type, int] = {t.INT: 4, t.LONG: 8, t.FLOAT: 4, t.DOUBLE: 8, t.DATE: 4, t.TIME: 8, t.BOOLEAN: 1}
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_EQUALITY = "equality-deletes"


def candidates_of(tasks: Mapping[str, Any], scan: ManifestScan, what: str) -> Iterator[Candidates]:
    """Yield the data files of tasks with their deletes, grouped by spec, without files that the filter rules out.

    `what` names the server's answer in errors. Raises `CorruptMetadata` for tasks that cannot be parsed.
    """
    try:
        found, deletes = _task_list(tasks, "file-scan-tasks"), _task_list(tasks, "delete-files")
        by_spec: dict[int, list[Mapping[str, Any]]] = {}
        for each in found:
            by_spec.setdefault(int(each["data-file"]["spec-id"]), []).append(each)
        for spec_id, some in by_spec.items():
            yield _spec_candidates(some, deletes, scan, scan.specs[spec_id])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, pa.ArrowException) as error:
        raise CorruptMetadata(f"{what}: its file scan tasks cannot be read: {type(error).__name__}: {error}") from error


def plan_tasks_of(tasks: Mapping[str, Any], what: str) -> tuple[str, ...]:
    """Return the plan tasks that an answer refers to; raises `CorruptMetadata` if they are not a list of strings."""
    found = tasks.get("plan-tasks")
    if found is not None and not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
        raise CorruptMetadata(f"{what}: its plan tasks are not a list of strings: {str(found)[:60]}")
    return tuple(found or ())


def _task_list(tasks: Mapping[str, Any], name: str) -> list[Any]:
    found = tasks.get(name)
    if found is not None and not isinstance(found, list):  # an empty string must not mean a table without rows
        raise TypeError(f"{name} is not a list: {str(found)[:60]}")
    return found or []


def _spec_candidates(
    tasks: Sequence[Mapping[str, Any]], deletes: Sequence[Mapping[str, Any]], scan: ManifestScan, spec: PartitionSpec
) -> Candidates:
    sets = [tuple(sorted(set(each.get("delete-file-references") or ()))) for each in tasks]
    if any(number < 0 for numbers in sets for number in numbers):
        raise ValueError("a reference to a delete file is negative")
    files = _entries([each["data-file"] for each in tasks], spec, scan)
    numbered = files.append_column("number", pa.array(np.arange(files.num_rows)))
    candidates, kept = scan.prune(numbered, spec)
    table, references, ages = _with_deletes([sets[n] for n in kept["number"].to_pylist()], deletes)
    whole = candidates.table.with_deletes(references, table)
    at = whole.files.schema.get_field_index("sequence_number")
    aged = whole.files.set_column(at, whole.files.schema.field(at), pa.array(ages, pa.int64()))
    return replace(candidates, table=FileTable(aged, table, whole.stats, whole.constant_fields))


def _with_deletes(
    sets: Sequence[tuple[int, ...]], deletes: Sequence[Mapping[str, Any]]
) -> tuple[pa.Table, DeleteReferences, list[int | None]]:
    """Return the delete table of data files, each file's references to it, and the files' sequence numbers.

    `sets` are the deletes of each data file, as indexes into `deletes`, the server's JSON objects.
    """
    is_equality = [str(each["content"]).lower().replace("_", "-") == _EQUALITY for each in deletes]
    by_position = [n for n, is_one in enumerate(is_equality) if not is_one]
    row_of = {number: row for row, number in enumerate(by_position)}
    pairs = [(file, row_of[n]) for file, numbers in enumerate(sets) for n in numbers if not is_equality[n]]
    found = equality_scopes([[n for n in numbers if is_equality[n]] for numbers in sets], _places(deletes))
    rows = [_delete(deletes[n], DeleteKind.POSITION, None, None) for n in by_position]
    starts = list[int]()
    for scope in found.scopes:
        starts.append(len(rows))
        name = _scope_name([(str(deletes[n]["file-path"]), age) for n, age in scope])
        rows += [_delete(deletes[n], DeleteKind.EQUALITY, name, age) for n, age in scope]
    spans = [(file, starts[scope] + first, starts[scope] + stop) for file, scope, first, stop in found.ranges]
    columns = list(zip(*pairs, strict=True)) or [(), ()]
    bounds = list(zip(*spans, strict=True)) or [(), (), ()]
    one, other, file_of, first, stop = (np.array(each, dtype=np.int64) for each in (*columns, *bounds))
    references = DeleteReferences.build(len(sets), (one, other), (file_of, first, stop))
    return pa.Table.from_pylist(rows, schema=DELETES), references, found.ages


def _scope_name(scope: Sequence[tuple[str, int]]) -> str:
    """Return the hash of a scope, pairs of a location and a sequence number, as its name.

    It depends on nothing else, so that several answers of the server can be combined.
    """
    return f"server/{hashlib.sha256(json.dumps(scope).encode()).hexdigest()}"


def _places(deletes: Sequence[Mapping[str, Any]]) -> list[Hashable]:
    """Return where each delete applies, as hashable values: its spec, partition, and the columns that it compares."""
    return [
        (each["spec-id"], json.dumps(each.get("partition")), tuple(each.get("equality-ids") or ())) for each in deletes
    ]


def _delete(file: Mapping[str, Any], kind: DeleteKind, scope: str | None, age: int | None) -> dict[str, Any]:
    form, length = str(file["file-format"]).lower(), file.get("content-size-in-bytes")
    return {
        "kind": DeleteKind.VECTOR if form == "puffin" else kind,
        "path": file["file-path"],
        "file_format": form,
        "offset": file.get("content-offset"),
        "length": length,
        "record_count": file["record-count"],
        "size": file["file-size-in-bytes"] if length is None else length,
        "sequence_number": age,
        "equality_ids": file.get("equality-ids") if scope is not None else None,
        "key_metadata": _bytes(file.get("key-metadata")),
        "scope": scope,
    }


def _entries(files: Sequence[Mapping[str, Any]], spec: PartitionSpec, scan: ManifestScan) -> pa.Table:
    """Return data files of one spec (JSON objects) as a table with the columns of `read_manifests`."""
    columns: dict[str, pa.Array] = {
        "content": pa.repeat(pa.scalar(0, pa.int32()), len(files)),
        "file_path": pa.array([each["file-path"] for each in files], pa.string()),
        "file_format": pa.array([str(each["file-format"]).lower() for each in files], pa.string()),
        "record_count": pa.array([each["record-count"] for each in files], pa.int64()),
        "file_size_in_bytes": pa.array([each["file-size-in-bytes"] for each in files], pa.int64()),
        "key_metadata": pa.array([_bytes(each.get("key-metadata")) for each in files], pa.binary()),
        "split_offsets": pa.array([each.get("split-offsets") for each in files], pa.list_(pa.int64())),
        "first_row_id": pa.array([each.get("first-row-id") for each in files], pa.int64()),
        "sequence_number": pa.nulls(len(files), pa.int64()),
        "spec_id": pa.repeat(pa.scalar(spec.id, pa.int32()), len(files)),
        "partition": _partitions(files, spec),
        "stats": _stats(files, {number: field.type for number, field in scan.columns.items()}),
    }
    return pa.table(columns)


def _partitions(files: Sequence[Mapping[str, Any]], spec: PartitionSpec) -> pa.StructArray:
    values = [_partition_values(each.get("partition"), spec) for each in files]
    members = []
    for position, partition_field in enumerate(spec.fields):
        arrow = partition_field.type.arrow()
        kind = arrow.storage_type if isinstance(arrow, pa.ExtensionType) else arrow
        parse = _parser(partition_field.type)
        members.append(pa.array([None if (v := each[position]) is None else parse(v) for each in values], kind))
    if not members:
        return pa.array([{}] * len(files), pa.struct([]))
    return pa.StructArray.from_arrays(members, names=[str(field.id) for field in spec.fields])


def _partition_values(partition: Any, spec: PartitionSpec) -> Sequence[Any]:
    """Return the values of a partition in spec order; the server sends a list, or an object by field id.

    Raises `ValueError` for a list of another length than the spec.
    """
    if isinstance(partition, Mapping):
        return [partition.get(str(field.id)) for field in spec.fields]
    given = [] if partition is None else list(partition)
    if len(given) != len(spec.fields):
        raise ValueError(f"a partition has {len(given)} values, and the spec {spec.id} {len(spec.fields)} fields")
    return given


def _parser(kind: t.Type) -> Callable[[Any], Any]:
    """Return a parser for JSON values of a type (appendix C, "JSON single-value serialization")."""
    if isinstance(kind, t.Timestamp):
        unit = kind.unit
        return lambda value: _instant(str(value), unit)
    if isinstance(kind, t.Decimal):
        return lambda value: Decimal(str(value))
    if kind == t.BINARY or isinstance(kind, t.Fixed):
        return lambda value: bytes.fromhex(value)
    parsers: dict[t.Type, Callable[[Any], Any]] = {
        t.DATE: lambda value: date.fromisoformat(value),
        t.TIME: lambda value: time.fromisoformat(value),
        t.UUID: lambda value: UUID(value).bytes,
        t.FLOAT: float,
        t.DOUBLE: float,
    }
    return parsers.get(kind, lambda value: value)


def _instant(text: str, unit: str) -> int:
    """Parse a timestamp to a number of its unit since 1970.

    An offset, if present, must be `Z` or `+00:00`.
    """
    texts = np.array([text.removesuffix("Z").removesuffix("+00:00")])
    return int(texts.astype(f"datetime64[{unit}]").astype(np.int64)[0])


def _stats(files: Sequence[Mapping[str, Any]], types: Mapping[int, t.Type]) -> pa.StructArray:
    """Return the counts of files, and those of their bounds whose encoding is certain.

    `types` are the types of the wanted columns by field id. Bounds are certain if they are the hexadecimal digits of a
    type with a fixed width.
    """
    members = []
    for name in STATS.values():
        written = name.replace("_", "-")
        pairs = [_pairs(each.get(written), types, is_bound=name.endswith("bounds")) for each in files]
        members.append(pa.array(pairs, _PAIRS[name]))
    return pa.StructArray.from_arrays(members, names=list(STATS.values()))


def _pairs(given: Any, types: Mapping[int, t.Type], *, is_bound: bool) -> list[dict[str, Any]] | None:
    if given is None:
        return None
    found = []
    for key, value in zip(given["keys"], given["values"], strict=True):
        if key in types and (bound := _bound(value, types[key]) if is_bound else value) is not None:
            found.append({"key": key, "value": bound})
    return found


def _bound(value: Any, kind: t.Type) -> bytes | None:
    """Return the bytes of a bound in hexadecimal digits; None for types without a fixed width, and for another length.

    Such a bound may be encoded in another way.
    """
    width = 8 if isinstance(kind, t.Timestamp) else _WIDTHS.get(kind)
    is_certain = isinstance(value, str) and width is not None and len(value) == 2 * width
    return bytes.fromhex(value) if is_certain and _HEX.fullmatch(value) else None


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


# Readers look up the deletes of a scope together, and delete a row if the delete is newer than its file. A server lists
# the deletes of each data file, without sequence numbers. Usually, the sets of deletes of the files in a place contain
# each other, because each file has all deletes that are newer than itself. Then the place is one scope, with invented
# sequence numbers that give the same sets. Otherwise, each set is a scope, whose deletes are all newer than its files.

_FIRST = 0  # the least sequence number


@dataclass
class EqualityScopes:
    """Scopes of equality deletes: for each, pairs of a delete's index and sequence number, the oldest first.

    `ranges` are (file, scope, first delete in the scope, last delete, exclusive). `ages` are the sequence numbers of
    files, None for files without equality deletes.
    """

    ages: list[int | None]
    scopes: list[list[tuple[int, int]]] = field(default_factory=list)
    ranges: list[tuple[int, int, int, int]] = field(default_factory=list)


def equality_scopes(sets: Sequence[Sequence[int]], places: Sequence[Hashable]) -> EqualityScopes:
    """Return the scopes of data files with these sets of deletes, given the place of each delete.

    A place is a spec, a partition and the compared columns.

    >>> equality_scopes([[0, 1], [1], []], ["p", "p"]).scopes
    [[(0, 1), (1, 2)]]
    """
    found = EqualityScopes([None] * len(sets))
    by_place: dict[Hashable, list[tuple[int, frozenset[int]]]] = {}
    has_several = set[Hashable]()  # places whose deletes some file has together with those of other places
    for file, numbers in enumerate(sets):
        own: dict[Hashable, list[int]] = {}
        for number in numbers:
            own.setdefault(places[number], []).append(number)
        if len(own) > 1:
            has_several |= own.keys()
        for place, some in own.items():
            by_place.setdefault(place, []).append((file, frozenset(some)))
    for place, files in by_place.items():
        chain = sorted({numbers for _, numbers in files}, key=len)
        is_chain = all(one < other for one, other in pairwise(chain))
        if is_chain and place not in has_several:
            _add_chain(found, files, chain)
        else:
            _add_sets(found, files)
    return found


def _add_chain(
    found: EqualityScopes, files: Sequence[tuple[int, frozenset[int]]], chain: Sequence[frozenset[int]]
) -> None:
    """Add one scope for sets that contain each other, with sequence numbers that follow from the sets.

    The smaller the smallest set with a delete, the newer the delete. The larger the set of a file, the older the file.
    """
    most = len(chain[-1])
    newer, known = list[tuple[int, int]](), frozenset[int]()
    for numbers in chain:
        newer[:0] = [(each, _FIRST + 1 + most - len(numbers)) for each in sorted(numbers - known)]
        known = numbers
    for file, numbers in files:
        found.ages[file] = _FIRST + most - len(numbers)
        found.ranges.append((file, len(found.scopes), most - len(numbers), most))
    found.scopes.append(newer)


def _add_sets(found: EqualityScopes, files: Sequence[tuple[int, frozenset[int]]]) -> None:
    """Add a scope for each distinct set of deletes, all of them newer than the files."""
    number_of: dict[frozenset[int], int] = {}
    for file, numbers in files:
        if numbers not in number_of:
            number_of[numbers] = len(found.scopes)
            found.scopes.append([(each, _FIRST + 1) for each in sorted(numbers)])
        found.ages[file] = _FIRST
        found.ranges.append((file, number_of[numbers], 0, len(numbers)))
