"""Application transactions (`txnAppId`, `txnVersion`, streaming micro-batches), which must be committed only once.

The summary of a snapshot records the transaction that it commits, as Iceberg's Spark sink does. Because snapshots
expire, the same commit also sets a table property, the transaction record. A record names an application, its last
version on a branch, and the snapshot that committed this version, so that all descendants of the snapshot contain it
too.

When snapshots expire, their records and summary entries are moved to the oldest snapshot that remains. A moved record
is a second property next to that of the last commit, because a branch may be rolled back to a snapshot between the two.
Other engines keep table properties when they compact or expire. This module does no I/O.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import takewhile

from lakescan.errors import CommitStateUnknown, CorruptMetadata
from lakescan.iceberg.metadata.table_metadata import MAIN, IcebergSnapshot, TableMetadata, ancestors

# The summary keys of Iceberg's own Spark sink, so that each sink can continue the other's stream.
QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"
PREFIX = "lakescan.tables."  # prefix of the properties with transaction records


@dataclass(frozen=True)
class TransactionRecord:
    """The last version of an application that a snapshot and its descendants contain. `ref` is a branch or tag.

    A record that expiry moved (`is_moved`) does not replace the record of the last commit.
    """

    application: str
    ref: str
    version: int
    snapshot_id: int
    sequence_number: int  # of the snapshot; 0 in format version 1
    table_uuid: str | None  # properties may be copied to other tables
    is_moved: bool = False

    @property
    def name(self) -> str:
        """The name of the table property: a prefix and a hash of application and branch (or tag).

        It is a hash because these names may be long or have any text. A moved record has another name.
        """
        text = json.dumps([self.application, self.ref, *(["moved"] if self.is_moved else [])])
        return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:24]

    @property
    def properties(self) -> dict[str, str]:
        """The table property that stores this record."""
        value = {
            "app-id": self.application,
            "ref": self.ref,
            "version": self.version,
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "table-uuid": self.table_uuid,
            **({"moved": True} if self.is_moved else {}),
        }
        return {self.name: json.dumps(value)}


def transaction_records(metadata: TableMetadata) -> dict[str, TransactionRecord]:
    """Return the transaction records of a table by property name; raises `CorruptMetadata` for a damaged one.

    Records that were copied from another table (with another UUID) are left out.
    """
    found: dict[str, TransactionRecord] = {}
    for name, text in metadata.properties.items():
        if name.startswith(PREFIX):
            record = _parse_record(name, text, metadata)
            if record.table_uuid == metadata.uuid:
                found[name] = record
    return found


def _parse_record(name: str, text: str, metadata: TableMetadata) -> TransactionRecord:
    try:
        value = json.loads(text)
        numbers = (int(value["version"]), int(value["snapshot-id"]), int(value["sequence-number"]))
        is_moved = value.get("moved") is True
        return TransactionRecord(str(value["app-id"]), str(value["ref"]), *numbers, value["table-uuid"], is_moved)
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptMetadata(
            f"{metadata.location}: the table property {name!r}, the record of a committed transaction, is damaged: "
            f"{text!r}. Remove the property if no application will retry a transaction that is already committed."
        ) from error


def has_transaction(metadata: TableMetadata, branch: str, application: str, version: int) -> bool:
    """Return whether a branch contains this version of an application's transactions, or a later one.

    Raises `CommitStateUnknown` if another engine expired the snapshot of a record, so that it is unknown whether the
    branch descends from it. Raises `CorruptMetadata` for a version that is not a number.
    """
    head = metadata.current_snapshot_id if branch == MAIN else getattr(metadata.refs.get(branch), "snapshot_id", None)
    line = list(ancestors(metadata.snapshots, head))
    _check_numbers(line, application, metadata)
    records = [each for each in transaction_records(metadata).values() if each.application == application]
    if _versions(line, records).get(application, -1) >= version:
        return True
    lost = [
        each
        for each in records
        if line
        and each.version >= version
        and each.snapshot_id not in metadata.snapshots
        # If the snapshot were on the branch and younger than the branch's oldest snapshot, it would still be listed.
        and not 0 < line[-1].sequence_number <= each.sequence_number
    ]
    if lost:
        raise CommitStateUnknown(
            f"{metadata.location}: whether version {version} of the transactions of {application!r} was committed to "
            f"the branch {branch!r} is unknown. Version {lost[0].version} was committed to {lost[0].ref!r}, and "
            "another engine then expired its snapshot. Look at the rows of the table. If they are missing, write "
            f"them with a later version than {lost[0].version}."
        )
    return False


def move_records(
    metadata: TableMetadata, expired: Collection[int], expired_refs: Collection[str]
) -> tuple[Mapping[str, str], list[str]]:
    """Return the properties to set and to remove as snapshots expire, so that no transaction is lost.

    Each branch and tag keeps the newest part of its history. If the expired part has a later version of an application
    than the oldest kept snapshot, this snapshot gets a record of it. It gets the record even if newer snapshots have
    later versions, because a branch may be rolled back to it or created from it. A record whose snapshot expires, and
    that no branch or tag needs, is removed.
    """
    records = transaction_records(metadata)
    moved: dict[str, str] = {}
    if not records and not any(QUERY in each.summary for each in metadata.snapshots.values()):
        return moved, []
    for name, ref in metadata.refs.items():
        if name in expired_refs:
            continue
        line = list(ancestors(metadata.snapshots, ref.snapshot_id))
        kept = list(takewhile(lambda each: each.id not in expired, line))
        oldest, before = kept[-1], line[len(kept) :]
        left = _versions(kept[-1:], [each for each in records.values() if each.ref == name])
        for application, version in _versions(before, records.values()).items():
            if version > left.get(application, -1):
                record = TransactionRecord(
                    application, name, version, oldest.id, oldest.sequence_number, metadata.uuid, True
                )
                moved |= record.properties
    gone = [name for name, each in records.items() if each.snapshot_id in expired and name not in moved]
    return moved, gone


def _versions(line: Collection[IcebergSnapshot], records: Collection[TransactionRecord]) -> dict[str, int]:
    """Return the last version of each application in a line of snapshots, from their summaries and their records."""
    ids = {each.id for each in line}
    versions = [(each.application, each.version) for each in records if each.snapshot_id in ids]
    for each in line:
        if QUERY in each.summary and (version := each.count(EPOCH)) is not None:
            versions.append((each.summary[QUERY], version))
    return dict(sorted(versions, key=lambda pair: pair[1]))


def _check_numbers(line: Collection[IcebergSnapshot], application: str, metadata: TableMetadata) -> None:
    for each in line:
        if each.summary.get(QUERY) == application and EPOCH in each.summary and each.count(EPOCH) is None:
            raise CorruptMetadata(
                f"{metadata.location}: snapshot {each.id} has {EPOCH}={each.summary[EPOCH]!r}, which is not a number, "
                f"so it is unknown which batches of the query {application} were committed. Start the query with a new "
                "checkpoint."
            )
