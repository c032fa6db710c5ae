"""Check the properties of a new Delta table: keep those that lakescan's writers honour, refuse the others.

A property that demands something of writers is a promise to every reader of the table. Unknown names that begin with
`delta.` are refused; all other names are the user's own, and kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from lakescan.common.properties import Property
from lakescan.delta.metadata.features import of_new_table
from lakescan.delta.metadata.table_properties import CONSTRAINT, DeltaProperties
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

FEATURE = "delta.feature."
# Unsupported properties, with the only value that is accepted, and why others are not.
_UNSUPPORTED: Mapping[str, tuple[str, str]] = {
    "delta.compatibility.symlinkFormatManifest.enabled": ("false", "lakescan does not maintain symlink manifests."),
    "delta.enableIcebergCompatV1": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergCompatV2": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergCompatV3": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergWriterCompatV1": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableVariantShredding": ("false", "lakescan does not write shredded variants."),
    "delta.universalFormat.enabledFormats": ("", "lakescan does not maintain Iceberg or Hudi metadata."),
}


# Properties that users set: those that writers honour, or that do not affect rows.
SETTABLE: Mapping[str, Property[Any]] = {
    name: each for name, each in DeltaProperties.declared().items() if not each.is_internal and name not in _UNSUPPORTED
}
_SPELLING = {name.lower(): name for name in (*SETTABLE, *_UNSUPPORTED)}


def checked_properties(properties: Mapping[str, str], brought: Iterable[str] = ()) -> dict[str, str]:
    """The properties to record, with Delta's spelling of their names and normalised values.

    `brought` are features that the columns bring. Raises `InvalidOption` for unknown Delta properties and invalid
    values, and `UnsupportedFeature` for properties that lakescan's writers do not honour.
    """
    checked: dict[str, str] = {}
    features = []
    for name, value in properties.items():
        if not name.lower().startswith("delta."):
            checked[name] = value
        elif name.lower().startswith(FEATURE):
            features.append((name[len(FEATURE) :], str(value)))
        elif name.lower().startswith(CONSTRAINT):
            raise UnsupportedFeature(f"{name!r} for a new table", "Add the constraint with ALTER TABLE, as in Delta.")
        else:
            known = spelled(name)
            checked[known] = checked_value(known, str(value), "for a new table")
    for feature, value in features:
        _check_feature(feature, value, {*of_new_table(checked), *brought})
    return checked


def spelled(name: str) -> str:
    """Return Delta's spelling of a property's name, in any case; raises `InvalidOption`, which names the nearest."""
    known = _SPELLING.get(name.lower())
    if known is None:
        raise InvalidOption(f"Delta has no table property {name!r}.{nearest(name, _SPELLING.values())}")
    return known


def checked_value(name: str, value: str, where: str) -> str:
    """Return the value of a property as it is recorded; `where` is for messages.

    Raises `InvalidOption` for an invalid value, `UnsupportedFeature` for one that writers here do not honour.
    """
    if name in _UNSUPPORTED:
        harmless, why = _UNSUPPORTED[name]
        if value.strip().lower() != harmless:
            raise UnsupportedFeature(f"'{name}'={value!r} {where}", why)
        return value
    try:
        return str(SETTABLE[name].check(value))
    except ValueError as error:
        raise InvalidOption(f"'{name}'={value!r}: it takes {error}") from error


def _check_feature(feature: str, value: str, features: Collection[str]) -> None:
    """Accept a feature only if the table has it anyway; like Delta, do not record the property."""
    if value.lower() not in ("supported", "enabled"):
        raise InvalidOption(f"'{FEATURE}{feature}'={value!r}: it takes supported")
    if feature not in features:
        raise UnsupportedFeature(
            f"'{FEATURE}{feature}' for a new table",
            f"Set the property that needs the feature instead.{nearest(feature, features)}",
        )
