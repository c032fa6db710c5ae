"""The result of `Table.health`: figures of a table's files and metadata, and findings that are worth fixing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakescan.planning.explain.summary import human_bytes, pluralize

SIZES = pa.schema([pa.field("at_least", pa.int64()), pa.field("files", pa.int64())])
PARTITIONS = pa.schema(
    [
        pa.field("partition", pa.string()),
        pa.field("files", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("small_files", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Finding:
    """A problem that makes a table slower to read or larger than necessary, and the call that fixes it.

    Attributes:
        name: What it is about, such as 'small files'.
        what: One sentence with the figures.
        files: How many files the fix rewrites or removes; an upper limit if the metadata has no exact number.
        bytes: The total size of these files in bytes.
        removes: Whether these files are removed; otherwise they are rewritten.
        python: The call that fixes it, for a table `table`.
        shell: The command that fixes it.
        step: The name of the method of `Table` that `maintain` calls; empty if you have to decide.

    Example:
        >>> [finding.shell for finding in orders.health().findings]
        ['lakescan expire-snapshots local.db.orders']
    """

    name: str
    what: str
    files: int
    bytes: int
    removes: bool
    python: str
    shell: str
    step: str = ""

    @property
    def cost(self) -> str:
        """The files and bytes that the fix rewrites or removes, as text."""
        if not self.files:
            return ""
        doing = "removes" if self.removes else "rewrites"
        return f"{doing} {pluralize(self.files, 'file')}" + (f", {human_bytes(self.bytes)}" if self.bytes else "")

    def __str__(self) -> str:
        cost = f" ({self.cost})" if self.cost else ""
        return f"{self.name}: {self.what}\n  {self.shell}{cost}"


@dataclass(frozen=True, repr=False)
class TableHealth:
    """The health of a table, measured from its metadata. It prints as sentences, and notebooks show it as a page.

    Sizes are in bytes. Figures that a format does not have are None.

    Attributes:
        table: The table's name, or its location.
        format: 'iceberg' or 'delta'.
        version: The snapshot id or version that was measured; None before the first.
        committed_at: When it was committed.
        files: How many data files there are.
        bytes: The total size of the data files.
        rows: How many rows they have, before deletes; files without a row count are not counted.
        target_file_size: The size that writers aim at.
        small_files: How many data files are smaller than 75% of the target file size.
        small_bytes: The total size of the small files.
        sizes: How many files there are of each size: `at_least` doubles from one row to the next.
        partition_count: How many partitions have files.
        largest_partition: The share of the bytes that are in the largest partition, from 0 to 1.
        partitions: The partitions with the most small files, at most 20: `partition`, `files`, `bytes`, `small_files`.
        position_delete_files: How many position delete files there are.
        equality_delete_files: How many equality delete files there are.
        deletion_vectors: How many deletion vectors there are.
        delete_bytes: The total size of all deletes.
        unused_deletes: How many deletes apply to no data file.
        files_with_deletes: How many data files have deletes.
        most_deletes: The largest number of deletes of one data file.
        deleted_rows: How many rows are deleted by position; deletes of several files are not counted.
        metadata_bytes: The size of the metadata that is read before the first data file.
        manifests: How many manifests the snapshot has (Iceberg).
        manifest_bytes: The total size of the manifests (Iceberg).
        log_commits: How many commits are read after the checkpoint (Delta).
        checkpoint: The version of the newest checkpoint (Delta); None without one.
        checkpoint_at: When the checkpoint was written (Delta).
        snapshots: How many snapshots or versions can be read.
        oldest: When the oldest of them was committed.
        expirable: How many snapshots the table's properties allow to expire now (Iceberg).
        retained_files: How many files only older snapshots or versions need, according to the metadata.
        retained_bytes: The total size of the retained files.
        clustering: The columns that the table is clustered by (Delta).
        primary_key: The columns that identify a row (Iceberg).
        replaces_by_key: Whether appended rows replace those with their keys (`write.upsert.enabled`, Iceberg).
        owns_files: Whether files of the table may be removed; not if `gc.enabled` is false (Iceberg).
        orphans: How many files are unreferenced; None if they were not searched.
        orphan_bytes: The total size of the orphans.
        missing: The data and delete files that are not in storage; None if they were not looked up.
        findings: The problems worth fixing, in the order of `Table.maintain`.

    Example:
        >>> print(orders.health())
        local.db.orders (iceberg, snapshot 4712): 1,200 files (3.1 GB) in 30 partitions
        ...
    """

    table: str
    format: str
    version: int | None
    committed_at: datetime | None
    files: int
    bytes: int
    rows: int
    target_file_size: int
    small_files: int
    small_bytes: int
    sizes: pa.Table
    partition_count: int
    largest_partition: float
    partitions: pa.Table
    position_delete_files: int
    equality_delete_files: int
    deletion_vectors: int
    delete_bytes: int
    unused_deletes: int
    files_with_deletes: int
    most_deletes: int
    deleted_rows: int
    metadata_bytes: int
    manifests: int | None
    manifest_bytes: int | None
    log_commits: int | None
    checkpoint: int | None
    checkpoint_at: datetime | None
    snapshots: int
    oldest: datetime | None
    expirable: int
    retained_files: int
    retained_bytes: int
    clustering: tuple[str, ...]
    primary_key: tuple[str, ...]
    replaces_by_key: bool
    owns_files: bool
    orphans: int | None
    orphan_bytes: int | None
    missing: tuple[str, ...] | None
    findings: tuple[Finding, ...]

    @property
    def is_healthy(self) -> bool:
        """True if the table has no findings."""
        return not self.findings

    @property
    def state_word(self) -> str:
        """The format's word for a state of the table: 'snapshot' for Iceberg, 'version' for Delta."""
        return "version" if self.manifests is None else "snapshot"

    @property
    def state(self) -> str:
        """The measured state in the format's words, such as 'snapshot 4712'."""
        word = self.state_word
        return f"no {word} yet" if self.version is None else f"{word} {self.version}"

    def sentences(self) -> tuple[str, ...]:
        """Return the figures as sentences.

        Returns:
            One sentence each for data files, deletes, metadata and older states, and one for the primary key, if there
                is one.

        Example:
            >>> orders.health().sentences()[0]
            '1,200 files (3.1 GB) in 30 partitions, the largest with 8% of the bytes; 900 files (90.2 MB) are small'
        """
        return (
            self._file_sentence(),
            self._delete_sentence(),
            self._metadata_sentence(),
            *self._state_sentences(),
            *self._key_sentences(),
        )

    def _key_sentences(self) -> tuple[str, ...]:
        if not self.primary_key:
            return ()
        key = f"the key is {', '.join(self.primary_key)}"
        if self.replaces_by_key:
            return (f"{key}: appended rows replace those with their keys (write.upsert.enabled)",)
        return (f"{key}, and nothing enforces it: append and INSERT add rows even if the key exists",)

    def _file_sentence(self) -> str:
        text = f"{pluralize(self.files, 'file')} ({human_bytes(self.bytes)})"
        if self.partition_count > 1:
            share = f"{self.largest_partition:.0%}"
            text += f" in {pluralize(self.partition_count, 'partition')}, the largest with {share} of the bytes"
        if not self.small_files:
            return text
        small = f"{pluralize(self.small_files, 'file')} ({human_bytes(self.small_bytes)})"
        return f"{text}; {small} below 75% of the target size of {human_bytes(self.target_file_size)}"

    def _delete_sentence(self) -> str:
        kinds = (
            (self.position_delete_files, "file of position deletes", "files of position deletes"),
            (self.deletion_vectors, "deletion vector", "deletion vectors"),
            (self.equality_delete_files, "file of equality deletes", "files of equality deletes"),
        )
        found = [f"{count:,} {one if count == 1 else many}" for count, one, many in kinds if count]
        if not found:
            return "no deletes"
        share = f", {self.deleted_rows / self.rows:.1%} of the rows" if self.deleted_rows and self.rows else ""
        unused = f"; {self.unused_deletes:,} of them apply to no file" if self.unused_deletes else ""
        files, deletes = pluralize(self.files_with_deletes, "data file"), pluralize(self.most_deletes, "delete")
        where = f"{files} with up to {deletes} each"
        return f"{', '.join(found)} ({human_bytes(self.delete_bytes)}): {where}{share}{unused}"

    def _metadata_sentence(self) -> str:
        read = f"{human_bytes(self.metadata_bytes)} of metadata"
        if self.manifests is not None:
            return f"{read}: {pluralize(self.manifests, 'manifest')} ({human_bytes(self.manifest_bytes or 0)})"
        commits = pluralize(self.log_commits or 0, "commit")
        if self.checkpoint is None:
            return f"{read}: {commits}, no checkpoint"
        at = "" if self.checkpoint_at is None else f" of {self.checkpoint_at:%Y-%m-%d %H:%M} UTC"
        return f"{read}: {commits} since the checkpoint of version {self.checkpoint}{at}"

    def _state_sentences(self) -> tuple[str, ...]:
        word = self.state_word
        since = "" if self.oldest is None else f" since {self.oldest:%Y-%m-%d}"
        kept = f"{pluralize(self.snapshots, word)}{since}"
        if self.retained_files:
            files = f"{pluralize(self.retained_files, 'file')} ({human_bytes(self.retained_bytes)})"
            kept += f"; those before the current one keep {files} that it no longer has"
        if not self.owns_files:
            kept += "; its files are not removed, since gc.enabled is not true"
        if self.orphans is None:
            return (kept,)
        size = f" ({human_bytes(self.orphan_bytes or 0)})" if self.orphans else ""
        return kept, f"{pluralize(self.orphans, 'orphan file')}{size}"

    def __str__(self) -> str:
        head = f"{self.table} ({self.format}, {self.state})"
        lines = [f"{head}: {self.sentences()[0]}", *self.sentences()[1:]]
        if self.is_healthy:
            return "\n".join([*lines, "nothing to fix"])
        return "\n".join([*lines, "", *map(str, self.findings)])

    def __repr__(self) -> str:
        return f"TableHealth({self.table!r}, {pluralize(len(self.findings), 'finding')})"

    def _repr_html_(self) -> str:
        from lakescan.maintenance.health.page import health_as_section

        return health_as_section(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the health as one self-contained HTML page, for light and dark screens.

        Args:
            path: Also write it to this file.

        Returns:
            The page.

        Example:
            >>> page = orders.health().to_html("health.html")
        """
        from lakescan.maintenance.health.page import health_as_html

        page = health_as_html(self)
        if path is not None:
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(page, encoding="utf-8")
        return page

    def to_dict(self) -> Mapping[str, Any]:
        """Return the figures and findings as a dictionary of plain values, as `lakescan health --json` prints it.

        Returns:
            A value for each attribute; times as ISO texts.

        Example:
            >>> orders.health().to_dict()["small_files"]
            900
        """
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, pa.Table):
        return value.to_pylist()
    if isinstance(value, tuple):
        return [
            each if isinstance(each, str) else {field.name: getattr(each, field.name) for field in fields(each)}
            for each in value
        ]
    return value.isoformat() if isinstance(value, datetime) else value
