"""Names that only one column ever had: data files know no other column by them.

Data files keep the names that their columns had when they were written, and columns are found by field id. A reader
that looks at names as well (Spark's, which pushes filters into Parquet by name) may do so for these columns only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lakescan.schema import Schema

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAY_STAND_FOR_ANOTHER = re.compile(r"_\d|.*_x[0-9a-f]", re.IGNORECASE)


def settled_names(schemas: Mapping[int, Schema], last_column_id: int | None) -> frozenset[int]:
    """The ids of the top-level columns whose names, in any case, no other column of any schema had.

    None of them where the history is not whole: where numbers of schemas or of fields are missing, since schemas that
    no snapshot uses may be removed while files written by them stay; or where `last_column_id` is not known. Files
    have names that are not plain in another spelling (`a_x2Eb` for `a.b`): what may be such a one is left out.
    """
    known = {field_id for schema in schemas.values() for field_id in schema.by_id}
    is_whole = set(schemas) == set(range(len(schemas))) and known == set(range(1, (last_column_id or 0) + 1))
    if not is_whole:
        return frozenset()
    owners: dict[str, set[int]] = {}
    for schema in schemas.values():
        for field in schema.fields:
            owners.setdefault(field.name.lower(), set()).add(field.id)
    has_spellings = not all(_PLAIN.fullmatch(name) for name in owners)
    contested = (
        ids for name, ids in owners.items() if len(ids) > 1 or (has_spellings and _MAY_STAND_FOR_ANOTHER.match(name))
    )
    return frozenset().union(*owners.values()) - frozenset().union(*contested)
