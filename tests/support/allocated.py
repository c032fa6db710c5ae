"""Bytes that the process has allocated, to tell what objects outside of Python take."""

from __future__ import annotations

import ctypes
import gc

import pyarrow as pa
import pytest

_NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


class _Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in _NAMES.split()]


def allocated() -> int:
    """Bytes in use from malloc and Arrow's pool, without Python's small objects; skips where the C library tells none.

    Not what the process holds: an allocator keeps pages that are free.
    """
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        pytest.skip("the C library does not tell what is allocated (glibc from 2.33 on does)")
    mallinfo.restype = _Mallinfo
    gc.collect()
    found = mallinfo()
    return int(found.uordblks + found.hblkhd + pa.total_allocated_bytes())
