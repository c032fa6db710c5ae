"""Check the properties of a new Delta table: keep those that lakescan's writers honour, refuse the others.

A property that demands something of writers is a promise to every reader of the table. Unknown names that begin with
`delta.` are refused; all other names are the user's own, and kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lakescan.common.properties import Property
from lakescan.delta.metadata.features import FEATURES, Support
from lakescan.delta.metadata.table_properties import CONSTRAINT, DeltaProperties
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

FEATURE = "delta.feature."
_OF_CATALOG = "Only its catalog can make such a table: create it in a catalog of type unity."
# Features that are not asked for by their names, and what to do instead.
_INSTEAD = {
    "catalogManaged": _OF_CATALOG,
    "catalogOwned-preview": _OF_CATALOG,
    "clustering": "Set the clustering columns: ALTER TABLE ... CLUSTER BY.",
    "checkpointProtection": "It comes with ALTER TABLE ... DROP FEATURE of a feature that readers must know.",
}
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
    name: each
    for name, each in DeltaProperties.declarations().items()
    if not each.is_internal and name not in _UNSUPPORTED
}
_SPELLING = {name.lower(): name for name in (*SETTABLE, *_UNSUPPORTED)}


def checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties to record, with Delta's spelling of their names and normalised values.

    Features are left out. Raises `InvalidOption` for unknown Delta properties and invalid
    values, and `UnsupportedFeature` for properties that lakescan's writers do not honour.
    """
    checked: dict[str, str] = {}
    for name, value in properties.items():
        if not name.lower().startswith("delta."):
            checked[name] = value
        elif name.lower().startswith(FEATURE):
            continue  # the protocol has it: see `asked_features`
        elif name.lower().startswith(CONSTRAINT):
            raise UnsupportedFeature(f"{name!r} for a new table", "Add the constraint with ALTER TABLE, as in Delta.")
        else:
            known = canonical_name(name)
            checked[known] = checked_value(known, str(value), "for a new table")
    return checked


def canonical_name(name: str) -> str:
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


def asked_features(properties: Mapping[str, str], has: Collection[str]) -> set[str]:
    """Return the features that properties of a new table ask for by their names: `delta.feature.<name>`.

    `has` are the features that the table has anyway. Raises what `asked_feature` raises.
    """
    named = ((name, str(value)) for name, value in properties.items() if name.lower().startswith(FEATURE))
    return {asked_feature(name[len(FEATURE) :], value, has, "a new table") for name, value in named}


def asked_feature(name: str, value: str, has: Collection[str], where: str) -> str:
    """Return Delta's spelling of a feature that a property `delta.feature.<name>` asks for.

    Args:
        name: The feature, in any case.
        value: The value of the property.
        has: The features that the table has already, which are not checked.
        where: The table, for messages.

    Raises `InvalidOption` for a feature or value that is not known, `UnsupportedFeature` for a feature that writers
    here do not support.
    """
    known = {each.lower(): each for each in FEATURES}.get(name.lower())
    if value.strip().lower() not in ("supported", "enabled"):
        raise InvalidOption(f"'{FEATURE}{name}'={value!r}: it takes supported")
    if known is None:
        raise InvalidOption(f"Delta has no table feature {name!r}.{nearest(name, FEATURES)}")
    if known not in has and (known in _INSTEAD or Support.WRITE not in FEATURES[known].support):
        raise UnsupportedFeature(
            f"the feature {known!r} for {where}",
            _INSTEAD.get(known, "Writers here do not support it: they could not write to the table any more."),
        )
    return known
