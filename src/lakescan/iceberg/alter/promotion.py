"""Which types a column may be given (specification, "Schema Evolution")."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, time

from lakescan.common import types as t
from lakescan.common.timestamps import EPOCH
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.metadata.partition_spec import PartitionField
from lakescan.iceberg.metadata.wider_types import FROM_DATE, widens

_NARROW = (t.BYTE, t.SHORT)  # Iceberg has no narrower integers than INT
_WIDER: dict[t.Type, str] = {
    t.INT: "long",
    t.FLOAT: "double",
    t.DATE: "timestamp without a zone (format version 3)",
}
_SAME_DAYS = ("year", "month", "day", "void")  # transforms with the same value for a date and its midnight


def as_iceberg(kind: t.Type) -> t.Type:
    """The type of Iceberg that holds a type's values: integers of 8 and 16 bits become INT, at any depth."""
    match kind:
        case t.Struct(fields):
            return t.Struct(tuple(_as_iceberg(each) for each in fields))
        case t.ListOf(element):
            return t.ListOf(_as_iceberg(element))
        case t.MapOf(key, value):
            return t.MapOf(_as_iceberg(key), _as_iceberg(value))
    return t.INT if kind in _NARROW else kind


def _as_iceberg(of: t.Field) -> t.Field:
    return replace(of, type=as_iceberg(of.type))


def promoted(column: t.Field, kind: t.Type, path: str, version: int, partitions: Iterable[PartitionField]) -> t.Field:
    """Return a field with another type; `partitions` are the partition fields of all specs.

    Raises `InvalidOption` for a type that does not hold all values of the earlier one, `UnsupportedFeature` if files
    that are there have partition values that the new type would change.
    """
    if isinstance(column.type, t.Struct | t.ListOf | t.MapOf) or isinstance(kind, t.Struct | t.ListOf | t.MapOf):
        raise InvalidOption(
            f"the type of {path}, {column.type}, cannot become {kind}: change members one by one, such as "
            f"{path}.{'element' if isinstance(column.type, t.ListOf) else 'name'}"
        )
    if not widens(column.type, kind):
        raise InvalidOption(
            f"the type of {path}, {column.type}, cannot become {kind}: rows that are there would lose values, or could "
            f"not be read. {_instead(column.type)}"
        )
    if (column.type == t.UNKNOWN or kind in FROM_DATE) and version < 3:
        raise InvalidOption(
            f"the type of {path}, {column.type}, cannot become {kind} before format version 3: set 'format-version'='3'"
        )
    if column.type == t.DATE:
        changed = [each for each in partitions if each.source_id == column.id and each.transform.name not in _SAME_DAYS]
        if changed:
            raise UnsupportedFeature(
                f"the type {kind} of {path}, which files are partitioned by ({changed[0].name})",
                f"Its values of {changed[0].transform} would differ. Add a column of that type, and fill it.",
            )
        return replace(
            column,
            type=kind,
            default=_midnight(column.default, kind),
            write_default=_midnight(column.write_default, kind),
        )
    return replace(column, type=kind)


def _instead(old: t.Type) -> str:
    if isinstance(old, t.Decimal):
        return f"It can become a decimal of more digits, with the scale {old.scale}."
    wider = _WIDER.get(old)
    return f"It can become {wider}." if wider else "Add a column of that type, and fill it."


def _midnight(value: object, kind: t.Type) -> object:
    """A default that is a date, as a timestamp: for nanoseconds a number, as Python's own have microseconds."""
    if value is None:
        return None
    midnight = datetime.combine(value, time())  # type: ignore[arg-type]
    if kind == t.Timestamp("ns", zoned=False):
        return (midnight.replace(tzinfo=UTC) - EPOCH).days * 86_400 * 10**9
    return midnight
