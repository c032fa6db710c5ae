"""The delete index: which delete files apply to which data files (specification, "Scan Planning").

- A deletion vector applies to the one data file that it references, and supersedes position deletes there.
- A position delete file applies to data files of its partition, or only to the one that it references, that are not
  newer (data sequence number <= delete sequence number).
- An equality delete file applies to data files of its partition, or to all if its spec is unpartitioned, that are older
  (data sequence number < delete sequence number), unless statistics show that the file has none of its keys.

Matching is columnar: a join on partition yields the candidate pairs of all files at once, which are then filtered.
Equality deletes are not paired. They are grouped by scope (a partition or the whole table) and compared columns, and
sorted by sequence number within a group. So a range of each group, from the first newer delete to the end, applies to a
data file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import dictionary_codes
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.manifests.bounds import recorded_stats
from lakescan.iceberg.manifests.manifest_file import EQUALITY_DELETES
from lakescan.iceberg.scan.equality_delete_pruning import ComparedColumns, sharing_keys
from lakescan.iceberg.scan.file_names import FileNames
from lakescan.planning.delete_files import DeleteKind, DeleteReferences
from lakescan.planning.file_table import DELETES, key_texts
from lakescan.reading.deletes.position_deletes import DELETED_PATH
from lakescan.storage.locations import LocationMatcher


@dataclass(frozen=True)
class _Pairs:
    """Matches of data files with delete files: row numbers in both, as two arrays of equal length."""

    data: np.ndarray
    delete: np.ndarray

    def where(self, mask: np.ndarray) -> _Pairs:
        return _Pairs(self.data[mask], self.delete[mask])


@dataclass(frozen=True)
class _EqualityPlaces:
    """The equality deletes of each group (same scope and compared columns).

    - `first`, `stop`: the group's rows of the index (`stop` is exclusive), which are sorted by sequence number.
    - `is_global`: whether the group applies to the whole table, rather than to one partition.
    - `key`: sorts the rows by group and sequence number: the number of the group, combined with the position of the
      sequence number in `sequences`.
    """

    first: np.ndarray
    stop: np.ndarray
    is_global: np.ndarray
    sequences: np.ndarray
    key: np.ndarray

    @staticmethod
    def none() -> _EqualityPlaces:
        nothing = np.empty(0, dtype=np.int64)
        return _EqualityPlaces(nothing, nothing, np.empty(0, dtype=bool), nothing, nothing)

    @staticmethod
    def build(rows: np.ndarray, first: np.ndarray, is_global: np.ndarray, sequence: np.ndarray) -> _EqualityPlaces:
        """Return the groups of the equality deletes in `rows` (neighbouring rows of the index, sorted by group).

        `first` has the first row of each group, `is_global` whether it applies everywhere, and `sequence` the sequence
        number of each row.
        """
        stop = np.append(first[1:], rows[-1] + 1)
        sequences, number = np.unique(sequence, return_inverse=True)
        place = np.repeat(np.arange(len(first)), stop - first)
        return _EqualityPlaces(first, stop, is_global, sequences, place * (len(sequences) + 1) + number.reshape(-1))

    def newer_than(self, sequence: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return the first row of each group in `place` with a number greater than that in `sequence`, else its `stop`.

        Both arrays have the same length: sequence numbers of data files, and indexes of groups.
        """
        number = np.searchsorted(self.sequences, sequence, side="right")
        found: np.ndarray = self.first[0] + np.searchsorted(self.key, place * (len(self.sequences) + 1) + number)
        return found


