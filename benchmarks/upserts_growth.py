"""Plan 1,000, 10,000 and 100,000 commits of upserts, each in its own process: time and peak memory.

Each commit has a data file and an equality delete file, in manifests of 500 files, and no file of rows exists. Keys
are spread over their whole range, or each commit has its own keys, as with growing keys. In the second case
statistics exclude all deletes. The filter selects one key. The aims are 300 MB and 5 s for 10,000 commits, and times
that grow as the commits do.
"""

from __future__ import annotations

import json
import statistics
import struct
from pathlib import Path

from samples.iceberg_deletes import EQUALITY, DeleteFile, manifest_entry, write_manifest, write_manifest_list
from samples.iceberg_table import SNAPSHOT, one_snapshot, table_metadata

from benchmarks.data import FOLDER
from benchmarks.harness import in_own_process

_PLAN = """
import json, sys, time
import lakescan
lakescan.set_cache_limit(0)
started = time.perf_counter()
scan = lakescan.table(sys.argv[1]).scan()
plan = (scan.where(sys.argv[2]) if sys.argv[2] else scan).spec.for_reading().plan()
groups = sum(1 for group in plan.groups.sharing_deletes(2))
seconds = time.perf_counter() - started
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
found = {"files": len(plan.files), "deletes": len(plan.deletes), "pairs": plan.report.metrics.result_delete_files}
print(json.dumps({**found, "groups": groups, "seconds": seconds, "peak": peak / 1024}))
"""
_SIZES, _FILES, _ROWS = (1_000, 10_000, 100_000), 500, 2_000
_FIELDS = [{"id": 1, "name": "id", "required": False, "type": "long"}]


def run(rows: int, runs: int) -> str:
    """Plan the tables, whatever `rows` is."""
    lines = [
        "| commits | keys | filter | data files | delete files | pairs | groups | seconds | peak memory, MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for commits in _SIZES:
        for spread in (True, False):
            path = _upserts(commits, spread=spread)
            for condition in ("", f"id = {commits * _ROWS // 2}"):
                found = [in_own_process(_PLAN, path, condition) for _ in range(min(runs, 3))]
                seconds = statistics.median(each["seconds"] for each in found)
                peak, first = max(each["peak"] for each in found), found[0]
                counts = " | ".join(f"{first[name]:,}" for name in ("files", "deletes", "pairs", "groups"))
                keys = "spread" if spread else "growing"
                lines.append(f"| {commits:,} | {keys} | {condition} | {counts} | {seconds:.2f} | {peak:,.0f} |")
    return "\n".join(lines)


def _upserts(commits: int, *, spread: bool) -> str:
    """Make the table and return its folder."""
    folder = FOLDER / f"upserts_growth_{commits}_{spread}"
    if not (folder / "done").exists():
        (folder / "metadata").mkdir(parents=True, exist_ok=True)
        location = f"file://{folder}"
        metadata = table_metadata(location, _FIELDS, None, 2, {})
        listed = []
        for first in range(1, commits + 1, _FILES):
            numbers = range(first, min(first + _FILES, commits + 1))
            for content, kind in ((0, "d"), (EQUALITY, "e")):
                files = [_file(location, kind, content, n, commits, spread=spread) for n in numbers]
                manifest = f"{location}/metadata/{kind}{first}.avro"
                length = write_manifest(manifest, metadata, 0, files, SNAPSHOT)
                listed.append(manifest_entry(manifest, length, 0, numbers[-1], SNAPSHOT, files))
        write_manifest_list(f"{location}/metadata/snap.avro", listed[::-1])
        metadata |= one_snapshot({"manifest-list": f"{location}/metadata/snap.avro"})
        metadata["last-sequence-number"] = metadata["snapshots"][0]["sequence-number"] = commits
        Path(folder, "metadata", "v1.metadata.json").write_text(json.dumps(metadata))
        Path(folder, "metadata", "version-hint.text").write_text("1")
        (folder / "done").touch()
    return str(folder)


def _file(location: str, kind: str, content: int, number: int, commits: int, *, spread: bool) -> DeleteFile:
    """Return a commit's data file of 30 KB, or its equality delete file of 10 KB."""
    low, high = (number % 100, commits * _ROWS - number % 100) if spread else (number * _ROWS, (number + 1) * _ROWS - 1)
    return DeleteFile(
        content,
        f"{location}/data/{kind}{number}.parquet",
        "PARQUET",
        _ROWS,
        10_000 if content else 30_000,
        equality_ids=[1] if content else None,
        bounds={1: (struct.pack("<q", low), struct.pack("<q", high))},
        nulls={1: 0},
        sequence_number=number,
    )
