"""Partition values as text (protocol, "Partition Value Serialization"); `partition_values.py` reads them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lakescan.common import types as t
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import SchemaMismatch

_WITHOUT_TEXT = "it has none for the empty text, binaries that are no UTF-8, and Hive's name of null"


def text_of(value: Any, field: t.Field) -> str | None:
    """A value of a partition column as text, times given as numbers; raises `SchemaMismatch` for one that has none."""
    match field.type:
        case _ if value is None:
            return None
        case t.BINARY:
            text = _decoded(value)
        case t.DATE:
            text = _with_sign(str(np.datetime64(value, "D")))
        case t.Timestamp(zoned=zoned):
            text = _with_sign(str(np.datetime64(value, "us")))
            text = f"{text}Z" if zoned else text.replace("T", " ")
        case t.FLOAT | t.DOUBLE:
            text = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(str(value), str(value))
        case t.Decimal():
            text = f"{value:f}"
        case _:
            text = str(value).lower() if isinstance(value, bool) else str(value)
    if text in (None, "", NULL_PARTITION):
        raise SchemaMismatch(
            f"partition column {field.name!r} has the value {value!r}, which Delta's log cannot hold "
            f"({_WITHOUT_TEXT}): change it, or make it null"
        )
    return text


def _with_sign(text: str) -> str:
    """A time as Spark has it: at least four digits of the year, and a sign before more of them, or before Christ."""
    sign, digits, rest = re.fullmatch(r"(-?)(\d+)(.*)", text).groups()  # type: ignore[union-attr]
    return f"{sign or ('+' if len(digits) > 4 else '')}{digits:0>4}{rest}"


def _decoded(value: bytes) -> str | None:
    """Binaries as Delta on Spark has them, which reads the bytes of the text."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
