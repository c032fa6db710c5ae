"""The decoding boundary: errors of a library about a file's content become errors that name the file.

A damaged page can raise `OSError`, `ArrowInvalid`, `UnicodeDecodeError` or `OverflowError`, depending on the damage.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakescan.errors import CorruptData, CorruptMetadata, LakescanError, LimitExceeded, NotEnoughMemory
from lakescan.limits import PARQUET_LEVELS
from lakescan.storage.errors import error_text, is_storage_fault, redact, storage_error

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
    """Context manager: re-raise errors of decoding a file as `CorruptData`, or as `StorageError` if storage failed.

    `part` is the part of the file that is decoded, for the message. A `MemoryError` becomes `NotEnoughMemory`. lakescan
    errors pass through, except that `CorruptMetadata` without the file's name becomes `CorruptData` with it.
    """
    try:
        yield
    except CorruptMetadata as error:
        if path in str(error) or redact(path) in str(error):
            raise
        raise CorruptData(f"{redact(path)}: {error}") from error
    except LakescanError:
        raise
    except MemoryError as error:
        raise NotEnoughMemory(
            f"{redact(path)}: {part} cannot be decoded in the available memory: {error_text(error)}. Read it with more "
            "memory or a smaller batch-size. If this does not help, the file may be damaged and declare a wrong size."
        ) from error
    except DAMAGE as error:
        if is_storage_fault(error):
            raise storage_error("read", path, error) from error
        if "schema too deeply nested" in str(error):  # pyarrow's message
            raise LimitExceeded(
                f"{redact(path)}: its columns are nested too deeply. A Parquet schema of at most {PARQUET_LEVELS} "
                "levels is read: a struct is one level, a list or a map two. Read the file with another library, and "
                "write its rows with fewer levels"
            ) from error
        raise CorruptData(
            f"{redact(path)}: {part} cannot be decoded: {error_text(error)}. The file is damaged or truncated: "
            "restore it, "
            "or rewrite its rows."
        ) from error
