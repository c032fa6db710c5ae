"""Read all tables below folders with lakescan and the JVM, and report differences in rows, older states and changes.

python -m interop.public_tables FOLDER... Delta and Iceberg python -m interop.public_tables FOLDER --moved
/old/place=FOLDER/table

The tool is for tables that other projects publish as test data, such as a checkout of their repository. lakescan reads
moved Iceberg tables with `--moved`. The JVM finds only tables whose metadata names existing locations, such as paths
relative to the working directory. Members of type VARIANT are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
from interop.histories.canonical import difference
from interop.histories.sides import session

_MOST_ROWS = 200_000  # more rows are only counted
_NUMBER = re.compile(r"v?(\d+)")


def main() -> int:
    """Run the command; return 1 on a difference, or if only the JVM can read a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--moved", action="append", default=[], help="OLD=NEW, for Iceberg; may be given often")
    given = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="public-tables"))
    jvm, counts = session(home), Counter[str]()
    relocate = dict(each.split("=", 1) for each in given.moved)
    for folder in given.folders:
        for name, ours, theirs in (*of_delta(jvm, folder), *of_iceberg(jvm, folder, relocate)):
            verdict, words = compared(ours, theirs)
            counts[verdict] += 1
            print(f"{verdict}: {name}{': ' + words if words else ''}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))
    jvm.stop()
    shutil.rmtree(home, ignore_errors=True)
    return 1 if counts["DIFFER"] + counts["ONLY THE JVM READS"] else 0


Reads = tuple[str, Callable[[], pa.Table], Callable[[], Any]]


def of_delta(jvm: Any, folder: Path) -> Iterator[Reads]:
    """Yield the newest state, older ones, and the changes of each table, as functions of lakescan and of the JVM."""
    for table in sorted({log.parent for log in folder.rglob("_delta_log") if log.is_dir()}):
        path = str(table)
        yield path, lambda path=path: rows(path), lambda path=path: jvm.read.format("delta").load(path)
        try:
            versions = sorted(lakescan.table(path).history()["version"].to_pylist())
        except lakescan.LakescanError:
            continue
        for version in versions[-6:-1]:
            yield (
                f"{path} at {version}",
                lambda path=path, version=version: rows(path, version_as_of=version),
                lambda path=path, version=version: jvm.read.format("delta").option("versionAsOf", version).load(path),
            )
        for start in {versions[0], versions[-1]} if versions else ():
            yield (
                f"{path}: changes since {start}",
                lambda path=path, start=start: lakescan.table(path).changes(start - 1 if start else None).to_arrow(),
                lambda path=path, start=start: (
                    jvm.read.format("delta").option("readChangeFeed", True).option("startingVersion", start).load(path)
                ),
            )


def of_iceberg(jvm: Any, folder: Path, relocate: dict[str, str]) -> Iterator[Reads]:
    """Yield each metadata file, as functions of lakescan and of the JVM."""
    for number, file in enumerate(sorted(folder.rglob("*.metadata.json"), key=lambda file: (file.parent, order(file)))):
        raw = file.read_bytes()
        try:
            metadata = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        except ValueError:
            continue
        if not isinstance(metadata, dict) or "view-version" in metadata or "location" not in metadata:
            continue
        moved = {metadata["location"]: str(file.parent.parent), **relocate}

        def theirs(number: int = number, file: Path = file) -> Any:
            name = f"db.p{number}"
            jvm.sql(f"CALL lake.system.register_table(table => '{name}', metadata_file => '{file}')").collect()
            return jvm.table(f"lake.{name}")

        yield str(file), lambda file=file, moved=moved: rows(str(file), relocate=moved), theirs


def order(file: Path) -> int:
    """Return the number at the start of a metadata file's name."""
    found = _NUMBER.match(file.name)
    return int(found[1]) if found else -1


def rows(path: str, **options: Any) -> pa.Table:
    """Return all rows, or, of many rows, their number."""
    table = lakescan.table(path, **options)
    count = table.count()
    return table.to_arrow() if count <= _MOST_ROWS else pa.table({"count": [count]})


def compared(ours: Callable[[], pa.Table], theirs: Callable[[], Any]) -> tuple[str, str]:
    """Classify two reads, and describe how they differ or fail."""
    mine, yours = outcome(ours), outcome(lambda: arrow(theirs()))
    match mine, yours:
        case str(), str():
            return "both refuse", mine
        case str(), _:
            return "ONLY THE JVM READS", mine
        case _, str():
            return "only lakescan reads", yours
    names = [name for name in yours.column_names if name in mine.column_names and name != "_commit_timestamp"]
    words = difference(mine.select(names), yours.select(names), types=False)
    return ("DIFFER", words) if words else ("the same", "")


def outcome(read: Callable[[], pa.Table]) -> pa.Table | str:
    """Return the rows, or the error as text."""
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}"


def arrow(frame: Any) -> pa.Table:
    """Return the rows of a JVM frame without variants, or, of many rows, their number."""
    variants = [field.name for field in frame.schema if "variant" in field.dataType.simpleString()]
    count = frame.count()
    return frame.drop(*variants).toArrow() if count <= _MOST_ROWS else pa.table({"count": [count]})


if __name__ == "__main__":
    sys.exit(main())
