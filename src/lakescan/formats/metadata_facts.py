"""What a format's metadata says of a table's upkeep: what there is to read before data, and what old states keep."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class ManifestFacts:
    """The manifests of a snapshot.

    - `rewritable`: how many of them a rewrite would replace, and `rewritable_bytes` their size.
    - `rewritten`: about how many would replace them.
    """

    count: int = 0
    bytes: int = 0
    rewritable: int = 0
    rewritable_bytes: int = 0
    rewritten: int = 0


@dataclass(frozen=True)
class LogFacts:
    """The log of a version: its newest checkpoint, and the commits since.

    - `checkpoint`: the version of the checkpoint, None without one; `checkpoint_at`: when it was written.
    - `interval`: after how many commits writers should write the next.
    """

    commits: int
    commit_bytes: int
    checkpoint: int | None
    checkpoint_at: datetime | None
    checkpoint_bytes: int
    interval: int


@dataclass(frozen=True)
class KeptStates:
    """The snapshots or versions that can still be read, and the files that only they need.

    - `expirable`: how many expire now by the table's own properties; 0 where the format expires none by a command.
    - `files`, `bytes`: files of data and deletes that the current state has no more, as far as the metadata tells.
    - `removable_files`: the files that expiry and clean-up would remove now, at most: those of them, and metadata.
    - `removable_bytes`: the bytes of those of data and deletes.
    """

    count: int
    oldest: datetime | None = None
    expirable: int = 0
    files: int = 0
    bytes: int = 0
    removable_files: int = 0
    removable_bytes: int = 0


@dataclass(frozen=True)
class MetadataFacts:
    """What metadata says of upkeep.

    - `target_file_size`: bytes of a data file that writers aim at.
    - `bytes`: what is read before the first data file: metadata file and manifests, or checkpoint and commits.
    - `manifests`, `log`: the one that the format has.
    - `rewritable_deletes`: how many files of position deletes a rewrite would replace, and their bytes.
    - `owns_files`: whether files may be removed at all.
    - `clustering`: the columns that the table is clustered by; none if it is not.
    """

    target_file_size: int
    bytes: int
    kept: KeptStates
    manifests: ManifestFacts | None = None
    log: LogFacts | None = None
    rewritable_deletes: tuple[int, int] = (0, 0)
    owns_files: bool = True
    clustering: tuple[str, ...] = ()
