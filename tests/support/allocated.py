"""Count the bytes that the process has allocated, to measure objects outside of Python."""

from __future__ import annotations

import ctypes
import gc

import pyarrow as pa
import pytest

_NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _NAMES.split()]


def allocated_bytes() -> int:
    """Return the bytes in use in malloc and Arrow's pool, without small Python objects; skip without such a count.

    This is less than the resident memory: an allocator keeps free pages.
    """
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("the C library does not report allocated bytes (glibc from 2.33 on does)")
    mallinfo.restype = _Mallinfo
    gc.collect()
    found = mallinfo()
    return int(found.uordblks + found.hblkhd + pa.total_allocated_bytes())
