"""What a manifest says, held against its manifest list and the specification: what contradicts itself is not read.

A delete file that is taken for data, or for a delete of another kind, gives other rows and no error. So does a manifest
that was cut where a block ends, which only the counts of its list tell. They are believed one way: entries that are
there though the list does not count them are read, as the reference does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.manifests.avro_container import Container
from lakescan.storage.faults import shown

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, POSITIONS, EQUALITY = 0, 1, 2
_LIVE, _OF_LIVE = (EXISTING, ADDED), ("added", "existing")  # statuses, and what a manifest list calls them
_MOST_ROWS = 1 << 44  # of a file: so that those of all files can be added up
_DELETES = 1  # the content of a manifest in its list
_CONTENTS = {b"data": DATA, b"deletes": _DELETES}
_NAMES = {DATA: "data files", _DELETES: "deletes"}
Manifest = Mapping[str, Any]  # a row of a manifest list


def check_header(file: Container, manifest: Manifest) -> None:
    """The header says of content and partition spec what the manifest list says, or nothing; raises `CorruptMetadata`.

    Without counts in the list, a file that is shorter than the list says is refused, too.
    """
    fields = {each["name"] for each in file.written.record["fields"]}
    ids = {each.get("field-id") for each in file.written.record["fields"]}
    if not ({"status", "data_file"} <= fields or {0, 2} <= ids):
        raise fault(manifest, "it is not a manifest: its records have no status or data_file")
    content, listed = file.metadata.get("content"), manifest.get("content") or DATA
    if content is not None and _CONTENTS.get(content) != listed:
        raise fault(manifest, f"its header says {_said(content)}, and its manifest list that it is of {_NAMES[listed]}")
    spec_id, listed = file.metadata.get("partition-spec-id"), manifest.get("partition_spec_id")
    if spec_id is not None and listed is not None and spec_id != b"%d" % listed:
        raise fault(manifest, f"its header says partition spec {_said(spec_id)}, and its manifest list spec {listed}")
    counts = (manifest.get("added_files_count"), manifest.get("existing_files_count"))
    if None in counts and file.size < (manifest.get("manifest_length") or 0):
        raise fault(manifest, f"it has {file.size:,} bytes of {manifest['manifest_length']:,}: it was cut off")


def check_counts(status: np.ndarray, number: np.ndarray, manifests: Sequence[Manifest]) -> None:
    """No manifest has fewer entries than its list counts; `number` says which entry is of which manifest."""
    for statuses, names in ((_LIVE, _OF_LIVE), ((DELETED,), ("deleted",))):
        found = np.bincount(number[np.isin(status, statuses)], minlength=len(manifests))
        told = _told(manifests, names)
        for place in np.flatnonzero(found < told)[:1].tolist():
            raise fault(
                manifests[place],
                f"it has {found[place]:,} entries of {' or '.join(names)} files, and its manifest list counts "
                f"{told[place]:,}: it was cut off, or changed",
            )


def check_once(paths: pa.Array, number: np.ndarray, manifests: Sequence[Manifest]) -> None:
    """No manifest has a live data file twice that its list counts once; `paths` and `number` are those of live entries.

    Such an entry was repeated, and would double the file's rows. A file that was committed twice is counted twice, and
    read twice, as by the reference.
    """
    found, told = np.bincount(number, minlength=len(manifests)), _told(manifests, _OF_LIVE)
    for place in np.flatnonzero((found > told) & (told > 0)).tolist():
        if manifests[place].get("content") == _DELETES:
            continue
        counted = paths.filter(pa.array(number == place)).value_counts()
        if (twice := pc.index(pc.greater(counted.field("counts"), 1), True).as_py()) >= 0:
            path = shown(counted.field("values")[twice].as_py())
            raise fault(
                manifests[place],
                f"it has {found[place]:,} entries of added or existing files, its manifest list counts "
                f"{told[place]:,}, and {path} is in it more than once: an entry was repeated",
            )


def _told(manifests: Sequence[Manifest], names: Sequence[str]) -> np.ndarray:
    """The entries that manifest lists count; what one does not tell is below any number."""
    told = np.zeros(len(manifests), dtype=np.int64)
    for name in names:
        listed = [manifest.get(f"{name}_files_count") for manifest in manifests]
        told += [-(2**32) if count is None else count for count in listed]
    return told


def check_status(status: pa.Array, number: pa.Array, manifests: Sequence[Manifest]) -> None:
    """Each entry is of a file that exists, was added, or deleted."""
    wrong = pc.invert(
        pc.fill_null(pc.is_in(status, value_set=pa.array([EXISTING, ADDED, DELETED], status.type)), False)
    )
    if (place := pc.index(wrong, True).as_py()) >= 0:
        raise fault(manifests[number[place].as_py()], f"an entry has the status {status[place].as_py()}, not 0, 1 or 2")


def known_ages(numbers: pa.ChunkedArray, path: str, *, needed: bool) -> pa.ChunkedArray:
    """Sequence numbers of files, 0 for those that have none; where they are `needed`, they are missed."""
    if numbers.null_count and needed:
        raise CorruptMetadata(
            f"manifest {shown(path)}: it, or one that is read with it, has an entry of a file that was there before, "
            "without a sequence number: which deletes apply to it cannot be told. Read an older snapshot."
        )
    return pc.fill_null(numbers, 0)


def check_files(columns: Mapping[str, pa.Array], number: pa.Array, manifests: Sequence[Manifest]) -> None:
    """Files are of the content that their manifest is of, and have what that content needs; `columns` has no nulls
    in `content`, and `file_format` in lower case."""
    content, is_vector = columns["content"], pc.equal(columns["file_format"], "puffin")
    in_deletes = pa.array([(m.get("content") or DATA) == _DELETES for m in manifests]).take(number)
    is_equality, is_delete = pc.equal(content, EQUALITY), pc.is_in(content, value_set=pa.array([1, 2], content.type))
    length, offset = columns["content_size_in_bytes"], columns["content_offset"]
    located = pc.and_(pc.invert(_outside(offset, limits.FILE_SIZE)), pc.invert(_outside(length, limits.FILE_SIZE)))
    located = pc.and_(located, pc.greater(length, 0))
    rules = [
        *(
            (pc.is_null(columns[n]), f"no {n}")
            for n in ("file_path", "file_format", "record_count", "file_size_in_bytes")
        ),
        (_outside(columns["record_count"], _MOST_ROWS), f"a record_count that is not from 0 to {_MOST_ROWS:,}"),
        (pc.and_(in_deletes, pc.invert(is_delete)), "a content of a data file, and the manifest is of deletes"),
        (
            pc.and_(pc.invert(in_deletes), pc.not_equal(content, DATA)),
            "a content of a delete file in a manifest of data",
        ),
        (pc.and_(pc.invert(in_deletes), is_vector), "the format puffin, which no data file has"),
        (pc.and_(is_equality, is_vector), "the content of equality deletes in a file of deletion vectors"),
        (_and_not(is_equality, pc.greater(pc.list_value_length(columns["equality_ids"]), 0)), "no equality_ids"),
        (_and_not(is_vector, pc.is_valid(columns["referenced_data_file"])), "no referenced_data_file for its vector"),
        (_and_not(is_vector, located), "no content_offset and content_size_in_bytes that its vector could have"),
    ]
    for wrong, has in rules:
        if (place := pc.index(wrong, True).as_py()) >= 0:
            path = columns["file_path"][place].as_py()
            entry = "an entry" if path is None else f"the entry of {shown(path)}"
            raise fault(manifests[number[place].as_py()], f"{entry} has {has}")


def _outside(values: pa.Array, most: int) -> pa.Array:
    return pc.or_(pc.less(values, 0), pc.greater(values, most))


def _and_not(mask: pa.Array, wanted: pa.Array) -> pa.Array:
    """Where the mask holds and what is wanted does not, or is not known."""
    return pc.and_(mask, pc.invert(pc.fill_null(wanted, False)))


def fault(manifest: Manifest, problem: str) -> CorruptMetadata:
    """The error for a manifest, with what can be done."""
    return CorruptMetadata(
        f"manifest {shown(manifest['manifest_path'])}: {problem}. Restore the file, or read an older snapshot."
    )


def _said(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))
