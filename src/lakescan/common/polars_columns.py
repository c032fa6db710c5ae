"""Optional use of Polars for fixed-width columns, on which it is faster than pyarrow. Results are the same without it.

Arrays of such columns are passed to Polars and back without a copy.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import pyarrow as pa

from lakescan.errors import UnsupportedFeature

WORTH = 1 << 25  # bytes of work from which importing Polars pays off
_is_usable = True
_is_used = False  # whether this process has used Polars through this module
_was_used = False  # whether the parent of this forked process had
_bytes = 0


def _reset_after_fork() -> None:
    """Stop using Polars in a forked process: it would wait forever for the threads that only the parent has."""
    global _is_usable, _was_used
    _is_usable = _is_usable and "polars" not in sys.modules
    _was_used |= _is_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def polars_for(size: int) -> Any:
    """Return the module `polars` for work on `size` bytes; None if pyarrow should do the work.

    That is if Polars is not installed or too old, or the process is forked from one that had imported it. Polars is
    imported only after this function has been called for `WORTH` bytes in total.
    """
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
    """Raise `UnsupportedFeature` in a forked process whose parent has used Polars, because Polars would hang there.

    Call it before work that only Polars can do, such as creating Polars frames. `what` names the work in the message.
    """
    global _is_used
    if _was_used:
        raise UnsupportedFeature(
            f"{what} in a forked process whose parent has used Polars",
            "Its threads do not survive a fork. Start processes by spawn or forkserver, or use to_arrow() here.",
        )
    _is_used = True


def is_fixed_width(kind: pa.DataType) -> bool:
    """Return whether Polars stores an Arrow type unchanged and with fixed width.

    These are signed integers, 32-bit and 64-bit floats, booleans, `date32`, and timestamps in us or ms without a time
    zone or in UTC.
    """
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
