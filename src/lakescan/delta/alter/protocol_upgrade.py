"""Upgrade the protocol of a table, by version numbers or by feature names."""

from __future__ import annotations

from lakescan.delta.alter.table_state import TableState
from lakescan.delta.metadata.features import LISTED, READERS_LISTED, add_dependencies, implied_features
from lakescan.delta.metadata.table_properties import asked_feature
from lakescan.errors import InvalidOption


def with_feature(state: TableState, name: str, value: str) -> TableState:
    """Return the table with the feature that a property `delta.feature.<name>` requests.

    Raises the errors of `asked_feature`.
    """
    known = asked_feature(name, value, state.protocol.features, state.location)
    if known in state.protocol.features:
        return state
    return with_dependencies(state, known)


def with_dependencies(state: TableState, *names: str) -> TableState:
    """Return the table with these features and the features that they depend on."""
    return state.with_features(*add_dependencies(names))


def with_versions(state: TableState, reader: str | None, writer: str | None) -> TableState:
    """Return the table with the features that these protocol versions imply; None keeps the current version.

    A version below the current one changes nothing. Raises `InvalidOption` for versions that Delta does not have.
    """
    known_readers, known_writers = range(1, READERS_LISTED + 1), range(1, LISTED + 1)
    for name, text, known in (("Reader", reader, known_readers), ("Writer", writer, known_writers)):
        if text is not None and text.strip() not in map(str, known):
            raise InvalidOption(f"'delta.min{name}Version'={text!r}: it takes a version from 1 to {known[-1]}")
    now, writes = state.protocol, int(writer or state.protocol.min_writer_version)
    asked = implied_features(writes, int(reader or now.min_reader_version))  # empty for versions that list features
    return state.with_features(*asked)
