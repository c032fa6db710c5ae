"""The corpus: tables that other projects publish as test data, with the rows that the JVM reference reads.

The corpus is optional: `LAKESCAN_CORPUS` names its folder. `ratchet.json` lists the cases that do not pass yet, each
with its reason; the list only shrinks. For a case that the reference itself cannot read, this module records the result
that the specification demands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakescan
from tests.conftest import corpus_folder

_RATCHET: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "ratchet.json").read_text())
_JUDGED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "judged.json").read_text())


@dataclass(frozen=True)
class Case:
    """One table of the corpus."""

    format: str
    id: str
    folder: Path
    node: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.format}:{self.id}"

    @property
    def expected(self) -> pa.Table | None:
        """Return the reference's rows, or None if it has none for this table."""
        return pq.read_table(self.folder / self.node["expected"]) if "expected" in self.node else None

    @property
    def row_count(self) -> int | None:
        """Return the expected number of rows: the reference's count, or the one recorded here."""
        return self.node.get("row_count") if not self.refused_by_reference else _JUDGED[self.name].get("rows")

    @property
    def error(self) -> type[Exception] | None:
        """Return the error that reading must raise, if the table must be refused."""
        if not self.refused_by_reference:
            return None
        name = _JUDGED[self.name].get("error")
        return getattr(lakescan, name) if name else None

    @property
    def refused_by_reference(self) -> bool:
        return bool(self.node.get("error"))

    @property
    def location(self) -> str:
        return str(self.folder / (self.node["metadata"] if self.format == "iceberg" else self.node["path"]))

    @property
    def relocate(self) -> dict[str, str]:
        return {old: str(self.folder / new) for old, new in self.node.get("relocate", {}).items()}

    def reason_not_passing(self, engine: str) -> str | None:
        """Return why the ratchet lists the case for an engine ('local' or 'spark'); None if the case must pass."""
        found = _RATCHET[engine].get(self.name)
        return found if found is not None else _RATCHET["both"].get(self.name)


def all_cases() -> list[Case]:
    """Return every case of both formats; an empty list without the corpus."""
    root = corpus_folder()
    if root is None:
        return []
    found = []
    for name in ("iceberg", "delta"):
        nodes = json.loads((root / name / "cases.json").read_text())
        found += [Case(name, node["id"], root / name, node) for node in nodes]
    return found


def ratchet_names() -> set[str]:
    """Return the names of all cases in the ratchet file."""
    return {name for part in _RATCHET.values() for name in part}
