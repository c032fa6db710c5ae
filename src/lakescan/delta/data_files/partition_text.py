"""Serialize partition values to text (protocol, "Partition Value Serialization"); `partition_values.py` parses them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from lakescan.common import types as t
from lakescan.common.java_numbers import double_text, float_text
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import SchemaMismatch

_NOT_SERIALIZABLE = "the empty text, binary that is not UTF-8 and Hive's name for null cannot be written"


def text_of(value: Any, field: t.Field) -> str | None:
    """A partition value as text; dates and timestamps are numbers of days and microseconds since 1970.

    Raises `SchemaMismatch` for a value that the log cannot hold.
    """
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
        case t.FLOAT:
            text = float_text(value)
        case t.DOUBLE:
            text = double_text(value)
        case t.Decimal():
            text = f"{value:f}"
        case _:
            text = str(value).lower() if isinstance(value, bool) else str(value)
    if text in (None, "", NULL_PARTITION):
        raise SchemaMismatch(
            f"partition column {field.name!r} has the value {value!r}, which Delta's log cannot hold "
            f"({_NOT_SERIALIZABLE}): change it, or make it null"
        )
    return text


def _with_sign(text: str) -> str:
    """A date or timestamp as Spark writes it: the year has at least four digits, and a sign if more or negative."""
    sign, digits, rest = re.fullmatch(r"(-?)(\d+)(.*)", text).groups()  # type: ignore[union-attr]
    return f"{sign or ('+' if len(digits) > 4 else '')}{digits:0>4}{rest}"


def _decoded(value: bytes) -> str | None:
    """Binary as text, as in Delta on Spark, which reads the bytes of the text; None if it is not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
