"""The table features of Delta, and what lakescan supports for tables with them (protocol, "Table Features").

This is the only list. Readers, writers and VACUUM refuse a feature that is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Flag, auto

from lakescan.common import types as t


class Support(Flag):
    """The operations that lakescan supports on a table that has a feature: READ, WRITE and VACUUM."""

    NONE = 0
    READ = auto()
    # New files and commits comply with the feature, at least while the table does not use it.
    WRITE = auto()
    # Every file of the table is named by an action in the log, so other files can be deleted.
    VACUUM = auto()


_R, _W, _V = Support.READ, Support.WRITE, Support.VACUUM
LISTED = 7  # the first writer version whose protocol lists features by name
READERS_LISTED = 3  # the same for reader versions


@dataclass(frozen=True)
class Feature:
    """A table feature.

    - `support`: the operations that lakescan supports. READ is only checked for reader features.
    - `writer_version`: the oldest writer version that implies it; LISTED if it is only listed by name.
    - `reader_version`: the oldest reader version that implies it, if it is older than READERS_LISTED.
    - `property`: the table property and value that add it to a table.
    - `brought_by`: takes a column type; returns whether that adds the feature to a new table.
    - `why_not`: why tables with it are not read, for messages.
    """

    name: str
    support: Support
    writer_version: int = LISTED
    property: tuple[str, str] | None = None
    brought_by: Callable[[t.Type], bool] | None = None
    why_not: str = ""
    reader_version: int | None = None


def _is_zoneless(kind: t.Type) -> bool:
    return isinstance(kind, t.Timestamp) and not kind.zoned


def _is_variant(kind: t.Type) -> bool:
    return kind == t.VARIANT


_CATALOG = (
    "Its newest commits may be known to its catalog only, not to the log. Open the table by its name: "
    "lakescan.catalog(name, type='unity', uri=..., token=...), then lakescan.table('name.schema.table')."
)
_ALL = (
    Feature("allowColumnDefaults", _W | _V),
    Feature("appendOnly", _W | _V, writer_version=2, property=("delta.appendOnly", "true")),
    Feature("catalogManaged", _R | _W, why_not=_CATALOG),
    Feature("catalogOwned-preview", _R | _W, why_not=_CATALOG),
    Feature("changeDataFeed", _W | _V, writer_version=4, property=("delta.enableChangeDataFeed", "true")),
    Feature("checkConstraints", _W | _V, writer_version=3),
    Feature("checkpointProtection", _W | _V),
    Feature("clustering", _W | _V),
    Feature("collations", _V),
    Feature("collations-preview", _V),
    Feature(
        "columnMapping",
        _R | _W | _V,
        writer_version=5,
        reader_version=2,
        property=("delta.columnMapping.mode", "name"),
    ),
    Feature("deletionVectors", _R | _W | _V, property=("delta.enableDeletionVectors", "true")),
    Feature("domainMetadata", _W | _V),
    Feature("generatedColumns", _W | _V, writer_version=4),
    Feature("geospatial", _R),
    Feature("icebergCompatV1", _V),
    Feature("icebergCompatV2", _V),
    Feature("icebergCompatV3", _V),
    Feature("identityColumns", _W | _V, writer_version=6),
    Feature("inCommitTimestamp", _W | _V, property=("delta.enableInCommitTimestamps", "true")),
    Feature("inCommitTimestamp-preview", _W | _V),
    Feature("invariants", _W | _V, writer_version=2),
    Feature("materializePartitionColumns", _V),
    Feature("rowTracking", _W | _V, property=("delta.enableRowTracking", "true")),
    Feature("timestampNtz", _R | _W | _V, brought_by=_is_zoneless),
    Feature("typeWidening", _R | _W | _V, property=("delta.enableTypeWidening", "true")),
    Feature("typeWidening-preview", _R | _W | _V),
    Feature("v2Checkpoint", _R | _W | _V, property=("delta.checkpointPolicy", "v2")),
    Feature("vacuumProtocolCheck", _R | _W | _V),
    Feature("variantShredding", _R | _V),
    Feature("variantShredding-preview", _R | _V),
    Feature("variantType", _R | _W | _V, brought_by=_is_variant),
    Feature("variantType-preview", _R | _W | _V),
)
_NEEDED: Mapping[str, tuple[str, ...]] = {  # the features that a feature depends on
    "catalogManaged": ("inCommitTimestamp", "vacuumProtocolCheck"),
    "clustering": ("domainMetadata",),
    "icebergCompatV1": ("columnMapping",),
    "icebergCompatV2": ("columnMapping",),
    "icebergCompatV3": ("columnMapping", "domainMetadata", "rowTracking"),
    "rowTracking": ("domainMetadata",),
    "variantShredding": ("variantType",),
}
FEATURES: Mapping[str, Feature] = {each.name: each for each in _ALL}
_NEW_WRITER_VERSION = 2  # of a new table whose properties do not need more


def unsupported_features(names: Iterable[str], support: Support) -> list[str]:
    """Return the features that lakescan does not support for this operation, sorted.

    Features that are not in `FEATURES` are among them.
    """
    return sorted(n for n in names if n not in FEATURES or support not in FEATURES[n].support)


def why_not_read(name: str, default: str) -> str:
    """Return why tables with a feature are not read; `default` for an unknown feature, or one without a reason."""
    return (FEATURES[name].why_not if name in FEATURES else "") or default


def implied_features(writer_version: int, reader_version: int = READERS_LISTED - 1) -> frozenset[str]:
    """Return the features that protocol versions imply; empty for writer versions from LISTED.

    A reader feature needs both versions: writer version 6 with reader version 1 does not imply column mapping.
    """
    if writer_version >= LISTED:
        return frozenset()
    named = (each for each in _ALL if each.writer_version <= writer_version)
    return frozenset(each.name for each in named if oldest_reader(each.name) <= reader_version)


def oldest_reader(name: str) -> int:
    """Return the oldest reader version that tables with a feature can have.

    That is 1 for writer features. Unknown features count as writer features.
    """
    if not is_for_readers(name):
        return 1
    return FEATURES[name].reader_version or READERS_LISTED


def add_dependencies(names: Iterable[str]) -> frozenset[str]:
    """Return the features together with those that they directly depend on."""
    given = frozenset(names)
    return given.union(*(_NEEDED.get(name, ()) for name in given))


def dependent_features(name: str) -> list[str]:
    """Return the features that directly depend on this one, sorted."""
    return sorted(each for each, needed in _NEEDED.items() if name in needed)


def is_for_readers(name: str) -> bool:
    """Return whether a feature is a reader feature; False for an unknown feature.

    A feature of `FEATURES` is one if it has READ support or a reason why it is not read.
    """
    return name in FEATURES and (Support.READ in FEATURES[name].support or bool(FEATURES[name].why_not))


def type_feature(kind: t.Type) -> str | None:
    """Return the feature that a column type adds to a table; None for most types."""
    return next((each.name for each in _ALL if each.brought_by is not None and each.brought_by(kind)), None)


def property_feature(name: str, value: str) -> str | None:
    """Return the feature that setting a table property to this value adds; None for most properties."""
    return next((each.name for each in _ALL if each.property == (name, value)), None)


def new_table_features(properties: Mapping[str, str]) -> list[str]:
    """Return the features of a new table: those that writer version 2 implies, and those that its properties add.

    Features that its column types add are not included (see `type_feature`).
    """
    return [
        each.name
        for each in _ALL
        if each.writer_version <= _NEW_WRITER_VERSION
        or (each.property is not None and properties.get(each.property[0]) == each.property[1])
    ]
