"""Rows that were written before another writer made a column required: they may have nulls in it."""

from __future__ import annotations

from collections.abc import Iterator

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import CommitConflict


def newly_required(written: Schema, now: Schema) -> Iterator[int]:
    """The ids of fields that are required now, and were not, or were not there, when rows were written.

    A field that is new and has a default has no nulls in older rows.
    """
    if written.fields != now.fields:
        yield from _newly_required(now.fields, written)


def _newly_required(fields: tuple[t.Field, ...], written: Schema) -> Iterator[int]:
    for each in fields:
        before = written.by_id.get(each.id)
        lacks = each.default is None if before is None else not before.required
        if each.required and lacks:
            yield each.id
        if before is not None:
            yield from _newly_required(t.children(each.type), written)


def check_required(written: Schema, now: Schema, where: str) -> None:
    """Raise `CommitConflict` if a column is required now that was not, or was not there, when rows were written.

    `where` is the table's name.
    """
    for field_id in newly_required(written, now):
        raise CommitConflict(
            f"{where}: another writer made {now.path_of[field_id]} NOT NULL after rows had been written, which may "
            "have nulls in it. Write them again."
        )
