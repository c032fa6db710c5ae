"""Columns that were never renamed and whose name no other column ever had: safe to resolve by name in data files.

Data files keep the column names of the time they were written; columns are resolved by field id. A reader that also
uses names (Spark's, which pushes filters into Parquet by name) may do so for these columns only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from lakescan.common.schema import Schema

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAY_STAND_FOR_ANOTHER = re.compile(r"_\d|.*_x[0-9a-f]", re.IGNORECASE)


def stable_name_ids(schemas: Mapping[int, Schema], last_column_id: int | None) -> frozenset[int]:
    """The ids of top-level columns that always had their name, which no other column had (ignoring case).

    Empty if the schema history is incomplete: schema or field ids are missing (schemas that no snapshot uses may be
    removed while files written with them remain), or `last_column_id` is unknown. Writers escape names that are not
    plain identifiers (`a_x2Eb` for `a.b`): such names, and names that may be such an escape, are left out.
    """
    known = {field_id for schema in schemas.values() for field_id in schema.by_id}
    is_whole = set(schemas) == set(range(len(schemas))) and _counts_to(known, last_column_id or 0)
    if not is_whole:
        return frozenset()
    owners: dict[str, set[int]] = {}
    names: dict[int, set[str]] = {}
    for schema in schemas.values():
        for field in schema.fields:
            owners.setdefault(field.name.lower(), set()).add(field.id)
            names.setdefault(field.id, set()).add(field.name)
    plain = {name for name in owners if _PLAIN.fullmatch(name)}
    if len(plain) < len(owners):
        plain = {name for name in plain if not _MAY_STAND_FOR_ANOTHER.match(name)}
    return frozenset(
        field_id
        for field_id, own in names.items()
        if len(own) == 1 and all(name.lower() in plain and owners[name.lower()] == {field_id} for name in own)
    )


def _counts_to(ids: Collection[int], last: int) -> bool:
    """Whether the ids are 1, 2, ... to `last`, which a file may claim to be any number."""
    return len(ids) == last and all(1 <= each <= last for each in ids)
