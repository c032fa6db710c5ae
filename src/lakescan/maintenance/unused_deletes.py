"""Which delete files no data file needs any more once some data files are rewritten."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.delete_file import DeleteKind
from lakescan.planning.file_table import FileTable


def unused_deletes(table: FileTable, gone: np.ndarray, *, everything: bool = False) -> list[tuple[str, int | None]]:
    """Return the delete files, and the offsets of vectors in them, that apply to files which are `gone` alone.

    `table` are all data files of a state with its deletes. Data files that others add later cannot need them: position
    deletes name files that are there, and files keep a sequence number that is not older than these equality deletes.
    Vectors are left out, since they go with their data file. With `everything`, deletes are included that apply to no
    file even now.
    """
    count, uses = table.deletes.num_rows, table.references
    needed, used = uses.where(~gone).used(count), uses.used(count)
    is_vector = pc.equal(table.deletes["kind"], DeleteKind.VECTOR).to_numpy(zero_copy_only=False)
    unused = used & ~needed & ~is_vector
    if everything:
        unused |= ~used
    found = table.deletes.filter(pa.array(unused))
    named = dict.fromkeys(zip(found["path"].to_pylist(), found["offset"].to_pylist(), strict=True))
    return [(path, offset) for path, offset in named if path is not None]
