"""Removed files of Delta tables: remove actions have the exact path text of their adds, which other readers compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

import lakescan
from lakescan.delta.commit.actions import log_paths

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
METADATA = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(SCHEMA)}
NO_ROWS = pa.table({"id": pa.array([], pa.int64())})
REPLACED: dict[str, Callable[[lakescan.Table], object]] = {
    "all": lambda table: table.overwrite(NO_ROWS),
    "rows": lambda table: table.overwrite(NO_ROWS, where="id >= 0"),
    "small files": lambda table: table.compact(),
}


def table_of(folder: Path, paths: dict[str, str]) -> lakescan.Table:
    """Make a Delta table with one row per file; `paths` are its files, and their paths in the log."""
    (folder / "_delta_log").mkdir(parents=True)
    actions: list[object] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {**METADATA, "partitionColumns": [], "configuration": {}}},
    ]
    for number, (name, spelled) in enumerate(paths.items()):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), file)
        size = file.stat().st_size
        add = {"path": spelled, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        actions.append({"add": add})
    log = folder / "_delta_log" / f"{0:020d}.json"
    log.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in actions), encoding="utf-8")
    return lakescan.table(folder)


def files_by_deltalake(folder: Path) -> int:
    return len(DeltaTable(folder).file_uris())


SPELLINGS = {
    "as Spark spells letters beyond ASCII": {"ü.parquet": "ü.parquet"},
    "with more encoded than need be": {"c+d.parquet": "c%2Bd.parquet"},
    "in small letters": {"q[1].parquet": "q%5b1%5d.parquet"},
    "as deltalake does": {"a b.parquet": "a%20b.parquet", "p=a%3Ab/f.parquet": "p=a%253Ab/f.parquet"},
}


@pytest.mark.parametrize(("replace", "left"), [*zip(REPLACED.values(), (0, 0, 1), strict=True)], ids=REPLACED)
@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
def test_files_are_replaced_for_all_readers_however_the_log_spells_them(tmp_path, spelled, replace, left) -> None:
    table = table_of(tmp_path / "t", {**spelled, "plain.parquet": "plain.parquet"})
    replace(table)
    assert files_by_deltalake(tmp_path / "t") == left
    assert lakescan.table(tmp_path / "t").scan().count() == left * (len(spelled) + 1)


def test_paths_are_encoded_as_uris() -> None:
    paths = ["day=1/f.parquet", "a b", "p=a%3Ab", "ü", "q[1]{2}", "c+d&e=f", "x?#"]
    encoded = ["day=1/f.parquet", "a%20b", "p=a%253Ab", "%C3%BC", "q%5B1%5D%7B2%7D", "c+d&e=f", "x%3F%23"]
    assert log_paths(pa.array(paths)).to_pylist() == encoded
    assert [unquote(each) for each in encoded] == paths
