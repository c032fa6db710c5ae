"""Acceptance workloads of Delta's kernel: each case is a folder with a table and the expected results of reading it.

Two layouts are supported. DAT's releases (`reader_tests`): `<case>/delta` and `<case>/expected/<version>/` with
`table_version_metadata.json` (or only `table_content.parquet`), where `latest` is the newest version. The "workloads"
of DAT 0.0.4: `<case>/specs/<name>.json`, of the types `read` and `snapshotConstruction`, with
`<case>/expected/<name>/expected_data/*.parquet`.

The data is a release file and not in any package registry. `LAKESCAN_WORKLOADS` names the folder where it was unpacked;
the default is `workloads` in the corpus. `workloads_ratchet.json` lists the cases that do not pass yet, each with its
reason.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import lakescan
from tests.conftest import corpus_folder
from tests.support.rows import differences, with_variants_decoded

RATCHET: dict[str, str] = json.loads((Path(__file__).parent / "workloads_ratchet.json").read_text())


@dataclass(frozen=True)
class Workload:
    """One read or snapshot of a table, with the expected rows, protocol and metadata, or error."""

    name: str
    table: Path
    spec: dict[str, Any]
    expected: Path | None

    def problem(self) -> str:
        """Describe how lakescan's result differs from the expected one; empty if they agree. Any error counts as
        expected.
        """
        try:
            opened = lakescan.table(str(self.table), **self._options())
            found = self._read(opened) if self.spec["type"] == "read" else opened
        except Exception as error:  # of any kind: the specifications name errors by codes of Spark
            return "" if "error" in self.spec else f"{type(error).__name__}: {error}"
        if "error" in self.spec:
            return f"no error instead of {self.spec['error']}"
        return self._other_rows(found) if isinstance(found, pa.Table) else self._other_metadata(found)

    def _options(self) -> dict[str, Any]:
        """Return the options that select the version to read."""
        named = {"version": "version_as_of", "timestamp": "timestamp_as_of"}
        return {option: self.spec[key] for key, option in named.items() if self.spec.get(key) is not None}

    def _read(self, opened: lakescan.Table) -> pa.Table:
        scan = opened.scan()
        if self.spec.get("predicate"):
            scan = scan.where(self.spec["predicate"])
        if self.spec.get("columns"):
            scan = scan.select(*self.spec["columns"])
        rows = scan.to_arrow()
        assert scan.count() == rows.num_rows
        return rows

    def _other_rows(self, rows: pa.Table) -> str:
        told = self.spec.get("expected") or {}
        count = told.get("rowCount", told.get("row_count"))
        if count is not None and rows.num_rows != count:
            return f"{rows.num_rows} rows instead of {count}"
        files = sorted(self.expected.rglob("*.parquet")) if self.expected else []
        files = [
            file for file in files if not file.name.startswith((".", "_")) and "expected_metadata" not in file.parts
        ]
        if not files:
            return "" if count is not None else "nothing is known of the rows"
        expected = pa.concat_tables([pq.read_table(file, partitioning=None) for file in files])
        # Struct members and columns have the table's order; DAT's files may have their own.
        if sorted(expected.column_names) == sorted(rows.column_names):
            expected = expected.select(rows.column_names)
        return differences(with_variants_decoded(rows), with_variants_decoded(expected))

    def _other_metadata(self, opened: lakescan.Table) -> str:
        told = self.spec.get("expected") or {}
        found = opened.inspect("detail", version=self.spec.get("version")).to_pylist()[0]
        wrong = []
        if protocol := told.get("protocol"):
            versions = (found["minReaderVersion"], found["minWriterVersion"])
            wanted = (protocol["minReaderVersion"], protocol["minWriterVersion"])
            features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
            if versions != wanted:
                wrong.append(f"protocol {versions} instead of {wanted}")
            if not features <= set(found["tableFeatures"] or ()):
                wrong.append(f"features {found['tableFeatures']} instead of {sorted(features)}")
        if metadata := told.get("metadata"):
            pairs = {
                "id": (found["id"], metadata["id"]),
                "partition columns": (found["partitionColumns"], metadata.get("partitionColumns", [])),
                "properties": (dict(found["properties"] or ()), metadata.get("configuration", {})),
            }
            wrong += [
                f"{name} {ours!r} instead of {theirs!r}" for name, (ours, theirs) in pairs.items() if ours != theirs
            ]
        return "; ".join(wrong)


def workloads_folder() -> Path | None:
    """Return the folder of the workloads, or None if absent."""
    named, corpus = os.environ.get("LAKESCAN_WORKLOADS"), corpus_folder()
    folder = Path(named) if named else corpus / "workloads" if corpus else None
    return folder if folder is not None and folder.is_dir() else None


def workloads_below(root: Path | None) -> list[Workload]:
    """Return every workload below a folder, of either layout."""
    if root is None:
        return []
    cases = sorted({path.parent for name in ("delta", "specs") for path in root.rglob(name) if path.is_dir()})
    return [each for case in cases for each in (*_specified(case, root), *_versions(case, root))]


def _specified(case: Path, root: Path) -> Iterator[Workload]:
    for file in sorted((case / "specs").glob("*.json")):
        spec = json.loads(file.read_text())
        spec["type"] = "snapshot" if spec["type"].lower().startswith("snapshot") else spec["type"]
        if spec["type"] in ("read", "snapshot"):
            name = f"{case.relative_to(root)}/{file.stem}"
            yield Workload(name, case / "delta", spec, case / "expected" / file.stem)


def _versions(case: Path, root: Path) -> Iterator[Workload]:
    """Yield the versions of a case of DAT's reader tests."""
    if (case / "specs").is_dir():
        return
    for folder in sorted((case / "expected").glob("*")):
        found = folder / "table_content"
        content = found if found.is_dir() else folder
        if any(content.rglob("*.parquet")):
            version = folder.name.removeprefix("v")
            spec: dict[str, Any] = {"type": "read"} | ({"version": int(version)} if version.isdecimal() else {})
            yield Workload(f"{case.relative_to(root)}/{folder.name}", case / "delta", spec, content)
