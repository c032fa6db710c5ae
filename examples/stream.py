"""Stream from an Iceberg table, while a writer appends to it, into a Delta table, and draw the progress.

Run with `python -m examples.stream [--seconds N] [--output FOLDER]`. Each micro-batch is committed with its number, so
that a batch that is repeated after a failure is not written twice.
"""

from __future__ import annotations

import argparse
import html
import json
import shutil
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console

import lakescan
import lakescan.spark
from examples.demo import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

console = Console()
SCHEMA = pa.schema({"id": pa.int64(), "amount": pa.float64()})
_ROWS = 2_000  # per commit
_STREAM = "examples.stream"
_WIDTH, _HEIGHT, _MARGIN = 860, 320, 60


@dataclass
class Progress:
    """Points of (seconds since the start, rows in the source, rows in the target, rows behind)."""

    started: float = field(default_factory=time.perf_counter)
    points: list[tuple[float, int, int, int]] = field(default_factory=list)

    def add(self, source: int, target: int, behind: int) -> None:
        self.points.append((time.perf_counter() - self.started, source, target, behind))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    arguments = parser.parse_args()
    folder = arguments.output.absolute() / "stream"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    progress = run(folder, arguments.seconds)
    target = folder / "target"
    ids = lakescan.table(target).scan().to_arrow()["id"].to_numpy()
    expected = progress.points[-1][1]
    assert len(ids) == len(np.unique(ids)) == expected, (len(ids), expected)
    page = folder / "progress.html"
    page.write_text(picture(progress))
    console.print(f"{expected:,} rows, each once, in {target}; the progress is drawn in {page}")


def run(folder: Path, seconds: float) -> Progress:
    """Stream while the writer appends, until all rows are read."""
    writer = Writer(folder)
    spark = session()
    progress = Progress()
    try:
        lakescan.spark.register(spark)
        writer.start()
        frame = spark.readStream.format("iceberg").option("maxFilesPerTrigger", 20).load(writer.location)
        copied = frame.writeStream.foreachBatch(lambda batch, number: copy(batch, number, folder / "target"))
        query = copied.option("checkpointLocation", str(folder / "checkpoint")).start()
        deadline = time.perf_counter() + seconds
        with console.status("streaming") as status:
            while query.isActive:
                progress.add(writer.rows, rows_in(folder / "target"), behind(query))
                status.update(f"streaming: {progress.points[-1][2]:,} of {writer.rows:,} rows")
                if time.perf_counter() >= deadline:
                    writer.stop()
                    if progress.points[-1][2] == writer.rows:
                        break
                time.sleep(0.25)
        query.stop()
    finally:
        writer.stop()
        spark.stop()
    return progress


class Writer(threading.Thread):
    """Appends to an Iceberg table until `stop` is called."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        catalog = SqlCatalog("stream", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/source")
        catalog.create_namespace("n")
        self._table = catalog.create_table("n.t", SCHEMA)
        self._stopped = threading.Event()
        self.location, self.rows = self._table.location(), 0

    def run(self) -> None:
        while not self._stopped.is_set():
            ids = np.arange(self.rows, self.rows + _ROWS)
            self._table.append(pa.table([ids, ids * 0.5], schema=SCHEMA))
            self.rows += _ROWS
            self._stopped.wait(0.05)

    def stop(self) -> None:
        """Stop after the current commit."""
        self._stopped.set()
        if self.is_alive():
            self.join()


def copy(batch: DataFrame, number: int, target: Path) -> None:
    """Append a micro-batch to the Delta table, unless it was already appended."""
    if (target / "_delta_log").exists():
        last = DeltaTable(target).transaction_version(_STREAM)
        if last is not None and last >= number:
            return
    once = CommitProperties(app_transactions=[Transaction(_STREAM, number)])
    write_deltalake(target, batch.toArrow(), mode="append", commit_properties=once)


def rows_in(target: Path) -> int:
    """Return the number of rows in the target so far."""
    return lakescan.table(target).scan().count() if (target / "_delta_log").exists() else 0


def behind(query: Any) -> int:
    """Return the number of rows that the stream has not read yet, as Spark reports it."""
    last = query.lastProgress
    latest = last["sources"][0]["latestOffset"] if last else None
    offset = json.loads(latest) if isinstance(latest, str) else latest or {}
    return int(offset.get("backlog", {}).get("rows", 0))


def picture(progress: Progress) -> str:
    """Draw the progress as an HTML page."""
    seconds = max(point[0] for point in progress.points)
    most = max(point[1] for point in progress.points)

    def line(column: int, name: str) -> str:
        places = " ".join(
            f"{_MARGIN + p[0] / seconds * (_WIDTH - 2 * _MARGIN):.1f},"
            f"{_HEIGHT - _MARGIN - p[column] / most * (_HEIGHT - 2 * _MARGIN):.1f}"
            for p in progress.points
        )
        return f'<polyline class="{name}" points="{places}"/>'

    axis = f'<path class="axis" d="M{_MARGIN} {_MARGIN}V{_HEIGHT - _MARGIN}H{_WIDTH - _MARGIN}"/>'
    labels = (
        f'<text x="{_MARGIN}" y="{_MARGIN - 12}">{most:,} rows</text>'
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - _MARGIN + 24}" text-anchor="end">{seconds:.0f} seconds</text>'
    )
    lines = line(1, "source") + line(2, "target") + line(3, "behind")
    legend = "".join(f'<span class="{n}">{html.escape(text)}</span>' for n, text in _LEGEND.items())
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Progress of a stream</title><style>{_STYLE}</style>"
        f"<h1>Iceberg to Delta, as a stream</h1><p>{legend}</p>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{axis}{lines}{labels}</svg></html>'
    )


_LEGEND = {
    "source": "rows committed to the Iceberg table",
    "target": "rows in the Delta table",
    "behind": "rows behind, as reported by Spark",
}
_STYLE = """
body { font: 15px system-ui, sans-serif; margin: 2rem auto; max-width: 880px; color: #1f2933; background: #fff; }
span { margin-right: 1.5rem; padding-left: 1rem; border-left: 4px solid; }
span.source { border-color: #94a3b8; } span.target { border-color: #0f766e; } span.behind { border-color: #d97706; }
polyline { fill: none; stroke-width: 2.5; } .source { stroke: #94a3b8; } .target { stroke: #0f766e; }
.behind { stroke: #d97706; } .axis { fill: none; stroke: #cbd5e1; } text { fill: #52606d; font-size: 13px; }
"""

if __name__ == "__main__":
    main()
