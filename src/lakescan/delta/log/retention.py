"""Retention of removed files in Delta tables, and the table features under which orphan files can be removed."""

from __future__ import annotations

from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.protocol import Protocol


def check_vacuum(protocol: Protocol, location: str) -> None:
    """Raise `UnsupportedFeature` if the table may reference files in ways that lakescan does not know."""
    protocol.check_readable(location)
    protocol.check_supports(Support.VACUUM, "removing files of", location)
