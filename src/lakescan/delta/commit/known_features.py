"""Whether a table may have a log that lakescan does not know enough of to write more than commits into it."""

from __future__ import annotations

from lakescan.delta.metadata.features import FEATURES, LISTED, Support
from lakescan.delta.metadata.protocol import Protocol
from lakescan.errors import UnsupportedFeature


def check_known(protocol: Protocol, doing: str, location: str) -> None:
    """Raise `UnsupportedFeature` for a table with features that may change what its log is made of.

    Known features do not, unless the table's newest commits are known to a catalog only.
    """
    if protocol.min_writer_version > LISTED:
        raise UnsupportedFeature(f"Delta writer version {protocol.min_writer_version}", f"{location} needs it.")
    for name in sorted(protocol.features):
        if name not in FEATURES or FEATURES[name].support == Support.NONE:
            raise UnsupportedFeature(f"{doing} Delta tables with the feature {name!r}", f"{location} has it.")
