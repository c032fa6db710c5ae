"""The boundary of decoding: whatever libraries raise over the contents of a file becomes an error with the file's name.

A damaged page is an `OSError`, an `ArrowInvalid`, a `UnicodeDecodeError` or an `OverflowError`, as the damage wants it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakescan.errors import CorruptData, CorruptMetadata, LakescanError, NotEnoughMemory
from lakescan.storage.faults import is_storage_fault, shown, storage_error, told

DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
    pa.ArrowException,
    struct.error,
    zlib.error,
)


@contextmanager
def decoding(path: str, part: str = "its contents") -> Iterator[None]:
    """Turn what is raised while a file is decoded into `CorruptData`, or into `StorageError` where storage failed.

    `part` says what of the file is decoded. Errors of lakescan's own pass through; what is found wrong where the file
    is not known gets its name.
    """
    try:
        yield
    except CorruptMetadata as error:
        if path in str(error) or shown(path) in str(error):
            raise
        raise CorruptData(f"{shown(path)}: {error}") from error
    except LakescanError:
        raise
    except MemoryError as error:
        raise NotEnoughMemory(
            f"{shown(path)}: {part} cannot be decoded in the memory that there is: {told(error)}. The file is damaged "
            "if it says more than it holds; else read it with more memory, or a smaller batch-size."
        ) from error
    except DAMAGE as error:
        if is_storage_fault(error):
            raise storage_error("read", path, error) from error
        raise CorruptData(
            f"{shown(path)}: {part} cannot be decoded: {told(error)}. The file is damaged, or was cut off: restore it, "
            "or write its rows again."
        ) from error
