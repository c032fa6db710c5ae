"""Tables that are none of lakescan's, whose files procedures make Iceberg tables of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class SourceTable:
    """A table of an engine's own catalog, as the engine describes it.

    - `name`: for messages.
    - `format`: of its files, such as 'parquet'.
    - `location`: its folder.
    - `columns`: all columns, partition columns included.
    - `partition_by`: the names of its partition columns.
    - `files`: the locations of the files that the engine reads.
    - `properties`: its table properties.
    """

    name: str
    format: str
    location: str
    columns: pa.Schema
    partition_by: Sequence[str]
    files: Sequence[str]
    properties: Mapping[str, str] = field(default_factory=dict)