@dataclass(frozen=True)
class DeleteIndex:
    """The live delete files of a snapshot: `entries` as read from manifests, `table` as used by planning.

    - `fields`: all fields that the table has or had, by id.
    - `places`: normalizes the locations of data files.
    - `named`: for each delete file, whether `match` has found a data file that the delete may apply to.
    - `respelled`: for each delete file, whether a data file matched only by another spelling of its location.
    """

    entries: pa.Table
    table: pa.Table
    unpartitioned_specs: frozenset[int]
    fields: Mapping[int, t.Field]
    places: LocationMatcher
    named: np.ndarray = field(init=False, compare=False)
    respelled: np.ndarray = field(init=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("named", "respelled"):
            object.__setattr__(self, name, np.zeros(self.table.num_rows, dtype=bool))

    @staticmethod
    def build(
        entries: pa.Table | None,
        unpartitioned_specs: frozenset[int],
        fields: Mapping[int, t.Field],
        places: LocationMatcher | None = None,
    ) -> DeleteIndex:
        """Build the index from delete entries, which are None for a snapshot without delete manifests.

        `fields` are all fields that the table has or had, by id, because equality ids refer to them. `places`
        normalizes the locations of data files, which deletes may spell differently.
        """
        places = places or LocationMatcher()
        if entries is None or not entries.num_rows:
            return DeleteIndex(pa.table({}), DELETES.empty_table(), unpartitioned_specs, fields, places)
        is_vector = pc.equal(entries["file_format"], "puffin")
        is_equality = pc.equal(entries["content"], EQUALITY_DELETES)
        by_position = pc.if_else(is_vector, DeleteKind.VECTOR, DeleteKind.POSITION)
        kind = pc.if_else(is_equality, DeleteKind.EQUALITY, by_position)
        places_of = _scopes(entries, unpartitioned_specs)
        order = _index_order(entries, is_equality, places_of)
        entries = entries.take(order)
        table = pa.table(
            {
                "kind": kind.take(order),
                "path": entries["file_path"],
                "file_format": entries["file_format"],
                "offset": entries["content_offset"],
                "length": entries["content_size_in_bytes"],
                "inline": pa.nulls(entries.num_rows, pa.binary()),
                "record_count": entries["record_count"],
                "size": pc.coalesce(entries["content_size_in_bytes"], entries["file_size_in_bytes"]),
                "sequence_number": entries["sequence_number"],
                "equality_ids": entries["equality_ids"],
                "key_metadata": entries["key_metadata"],
                "scope": places_of.take(order),
                "kept": pa.nulls(entries.num_rows, pa.bool_()),
            },
            schema=DELETES,
        )
        return DeleteIndex(entries, table, unpartitioned_specs, fields, places)

    @property
    def compares_keys(self) -> bool:
        """Whether there are equality deletes, which column statistics of data files can rule out."""
        return len(self._equality_places.first) > 0

    @property
    def names_data_files(self) -> bool:
        """Whether there are deletes that name data files: position deletes and deletion vectors."""
        return self.table.num_rows > len(self._rows(DeleteKind.EQUALITY))

    @property
    def dangling(self) -> int:
        """The number of position delete files and vectors that `match` has found no data file for."""
        return int((~self.named & pc.not_equal(self.table["kind"], DeleteKind.EQUALITY).to_numpy()).sum())

    def match(self, data: pa.Table, names: FileNames | None = None) -> DeleteReferences:
        """Return the deletes that apply to each data file; `data` has the columns `ScannedFiles.matching`.

        `names` are the locations of all data files that are planned together, if `data` is only some of them. Raises
        `UnsupportedFeature` for a delete whose data file is ambiguous.
        """
        if not self.table.num_rows:
            return DeleteReferences(data.num_rows)
        names = names or FileNames(pc.unique(data["file_path"]), self.places)
        vectors = self._vectors(data, names)
        positions = self._positions(data, names)
        positions = positions.where(~np.isin(positions.data, vectors.data))
        pairs = [np.concatenate([getattr(each, n) for each in (vectors, positions)]) for n in ("data", "delete")]
        return DeleteReferences.build(data.num_rows, (pairs[0], pairs[1]), self._equality(data))

    def _rows(self, kind: str) -> np.ndarray:
        result: np.ndarray = np.flatnonzero(pc.equal(self.table["kind"], kind).to_numpy())
        return result

    def _vectors(self, data: pa.Table, names: FileNames) -> _Pairs:
        rows = self._rows(DeleteKind.VECTOR)
        if self._references.names.take(pa.array(rows)).null_count:
            raise CorruptMetadata("a deletion vector has no referenced_data_file")
        pairs = self._match_names(data, names, self._named_by_vectors, rows)
        if len(np.unique(pairs.data)) != len(pairs.data):
            doubled = data["file_path"][int(pairs.data[np.argsort(pairs.data)[0]])]
            raise CorruptMetadata(
                f"a data file has more than one deletion vector; the first file with a vector is {doubled}"
            )
        return pairs.where(_sequence(self.entries, pairs.delete) >= _sequence(data, pairs.data))

    def _positions(self, data: pa.Table, names: FileNames) -> _Pairs:
        rows = self._rows(DeleteKind.POSITION)
        if not len(rows):
            return _Pairs(rows, rows)
        known = pc.is_valid(self._references.names).to_numpy(zero_copy_only=False)[rows]
        named = self._match_names(data, names, self._named_by_positions, rows[known])
        by_partition = self._match_partitions(data, rows[~known])
        self.named[by_partition.delete] = True
        pairs = _Pairs(
            np.concatenate([named.data, by_partition.data]),
            np.concatenate([named.delete, by_partition.delete]),
        )
        return pairs.where(_sequence(self.entries, pairs.delete) >= _sequence(data, pairs.data))

    @cached_property
    def _references(self) -> FileNames:
        """The name of the one data file that each delete file references; null for several or unknown data files."""
        lower, upper = self._path_bounds
        single = pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, pa.string()))
        referenced = pc.coalesce(self.entries["referenced_data_file"].combine_chunks(), single)
        is_vector = pc.equal(self.table["kind"], DeleteKind.VECTOR).combine_chunks()
        own = pc.if_else(is_vector, self.entries["referenced_data_file"].combine_chunks(), referenced)
        return FileNames(own, self.places)

    @cached_property
    def _named_by_vectors(self) -> FileNames:
        return FileNames(self._references.names.take(pa.array(self._rows(DeleteKind.VECTOR))), self.places)

    @cached_property
    def _named_by_positions(self) -> FileNames:
        rows = pa.array(self._rows(DeleteKind.POSITION))
        return FileNames(self._references.names.take(rows).drop_null(), self.places)

    def _match_names(self, data: pa.Table, names: FileNames, wanted: FileNames, rows: np.ndarray) -> _Pairs:
        """Return pairs of data files and the deletes that name them, and mark these deletes in `named` and `respelled`.

        `names` are those of the data files, `wanted` those in the deletes, which are the rows `rows` of the index.
        """
        matches = names.find(data["file_path"], wanted)
        delete = rows[matches.name]
        self.named[delete] = True
        self.respelled[delete[matches.respelled]] = True
        return _Pairs(matches.data, delete)

    def _equality(self, data: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ranges of equality deletes that may apply to data files.

        The three arrays have row numbers: the data file, the first delete of the index, and the last delete
        (exclusive).
        """
        places = self._equality_places
        if not len(places.first):
            return places.first, places.first, places.first
        is_global = np.flatnonzero(places.is_global)
        inside = self._match_partitions(data, places.first[~places.is_global])
        file = np.concatenate([np.tile(np.arange(data.num_rows), len(is_global)), inside.data])
        of_partition = np.searchsorted(places.first, inside.delete)
        place = np.concatenate([np.repeat(is_global, data.num_rows), of_partition])
        first, stop = places.newer_than(_sequence(data, file), place), places.stop[place]
        some = first < stop
        return sharing_keys(data, self._key_columns, (file[some], first[some], stop[some]))

    @cached_property
    def _key_columns(self) -> ComparedColumns:
        return ComparedColumns(self.entries, self.fields)

    @cached_property
    def _equality_places(self) -> _EqualityPlaces:
        rows = self._rows(DeleteKind.EQUALITY)
        if not len(rows):
            return _EqualityPlaces.none()
        wanted = pa.array(rows)
        texts = (self.table["scope"], key_texts(self.table))
        starts = np.any([np.diff(dictionary_codes(each.take(wanted)), prepend=-2) != 0 for each in texts], axis=0)
        first = rows[starts]
        specs = self.entries["spec_id"].take(pa.array(first)).to_numpy()
        is_global = np.isin(specs, list(self.unpartitioned_specs))
        return _EqualityPlaces.build(rows, first, is_global, _sequence(self.entries, rows))

    @cached_property
    def _path_bounds(self) -> tuple[pa.Array, pa.Array]:
        stats = recorded_stats(self.entries, DELETED_PATH)
        unknown = pa.nulls(self.entries.num_rows, pa.string())
        return (
            unknown if stats.lower is None else stats.lower,
            unknown if stats.upper is None else stats.upper,
        )

    def _match_partitions(self, data: pa.Table, rows: np.ndarray) -> _Pairs:
        """Return all pairs of a data file and a delete file of `rows` with the same spec and partition."""
        if not len(rows) or not data.num_rows:
            return _Pairs(np.empty(0, np.int64), np.empty(0, np.int64))
        data_keys, delete_keys = _partition_keys(data, self.entries.take(pa.array(rows)))
        order = np.argsort(data_keys, kind="stable")
        low = np.searchsorted(data_keys[order], delete_keys, side="left")
        counts = np.searchsorted(data_keys[order], delete_keys, side="right") - low
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return _Pairs(order[np.repeat(low, counts) + within], np.repeat(rows, counts))


def _scopes(entries: pa.Table, unpartitioned_specs: frozenset[int]) -> pa.Array:
    """Return where each equality delete applies: "spec/partition", or "" (everywhere) if its spec is unpartitioned."""
    everywhere = pc.is_in(entries["spec_id"], value_set=pa.array(sorted(unpartitioned_specs), pa.int32()))
    partition = pc.binary_join_element_wise(entries["spec_id"].cast(pa.string()), entries["partition_key"], "/")
    return pc.if_else(everywhere, "", partition)


def _index_order(entries: pa.Table, is_equality: pa.ChunkedArray, scopes: pa.Array) -> pa.Array:
    """Return the row numbers of entries in the order of the index.

    Position deletes come first, in their order, then equality deletes by group and sequence number.
    """
    by_key = np.asarray(is_equality)
    sequence = pc.fill_null(entries["sequence_number"], 0).to_numpy()
    keys = (sequence, dictionary_codes(scopes), dictionary_codes(key_texts(entries)))
    return pa.array(np.lexsort([np.where(by_key, each, 0) for each in keys] + [by_key]))


def _sequence(files: pa.Table, rows: np.ndarray) -> np.ndarray:
    result: np.ndarray = files["sequence_number"].to_numpy()[rows]
    return result


def _partition_keys(data: pa.Table, deletes: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers for the rows of both tables, which are equal exactly if spec and partition are."""
    specs, partitions = (
        pa.chunked_array([*data[n].chunks, *deletes[n].chunks]).combine_chunks() for n in ("spec_id", "partition_key")
    )
    numbers = dictionary_codes(partitions)
    keys = specs.to_numpy().astype(np.int64) * (numbers.max(initial=0) + 1) + numbers
    return keys[: data.num_rows], keys[data.num_rows :]
