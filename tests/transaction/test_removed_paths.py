"""Files of Delta tables that go: their removes have the text of their adds, which other readers compare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import RemoveAction

import lakescan
from lakescan.delta.write.removed_paths import by_deltalake

SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
METADATA = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(SCHEMA)}
NO_ROWS = pa.table({"id": pa.array([], pa.int64())})
REPLACED: dict[str, Callable[[lakescan.Table], object]] = {
    "all": lambda table: table.overwrite(NO_ROWS),
    "rows": lambda table: table.overwrite(NO_ROWS, where="id >= 0"),
    "small files": lambda table: table.compact(),
}


def table_of(folder: Path, paths: dict[str, str]) -> lakescan.Table:
    """A Delta table with a row a file; `paths` are its files, and how the log spells them."""
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


@pytest.mark.parametrize("replace", REPLACED.values(), ids=REPLACED)
@pytest.mark.parametrize("spelled", ["ü.parquet", "c%2Bd.parquet", "q%5b1%5d.parquet"])
def test_files_that_other_readers_would_keep_are_not_replaced(tmp_path: Path, spelled: str, replace) -> None:
    """As Spark spells letters beyond ASCII, and others what need not be encoded."""
    name = {"ü.parquet": "ü.parquet", "c%2Bd.parquet": "c+d.parquet"}.get(spelled, "q[1].parquet")
    table = table_of(tmp_path / "t", {name: spelled, "plain.parquet": "plain.parquet"})
    with pytest.raises(lakescan.UnsupportedFeature, match="differently from deltalake, which commits"):
        replace(table)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1]
    assert files_by_deltalake(tmp_path / "t") == 2
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 2  # what was written for the commit is gone


@pytest.mark.parametrize(("replace", "left"), [*zip(REPLACED.values(), (0, 0, 1), strict=True)], ids=REPLACED)
def test_files_of_odd_names_that_are_spelled_as_by_deltalake_are_replaced(tmp_path: Path, replace, left: int) -> None:
    names = ["a b.parquet", "p=a%3Ab/f.parquet", "q[1]{2}.parquet", "c+d&e=f.parquet", "ä.parquet", "plain.parquet"]
    table = table_of(tmp_path / "t", {name: by_deltalake(name) for name in names})
    replace(table)
    assert files_by_deltalake(tmp_path / "t") == left
    assert lakescan.table(tmp_path / "t").scan().count() == left * len(names)


def test_paths_are_spelled_as_deltalake_does_it(tmp_path: Path) -> None:
    table_of(tmp_path / "t", {"f.parquet": "f.parquet"})
    table = DeltaTable(tmp_path / "t")
    path = "x" + "".join(map(chr, range(1, 127))).replace("/", "") + "\x7füç€😀" + quote("ü")
    table.create_write_transaction([RemoveAction(path, True, 0, 1, {})], "append", table.schema(), [])
    lines = (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    (written,) = [json.loads(line)["remove"]["path"] for line in lines if '"remove"' in line]
    assert by_deltalake(path) == written
