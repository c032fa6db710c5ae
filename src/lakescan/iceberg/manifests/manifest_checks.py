"""Validate manifests against their manifest list and the specification, and refuse contradictions.

A delete file read as a data file, or as another kind of delete, would give wrong rows without an error. So would a
manifest truncated at a block boundary, which only the counts in its list reveal. The counts are checked in one
direction: a manifest may have more entries than the list counts, as in the reference implementation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.errors import CorruptMetadata
from lakescan.iceberg.manifests.avro_decode import Container
from lakescan.iceberg.manifests.manifest_file import (
    ADDED,
    DATA,
    DATA_FILE,
    DELETED,
    DELETES,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    ManifestFile,
)
from lakescan.storage.errors import redact

_LIVE, _OF_LIVE = (EXISTING, ADDED), ("added", "existing")  # statuses, and their names in manifest lists
_MOST_ROWS = 1 << 44  # per file, so that the sum over all files does not overflow
_CONTENTS = {b"data": DATA, b"deletes": DELETES}
_NAMES = {DATA: "data files", DELETES: "deletes"}


def check_header(file: Container, manifest: ManifestFile) -> None:
    """Check that content and partition spec in the manifest's header match the list; raises `CorruptMetadata`.

    If the list has no counts, a file that is shorter than its length in the list is refused too.
    """
    fields = {each["name"] for each in file.written.record["fields"]}
    ids = {each.get("field-id") for each in file.written.record["fields"]}
    if not ({"status", "data_file"} <= fields or {0, 2} <= ids):
        raise fault(manifest, "it is not a manifest: its records have no status or data_file")
    content, listed = file.metadata.get("content"), manifest.content
    if content is not None and _CONTENTS.get(content) != listed:
        says = f"its header has the content {_header_value(content)}"
        raise fault(manifest, f"{says}, but its manifest list records that it contains {_NAMES[listed]}")
    spec_id, listed = file.metadata.get("partition-spec-id"), manifest.partition_spec_id
    if spec_id is not None and spec_id != b"%d" % listed:
        says = f"its header has the partition spec {_header_value(spec_id)}"
        raise fault(manifest, f"{says}, but its manifest list records {listed}")
    counts = (manifest.added_files_count, manifest.existing_files_count)
    if None in counts and file.size < (manifest.manifest_length or 0):
        raise fault(manifest, f"it has {file.size:,} bytes of {manifest.manifest_length:,}: it was truncated")


def check_counts(status: np.ndarray, number: np.ndarray, manifests: Sequence[ManifestFile]) -> None:
    """Check that no manifest has fewer entries than its list counts; `number` is the manifest of each entry.

    Raises `CorruptMetadata`.
    """
    for statuses, names in ((_LIVE, _OF_LIVE), ((DELETED,), ("deleted",))):
        actual = np.bincount(number[np.isin(status, statuses)], minlength=len(manifests))
        listed = _listed_counts(manifests, names)
        for place in np.flatnonzero(actual < listed)[:1].tolist():
            raise fault(
                manifests[place],
                f"it has {actual[place]:,} entries of {' or '.join(names)} files, but its manifest list counts "
                f"{listed[place]:,}: it was truncated or edited",
            )


def check_once(paths: pa.Array, number: np.ndarray, manifests: Sequence[ManifestFile]) -> None:
    """Check that no manifest has duplicate entries of a data file that its list counts once.

    `paths` and `number` (the manifest) are those of live entries. A duplicate entry would duplicate the file's rows. A
    file that was committed twice is also counted twice, and is read twice, as in the reference implementation. Raises
    `CorruptMetadata`.
    """
    actual, listed = np.bincount(number, minlength=len(manifests)), _listed_counts(manifests, _OF_LIVE)
    for place in np.flatnonzero((actual > listed) & (listed > 0)).tolist():
        if manifests[place].content == DELETES:
            continue
        counted = paths.filter(pa.array(number == place)).value_counts()
        if (twice := pc.index(pc.greater(counted.field("counts"), 1), True).as_py()) >= 0:
            path = redact(counted.field("values")[twice].as_py())
            raise fault(
                manifests[place],
                f"it has {actual[place]:,} entries of added or existing files, but its manifest list counts "
                f"{listed[place]:,}, and {path} is in it more than once: an entry was duplicated",
            )


def _listed_counts(manifests: Sequence[ManifestFile], names: Sequence[str]) -> np.ndarray:
    """Return the number of entries of each manifest by its list, summed over `names` (added, existing, deleted).

    The number is negative where a count is missing.
    """
    total = np.zeros(len(manifests), dtype=np.int64)
    for name in names:
        counts = [getattr(manifest, f"{name}_files_count") for manifest in manifests]
        total += [-(2**32) if count is None else count for count in counts]
    return total


def check_status(status: pa.Array, number: pa.Array, manifests: Sequence[ManifestFile]) -> None:
    """Check that each entry's status is existing, added or deleted; raises `CorruptMetadata`."""
    wrong = pc.invert(
        pc.fill_null(pc.is_in(status, value_set=pa.array([EXISTING, ADDED, DELETED], status.type)), False)
    )
    if (place := pc.index(wrong, True).as_py()) >= 0:
        raise fault(manifests[number[place].as_py()], f"an entry has status {status[place].as_py()}, not 0, 1 or 2")


