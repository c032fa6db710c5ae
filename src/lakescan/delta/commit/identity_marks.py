"""The last ids of identity columns, as files were written with them (protocol, "Identity Columns")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakescan.delta.metadata.new_schema import with_identity_marks
from lakescan.delta.metadata.protocol import Metadata
from lakescan.writing.column_rules import MARKS
from lakescan.writing.table_writes import WrittenFile


def marked(metadata: Metadata, files: Sequence[WrittenFile]) -> Metadata | None:
    """The metadata with the ids that writers of these files have assigned; None if they assigned none."""
    schema = with_identity_marks(metadata.schema_string, [each.details.get(MARKS, {}) for each in files])
    return None if schema is None else replace(metadata, schema_string=schema)
