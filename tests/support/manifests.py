"""Changing what a table's metadata says of its files, as tables that were written by others have it."""

from __future__ import annotations

import io
from pathlib import Path

import fastavro


def rename_data_files(table: Path, names: dict[str, str]) -> None:
    """Rename data files of a table that `samples.iceberg_table` wrote, in its folder and in its manifest."""
    manifest = table / "metadata" / "m0.avro"
    reader = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    entries = list(reader)
    for entry in entries:
        path = entry["data_file"]["file_path"]
        name = path.rsplit("/", 1)[1]
        if name in names:
            entry["data_file"]["file_path"] = path[: -len(name)] + names[name]
    out = io.BytesIO()
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    fastavro.writer(out, reader.writer_schema, entries, metadata=header)
    manifest.write_bytes(out.getvalue())
    for old, new in names.items():
        (table / "data" / old).rename(table / "data" / new)
