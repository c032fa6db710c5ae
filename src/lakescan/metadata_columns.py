"""Metadata columns: what a reader knows of each row beside its data (Iceberg specification, "Reserved Field IDs").

They are read when they are selected or filtered by; a table's own column of the same name goes first.
"""

from __future__ import annotations

from lakescan import types as t

FILE = t.Field(2147483646, "_file", t.STRING, required=True, doc="location of the data file")
POS = t.Field(2147483645, "_pos", t.LONG, required=True, doc="position of the row in its file")
DELETED = t.Field(2147483644, "_deleted", t.BOOLEAN, required=True, doc="whether the row is deleted")
SPEC_ID = t.Field(2147483643, "_spec_id", t.INT, required=True, doc="partition spec of the file")
PARTITION_ID = 2147483642
ROW_ID = t.Field(2147483540, "_row_id", t.LONG, doc="row lineage: the id of the row")
LAST_UPDATED = t.Field(
    2147483539, "_last_updated_sequence_number", t.LONG, doc="row lineage: when the row was last written"
)

RESERVED_IDS = frozenset({f.id for f in (FILE, POS, DELETED, SPEC_ID, ROW_ID, LAST_UPDATED)} | {PARTITION_ID})


def partition_column(fields: tuple[t.Field, ...]) -> t.Field:
    """The `_partition` column: a struct with a member for each partition field of any spec."""
    return t.Field(PARTITION_ID, "_partition", t.Struct(fields), required=True, doc="partition values of the file")
