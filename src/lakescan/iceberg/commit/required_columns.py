"""Rows that were written before another writer made a column required: they may have nulls in it."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import CommitConflict


def check_required(written: Schema, now: Schema, where: str) -> None:
    """Raise `CommitConflict` if a column is required now that was not, or was not there, when rows were written.

    A column that is new and has a default has no nulls in older rows. `where` is the table's name.
    """
    if written.fields != now.fields:
        _check(now.fields, written, now, where)


def _check(fields: tuple[t.Field, ...], written: Schema, now: Schema, where: str) -> None:
    for each in fields:
        before = written.by_id.get(each.id)
        lacks = each.default is None if before is None else not before.required
        if each.required and lacks:
            raise CommitConflict(
                f"{where}: another writer made {now.path_of[each.id]} NOT NULL after rows had been written, which may "
                "have nulls in it. Write them again."
            )
        if before is not None:
            _check(t.children(each.type), written, now, where)