def known_ages(numbers: pa.ChunkedArray, path: str, *, needed: bool) -> pa.ChunkedArray:
    """Return sequence numbers with missing ones as 0.

    With `needed`, raises `CorruptMetadata` for a missing one instead; `path` names the manifest in the message.
    """
    if numbers.null_count and needed:
        raise CorruptMetadata(
            f"manifest {redact(path)}, or one that is read with it, has an entry of an existing file without a "
            "sequence number, so it is unknown which deletes apply to the file. Read an older snapshot."
        )
    return pc.fill_null(numbers, 0)


def check_files(columns: Mapping[str, pa.Array], number: pa.Array, manifests: Sequence[ManifestFile]) -> None:
    """Check that files match their manifest's content and have the fields that it requires; raises `CorruptMetadata`.

    `columns` are those of `file_columns`, and `number` is the manifest of each file.
    """
    content, is_vector = columns["content"], pc.equal(columns["file_format"], "puffin")
    in_deletes = pa.array([m.content == DELETES for m in manifests]).take(number)
    is_equality, is_delete = pc.equal(content, EQUALITY_DELETES), pc.is_in(content, value_set=_deletes(content.type))
    length, offset = columns["content_size_in_bytes"], columns["content_offset"]
    located = pc.and_(pc.invert(_outside(offset, limits.FILE_SIZE)), pc.invert(_outside(length, limits.FILE_SIZE)))
    located = pc.and_(located, pc.greater(length, 0))
    rules = [
        *(
            (pc.is_null(columns[n]), f"no {n}")
            for n in ("file_path", "file_format", "record_count", "file_size_in_bytes")
        ),
        (_outside(columns["record_count"], _MOST_ROWS), f"a record_count that is not from 0 to {_MOST_ROWS:,}"),
        (pc.and_(in_deletes, pc.invert(is_delete)), "the content of a data file in a manifest of deletes"),
        (
            pc.and_(pc.invert(in_deletes), pc.not_equal(content, DATA_FILE)),
            "the content of a delete file in a manifest of data files",
        ),
        (pc.and_(pc.invert(in_deletes), is_vector), "the format puffin, which is not valid for data files"),
        (pc.and_(is_equality, is_vector), "the content of equality deletes in a file of deletion vectors"),
        (_and_not(is_equality, pc.greater(pc.list_value_length(columns["equality_ids"]), 0)), "no equality_ids"),
        (
            _and_not(is_vector, pc.is_valid(columns["referenced_data_file"])),
            "no referenced_data_file for its deletion vector",
        ),
        (_and_not(is_vector, located), "no content_offset and content_size_in_bytes that are valid for a vector"),
    ]
    for wrong, problem in rules:
        if (place := pc.index(wrong, True).as_py()) >= 0:
            path = columns["file_path"][place].as_py()
            entry = "an entry" if path is None else f"the entry of {redact(path)}"
            raise fault(manifests[number[place].as_py()], f"{entry} has {problem}")


def _deletes(kind: pa.DataType) -> pa.Array:
    return pa.array([POSITION_DELETES, EQUALITY_DELETES], kind)


def _outside(values: pa.Array, most: int) -> pa.Array:
    return pc.or_(pc.less(values, 0), pc.greater(values, most))


def _and_not(mask: pa.Array, wanted: pa.Array) -> pa.Array:
    """Return a mask that is true where `mask` is true and `wanted` is false or null."""
    return pc.and_(mask, pc.invert(pc.fill_null(wanted, False)))


def fault(manifest: ManifestFile, problem: str) -> CorruptMetadata:
    """Return the error for a damaged manifest, with a remedy."""
    return CorruptMetadata(
        f"manifest {redact(manifest.manifest_path)}: {problem}. Restore the file, or read an older snapshot."
    )


def _header_value(text: bytes) -> str:
    return repr(text[:40].decode(errors="replace"))
