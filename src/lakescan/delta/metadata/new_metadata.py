"""Check new metadata before it is committed: all readers must be able to read the table."""

from __future__ import annotations

from lakescan.delta.metadata.protocol import Metadata
from lakescan.errors import UnsupportedFeature

# The protocol, "Reader Requirements for Change Data Feed": columns that change feeds have beside those of the table.
_OF_CHANGES = {"_change_type", "_commit_version", "_commit_timestamp"}


def check_columns(metadata: Metadata) -> None:
    """Raise `CorruptMetadata` for a schema that cannot be read, `UnsupportedFeature` for names of a change feed."""
    names = {name.lower(): name for name in metadata.schema().names}
    if metadata.properties.change_feed and (taken := sorted(_OF_CHANGES & names.keys())):
        raise UnsupportedFeature(
            f"column {names[taken[0]]!r} of a Delta table with a change data feed",
            "The feed has a column of this name: rename it, or set delta.enableChangeDataFeed to false.",
        )
