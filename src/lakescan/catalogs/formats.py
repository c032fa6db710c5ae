"""The table formats by name: the only list of them. What differs between formats is asked of these objects.

Names are compared here alone: where a user names a format, where a catalog does, and where a folder is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakescan.delta.format import DeltaFormat
from lakescan.errors import InvalidOption
from lakescan.iceberg.format import IcebergFormat
from lakescan.storage import Storage
from lakescan.tables.base import Format

# Folders are looked at in this order.
FORMATS: Mapping[str, Format] = {each.name: each for each in (DeltaFormat(), IcebergFormat())}
DEFAULT = "iceberg"  # of new tables with names in a catalog


def format_named(name: str) -> Format:
    """The format of a name, in any case; raises `InvalidOption` for an unknown one."""
    if (known := FORMATS.get(name.lower() if isinstance(name, str) else "")) is None:
        raise InvalidOption(f"format {name!r} is unknown: use {' or '.join(map(repr, sorted(FORMATS, reverse=True)))}")
    return known


def format_at(location: str, storage: Storage) -> Format | None:
    """The format of the table in a folder: the first that finds its metadata there; None without any."""
    return next((each for each in FORMATS.values() if each.is_at(location, storage)), None)
