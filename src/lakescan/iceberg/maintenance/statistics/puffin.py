"""Statistics files with numbers of distinct values: Puffin files of Theta sketches (Puffin specification)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakescan.iceberg.maintenance.statistics.theta_sketch import ThetaSketch
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot
from lakescan.storage import Storage
from lakescan.writing.puffin import PuffinWriter

_TYPE = "apache-datasketches-theta-v1"


def write_sketches(
    sketches: Mapping[int, ThetaSketch], snapshot: IcebergSnapshot, location: str, storage: Storage
) -> dict[str, Any]:
    """Write the sketch of each field of a snapshot; return the file as table metadata describes it."""
    blobs = []
    with storage.writing(location) as file:
        writer = PuffinWriter(file)
        for field_id, sketch in sketches.items():
            blob = {
                "type": _TYPE,
                "fields": [field_id],
                "snapshot-id": snapshot.id,
                "sequence-number": snapshot.sequence_number,
                "properties": {"ndv": str(sketch.estimate)},
            }
            writer.add_blob(sketch.serialize(), blob)
            blobs.append(blob)
        footer = writer.size
        size = writer.finish()
    return {
        "snapshot-id": snapshot.id,
        "statistics-path": location,
        "file-size-in-bytes": size,
        "file-footer-size-in-bytes": size - footer,
        "blob-metadata": blobs,
    }
