"""Upgrade the protocol of a table: versions, and features by their names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from lakescan.delta.alter.state import TableState
from lakescan.delta.metadata.features import FEATURES, LISTED, READERS_LISTED, Support, implied, is_for_readers
from lakescan.delta.metadata.protocol import Protocol
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

_NEEDED = {"rowTracking": ("domainMetadata",), "clustering": ("domainMetadata",)}  # features that a feature depends on
_INSTEAD = {
    "clustering": "Set the clustering columns: ALTER TABLE ... CLUSTER BY.",
    "checkpointProtection": "It comes with DROP FEATURE of Delta on Spark.",
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
    return state.with_features(*names, *(each for name in names for each in _NEEDED.get(name, ())))


def with_versions(state: TableState, reader: str | None, writer: str | None) -> TableState:
    """The table with at least these versions of the protocol, which are upgraded alone: lower ones change nothing.

    Raises `InvalidOption` for versions that Delta does not have.
    """
    known_readers, known_writers = range(1, READERS_LISTED + 1), range(1, LISTED + 1)
    for name, text, known in (("Reader", reader, known_readers), ("Writer", writer, known_writers)):
        if text is not None and text.strip() not in map(str, known):
            raise InvalidOption(f"'delta.min{name}Version'={text!r}: it takes a version from 1 to {known[-1]}")
    now = state.protocol
    writes = int(writer or 0)
    if now.min_writer_version >= LISTED:
        return state.with_features(*implied(writes)) if 0 < writes < LISTED else state
    if writes >= LISTED:
        return state  # versions that list features come with a feature
    return replace(state, protocol=_legacy(now, writes))


def _legacy(now: Protocol, writer: int) -> Protocol:
    """A protocol whose writer version implies its features, and the reader version that goes with it."""
    writer = max(writer, now.min_writer_version)
    maps = any(is_for_readers(name) for name in implied(writer))
    return Protocol(max(now.min_reader_version, 2 if maps else 1), writer, frozenset())


def without_features(protocol: Protocol, names: Collection[str]) -> Protocol:
    """The protocol without some features: versions that imply those that are left, or that list them."""
    left = protocol.features - set(names)
    if (older := Protocol.of_exactly(left)) is not None:
        return older
    for_readers = frozenset(name for name in left if is_for_readers(name))
    reader = READERS_LISTED if for_readers else 1
    return Protocol(reader, LISTED, for_readers, left)
