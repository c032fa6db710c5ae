"""Metadata columns, such as a row's file and position (Iceberg specification, "Reserved Field IDs").

They are read only if a query selects them or filters by them. If a column of the table has the same name, the metadata
column is renamed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from lakescan.common import types as t

FILE = t.Field(2147483646, "_file", t.STRING, required=True, doc="location of the data file")
POS = t.Field(2147483645, "_pos", t.LONG, required=True, doc="position of the row in its file")
DELETED = t.Field(2147483644, "_deleted", t.BOOLEAN, required=True, doc="whether the row is deleted")
SPEC_ID = t.Field(2147483643, "_spec_id", t.INT, required=True, doc="partition spec of the file")
PARTITION_ID = 2147483642
_FIRST_PARTITION_ID = 2_146_000_000
ROW_ID = t.Field(2147483540, "_row_id", t.LONG, doc="row lineage: the id of the row")
LAST_UPDATED = t.Field(
    2147483539, "_last_updated_sequence_number", t.LONG, doc="row lineage: when the row was last written"
)

RESERVED_IDS = frozenset({f.id for f in (FILE, POS, DELETED, SPEC_ID, ROW_ID, LAST_UPDATED)} | {PARTITION_ID})

# Columns of Iceberg changelogs, with the ids of Iceberg's Java library.
CHANGE = t.Field(2147483543, "_change_type", t.STRING, doc="INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER")
CHANGE_ORDINAL = t.Field(2147483542, "_change_ordinal", t.INT, doc="ordinal of the snapshot in the range read")
COMMIT_SNAPSHOT = t.Field(2147483541, "_commit_snapshot_id", t.LONG, doc="the snapshot that changed the row")
CHANGELOG = (CHANGE, CHANGE_ORDINAL, COMMIT_SNAPSHOT)

# Columns of Delta's change data feed (protocol, "Change Data Files"); the ids are lakescan's own.
CHANGE_TYPE = t.Field(2147480001, "_change_type", t.STRING, doc="insert, delete, update_preimage or update_postimage")
COMMIT_VERSION = t.Field(2147480002, "_commit_version", t.LONG, doc="the version that changed the row")
COMMIT_TIMESTAMP = t.Field(2147480003, "_commit_timestamp", t.Timestamp(), doc="when that version was committed")
FIRST_RESERVED_ID = CHANGE_TYPE.id


def avoid_name_clashes(columns: Iterable[t.Field], table_columns: Iterable[str]) -> tuple[t.Field, ...]:
    """Return metadata columns, renamed where a column of the table has the same name in any case.

    Statements that change rows read metadata columns together with all columns of the table. If a column's physical
    name equals its name, the physical name changes with it: readers find the column by its id.
    """
    taken = {each.lower() for each in table_columns}
    return tuple(_avoid_name_clash(each, taken) for each in columns)


def _avoid_name_clash(column: t.Field, taken: Collection[str]) -> t.Field:
    name = column.name
    while name.lower() in taken:
        name = f"_lakescan{name}"
    physical_name = name if column.physical_name == column.name else column.physical_name
    return replace(column, name=name, physical_name=physical_name)


# The columns that members of Spark's column `_metadata` are made of.
FILE_METADATA = ("_file", "_pos", "_row_id", "_row_commit_version")
# Members of the column `_metadata` of Spark and Delta that are metadata columns here.
_MEMBERS = {"row_index": POS.id, "row_id": ROW_ID.id, "row_commit_version": LAST_UPDATED.id}


def metadata_member(path: tuple[str, ...]) -> int | None:
    """Return the field id for a reference to Spark's `_metadata` column; None for other references.

    `path` is the reference as names. The members `row_index`, `row_id` and `row_commit_version` are known, in any case.
    """
    is_member = len(path) == 2 and path[0].lower() == "_metadata"
    return _MEMBERS.get(path[1].lower()) if is_member else None


def row_tracking_columns(row_id_name: str | None, commit_version_name: str | None) -> tuple[t.Field, t.Field]:
    """Return Delta's row tracking columns, `_row_id` and `_row_commit_version`.

    The parameters are their physical names in data files; None for the same name as here.
    """
    version = t.Field(
        LAST_UPDATED.id, "_row_commit_version", t.LONG, doc="row tracking: the version that wrote the row"
    )
    return replace(ROW_ID, physical_name=row_id_name or ROW_ID.name), replace(
        version, physical_name=commit_version_name or version.name
    )


def partition_member_id(field_id: int) -> int:
    """Return the column id of a partition field as a member of the `_partition` column, from its partition field id."""
    return _FIRST_PARTITION_ID + field_id


def partition_column(fields: tuple[t.Field, ...]) -> t.Field:
    """Return the `_partition` column: a struct with one member for each of `fields`.

    `fields` are the partition fields of all partition specs, with partition field ids. The members get ids from
    `partition_member_id`, because partition field ids, which start at 1000, can equal column ids of wide tables.
    """
    members = tuple(replace(field, id=partition_member_id(field.id)) for field in fields)
    return t.Field(PARTITION_ID, "_partition", t.Struct(members), required=True, doc="partition values of the file")
