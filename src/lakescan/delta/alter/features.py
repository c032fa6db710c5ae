"""Upgrade the protocol of a table: versions, and features by their names."""

from __future__ import annotations

from lakescan.delta.alter.state import TableState
from lakescan.delta.metadata.features import FEATURES, LISTED, READERS_LISTED, Support, implied, with_needed
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

_OF_CATALOG = "Only its catalog can make such a table: create it in a catalog of type unity."
_INSTEAD = {
    "catalogManaged": _OF_CATALOG,
    "catalogOwned-preview": _OF_CATALOG,
    "clustering": "Set the clustering columns: ALTER TABLE ... CLUSTER BY.",
    "checkpointProtection": "It comes with ALTER TABLE ... DROP FEATURE of a feature that readers must know.",
}


def with_feature(state: TableState, name: str, value: str) -> TableState:
    """The table with a feature that a property `delta.feature.<name>` asks for.

    Raises `InvalidOption` for a feature or value that is not known, `UnsupportedFeature` for a feature that writers
    here do not support.
    """
    known = {each.lower(): each for each in FEATURES}.get(name.lower())
    if value.strip().lower() not in ("supported", "enabled"):
        raise InvalidOption(f"'delta.feature.{name}'={value!r}: it takes supported")
    if known is None:
        raise InvalidOption(f"Delta has no table feature {name!r}.{nearest(name, FEATURES)}")
    if known in state.protocol.features:
        return state
    if known in _INSTEAD or Support.WRITE not in FEATURES[known].support:
        raise UnsupportedFeature(
            f"the feature {known!r} for {state.location}",
            _INSTEAD.get(known, "Writers here do not support it: they could not write to the table any more."),
        )
    return with_dependencies(state, known)


def with_dependencies(state: TableState, *names: str) -> TableState:
    """The table with features, and those that they depend on."""
    return state.with_features(*with_needed(names))


def with_versions(state: TableState, reader: str | None, writer: str | None) -> TableState:
    """The table with at least these versions of the protocol, which are upgraded alone: lower ones change nothing.

    Raises `InvalidOption` for versions that Delta does not have.
    """
    known_readers, known_writers = range(1, READERS_LISTED + 1), range(1, LISTED + 1)
    for name, text, known in (("Reader", reader, known_readers), ("Writer", writer, known_writers)):
        if text is not None and text.strip() not in map(str, known):
            raise InvalidOption(f"'delta.min{name}Version'={text!r}: it takes a version from 1 to {known[-1]}")
    now, writes = state.protocol, int(writer or state.protocol.min_writer_version)
    asked = implied(writes, int(reader or now.min_reader_version))  # none of versions that list features
    return state.with_features(*asked)
