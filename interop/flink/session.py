"""A real Flink in one process, with Iceberg's connector, driven from Python."""

from __future__ import annotations

import json
import struct
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

ROOT = Path(__file__).parents[2]
LIBRARIES = ROOT / "build" / "flink"
_OPENED = (
    *("java.lang", "java.util", "java.time", "java.nio", "java.math", "java.net", "java.text", "java.lang.reflect"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks"),
)
_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


class FlinkError(Exception):
    """A statement failed in Flink; the message is Java's."""


class FlinkSession:
    """A Flink with the Iceberg catalog `lake`, which `lakescan.catalog("lake", warehouse=folder)` shares.

    Args:
        folder: The warehouse.
        log: The file for Flink's output.
        kind: "jdbc", over the SQLite file of lakescan's embedded catalog, or "hadoop", whose tables are folders.
    """

    def __init__(self, folder: Path, log: Path, kind: str = "jdbc") -> None:
        opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, "sun.nio.ch")]

        command = ["java", "-Xmx1500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC", *opened]
        source = Path(__file__).with_name("FlinkSession.java")
        self._log = log.open("w")
        self._process = subprocess.Popen(
            [*command, "-cp", f"{LIBRARIES}/*", str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._lock = threading.Lock()
        if kind == "jdbc":
            catalog = {
                "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
                "uri": f"jdbc:sqlite:{folder}/catalog.db?busy_timeout=60000",
                "warehouse": str(folder),
                "jdbc.schema-version": "V1",
            }
        else:
            catalog = {"catalog-type": "hadoop", "warehouse": f"file://{folder}"}
        options = {"type": "iceberg", "cache-enabled": "false", **catalog}
        self._ask({"setup": f"CREATE CATALOG lake WITH ({_options(options)})"})

    def sql(self, *statements: str, conf: Mapping[str, str] | None = None) -> list[tuple[Any, ...]]:
        """Run statements in batch mode; return the rows of the last one, in the form of `rows_of`."""
        return _rows(self._ask({"sql": statements, "conf": conf or {}}))

    def change(self, table: str, columns: Sequence[str], select: str, rows: Iterable[Sequence[str | None]]) -> None:
        """Write a changelog as one commit.

        Args:
            table: The table's name.
            columns: The names of the columns of `rows`, which are texts.
            select: For each column of the table, the inserted value as an expression over these columns.
            rows: The kind of each change ("+I", "-U", "+U", "-D"), and its values.
        """
        change = {"table": table, "columns": columns, "select": select, "rows": list(rows)}
        self._ask({"change": change})

    def start(self, statement: str, setup: str | None = None) -> str:
        """Start a streaming job, after a statement that its session needs; return the job's id."""
        return str(self._ask({"start": statement, "first": setup, "streaming": True})["job"])

    def poll(self, job: str) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the rows of a job so far, and whether it has ended; raise `FlinkError` if it failed."""
        answer = self._ask({"poll": job})
        if answer.get("failure") not in (None, "cancelled"):
            raise FlinkError(_cause(answer["failure"]))
        return _rows(answer), bool(answer["isDone"])

    def drained(self, job: str, rows: int, seconds: float = 90) -> list[tuple[Any, ...]]:
        """Return the rows of an endless query once it has returned at least `rows` of them; then cancel it."""
        ends = time.monotonic() + seconds
        while len(found := self.poll(job)[0]) < rows and time.monotonic() < ends:
            time.sleep(0.3)
        time.sleep(1)  # an extra row would arrive now
        found = self.poll(job)[0]
        self._ask({"cancel": job})
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._log.close()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        if not line:
            raise FlinkError(f"Flink ended: see {self._log.name}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise FlinkError(_cause(answer["error"]))
        return answer


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}'='{value}'" for name, value in options.items())


def _cause(trace: str) -> str:
    """Return the first line of a stack trace, and its causes."""
    lines = trace.splitlines()
    return "\n".join([lines[0], *(line for line in lines if line.startswith("Caused by"))])


def _rows(answer: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(map(_frozen, row)) for row in answer.get("rows", ())]


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows in the lossless form of FlinkSession.java, unordered: sort both sides."""
    columns = [[_value(each) for each in column] for column in table.columns]
    return list(zip(*columns, strict=True))


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Sort rows, whatever their values are."""
    return sorted(rows, key=repr)


def _value(value: pa.Scalar) -> Any:
    kind = value.type
    if not value.is_valid:
        return None
    if pt.is_struct(kind):
        return tuple(_value(value[n]) for n in range(kind.num_fields))
    if pt.is_map(kind):
        pairs = [(_value(each["key"]), _value(each["value"])) for each in value.values]
        return tuple(sorted(pairs, key=lambda pair: json.dumps(pair, separators=(",", ":"), ensure_ascii=False)))
    if pt.is_list(kind) or pt.is_large_list(kind):
        return tuple(map(_value, value.values))
    if pt.is_timestamp(kind):
        return f"{'z' if kind.tz else 't'}{value.value * _UNITS[kind.unit]}"
    if pt.is_time(kind):
        return f"T{value.value * _UNITS[kind.unit]}"
    if pt.is_date(kind):
        return f"D{value.value}"
    plain = value.as_py()
    if pt.is_float32(kind):
        return "f" + format(struct.unpack("<I", struct.pack("<f", plain))[0], "x")
    if pt.is_float64(kind):
        return "d" + format(struct.unpack("<Q", struct.pack("<d", plain))[0], "x")
    if pt.is_decimal(kind):
        return f"n{plain:f}"
    if isinstance(plain, bytes):
        return f"x{plain.hex()}"
    return plain if isinstance(plain, bool | int) else f"s{plain}"
