"""Polars, for work on columns of fixed width that it does in less time than pyarrow; results are the same without it.

Arrays of such columns go to Polars and back without a copy.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import pyarrow as pa

from lakescan.errors import UnsupportedFeature

WORTH = 1 << 25  # bytes from which on importing Polars pays
_is_usable = True
_is_used = False  # whether this process has worked with Polars here
_was_used = False  # whether this process is a fork of one that had
_bytes = 0


def _reset_after_fork() -> None:
    """After a fork, the threads of a Polars that the parent used are gone: it would wait for them for ever."""
    global _is_usable, _was_used
    _is_usable = _is_usable and "polars" not in sys.modules
    _was_used |= _is_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def polars_for(size: int) -> Any:
    """Polars, for work on so many bytes: it is imported once there was enough work; None if it is not to be used."""
    global _bytes, _is_used
    if not _is_usable:
        return None
    if "polars" not in sys.modules:
        _bytes += size
        if _bytes < WORTH:
            return None
    found = _import_polars()
    _is_used |= found is not None
    return found


def check_threads(what: str) -> None:
    """Raise `UnsupportedFeature` where frames, which nothing but Polars makes, would be waited for for ever."""
    global _is_used
    if _was_used:
        raise UnsupportedFeature(
            f"{what} in a forked process whose parent has used Polars",
            "Its threads are gone after a fork. Start processes by spawn or forkserver, or use to_arrow() here.",
        )
    _is_used = True


def is_fixed_width(kind: pa.DataType) -> bool:
    """Whether Polars has arrays of a type as Arrow has them: whole numbers, floats, booleans, dates, timestamps."""
    return (
        pa.types.is_signed_integer(kind)
        or pa.types.is_boolean(kind)
        or kind in (pa.float32(), pa.float64(), pa.date32())
        or (pa.types.is_timestamp(kind) and kind.unit in ("us", "ms") and kind.tz in (None, "UTC"))
    )


@functools.cache
def _import_polars() -> Any:
    try:
        import polars
    except ImportError:
        return None
    return polars if hasattr(polars, "scan_parquet") else None
