"""The format versions of Iceberg and the features of each (specification, appendix E)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakescan.common import types as t
from lakescan.errors import InvalidOption, UnsupportedFeature

PROPERTY = "format-version"
NEW = 2  # the version of new tables without the property


@dataclass(frozen=True)
class FormatVersion:
    """The features of tables of one format version.

    - `lists_all`: the metadata has the table's UUID, and lists of schemas, partition specs and sort orders. Version 1
      may have a single one of each instead.
    - `row_lineage`: rows have ids, which they keep when they are moved to other files.
    - `deletion_vectors`: positions of deleted rows are stored in Puffin files.
    - `nanoseconds`: timestamps may have nanosecond precision.
    - `defaults`: columns may have default values.
    """

    number: int
    lists_all: bool = True
    row_lineage: bool = False
    deletion_vectors: bool = False
    nanoseconds: bool = False
    defaults: bool = False


VERSIONS: Mapping[int, FormatVersion] = {
    1: FormatVersion(1, lists_all=False),
    2: FormatVersion(2),
    3: FormatVersion(3, row_lineage=True, deletion_vectors=True, nanoseconds=True, defaults=True),
}


def known_version(number: int, where: str) -> FormatVersion:
    """Return a format version by its number; raises `UnsupportedFeature` for an unknown one.

    `where` names the metadata file in the message.
    """
    if number not in VERSIONS:
        raise UnsupportedFeature(f"Iceberg format version {number}", f"{where} needs it.")
    return VERSIONS[number]


def chosen_version(properties: Mapping[str, str], default: int = NEW) -> FormatVersion:
    """Return the version that a new table's property `format-version` asks for, or the default.

    Raises `InvalidOption` for an unknown version.
    """
    text = properties.get(PROPERTY, str(default))
    by_text = {str(number): version for number, version in VERSIONS.items()}
    if text not in by_text:
        raise InvalidOption(f"'{PROPERTY}'={text!r}: the format version must be 1, 2 or 3")
    return by_text[text]


def check_columns(columns: tuple[t.Field, ...], version: FormatVersion) -> None:
    """Raise `InvalidOption` if a column, at any depth, has a type or default that `version` does not support."""
    for column in t.walk(columns):
        is_later = first_version_of(column.type) > version.number
        what = f"is {column.type}" if is_later else "" if column.write_default is None else "has a default"
        if is_later or (what and not version.defaults):
            raise InvalidOption(f"column {column.name!r} {what}, which requires format version 3: set '{PROPERTY}'='3'")


def first_version_of(kind: t.Type) -> int:
    """Return the number of the first format version with a type; the types inside a nested type are ignored."""
    is_nanos = isinstance(kind, t.Timestamp) and kind.unit == "ns"
    return 3 if is_nanos or kind in (t.UNKNOWN, t.VARIANT) or isinstance(kind, t.Geospatial) else 1
