"""The file changes of one snapshot: what it adds and removes, as pure data that any process can make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

DELETE_FILES = pa.schema([pa.field("path", pa.string()), pa.field("content_offset", pa.int64())])


@dataclass(frozen=True)
class SnapshotChanges:
    """The changes of a snapshot.

    - `added`, `added_deletes`: data files and delete files by partition spec id, with the columns of `data_file`.
    - `removed`: locations of data files.
    - `removed_deletes`: delete files (`path`, and `content_offset`, null except for deletion vectors).
    - `unused_deletes`: more delete files to remove, as far as they are still there: no data file needs them.
    - `sequence_number`: the data sequence number of added data files, or None for the snapshot's own. Rewritten files
      keep the number at which their rows were read, so that later equality deletes still apply.
    - `deletes_sequence_number`: the data sequence number of added delete files, or None for the snapshot's own.
    - `replaces_positions`: files of position deletes among `removed_deletes` may be gone: the added delete files delete
      all their rows, and other commits may have replaced them, too.
    - `removes_all`: remove all data files and delete files of the branch.
    """

    added: Mapping[int, pa.Table] = field(default_factory=dict)
    removed: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    added_deletes: Mapping[int, pa.Table] = field(default_factory=dict)
    removed_deletes: pa.Table = field(default_factory=DELETE_FILES.empty_table)
    unused_deletes: pa.Table = field(default_factory=DELETE_FILES.empty_table)
    sequence_number: int | None = None
    deletes_sequence_number: int | None = None
    replaces_positions: bool = False
    removes_all: bool = False
