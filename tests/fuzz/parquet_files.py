"""Rewrite Parquet files with another footer, or with other columns, types and rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz import thrift

_NUMBERS = [0, 1, -1, 2, 3, 7, 12, 99, 2**31 - 1, 2**40, 2**62, -(2**40)]


def change_footer(rng: random.Random, path: Path) -> str:
    """Change some of the numbers and texts of a footer and return a description."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    node, _ = thrift.read_struct(data[-8 - length : -8])
    told = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        holder, key, where = rng.choice([s for s in thrift.scalars(node) if not s[2].startswith(".5")])
        old = holder[key]
        holder[key] = _other(rng, old)
        told.append(f"{where} {str(old)[:20]} becomes {str(holder[key])[:20]}")
    _with_footer(path, node)
    return ", ".join(told)


def say_rows(path: Path, rows: int) -> None:
    """Make a footer declare `rows` rows for each row group."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    node, _ = thrift.read_struct(data[-8 - length : -8])
    groups = next(value[1] for number, _, value in node if number == 4)
    for field in node:
        if field[0] == 3:
            field[2] = rows * len(groups)
    for group in groups:
        for field in group:
            if field[0] == 3:
                field[2] = rows
    _with_footer(path, node)


def rewrite(rng: random.Random, path: Path) -> str:
    """Rewrite a file with one column, or its rows, changed; return a description."""
    table = pq.ParquetFile(path).read()
    at = rng.randrange(table.num_columns)
    field, column = table.schema.field(at), table.column(at)
    how = rng.choice(
        [
            "nulls",
            "texts",
            "drop",
            "rename",
            "plain",
            "no-rows",
            "doubles",
            "twice",
            "struct",
            "repeated",
            "large",
            "huge",
        ]
    )
    rows = table.num_rows

    def other(kind: pa.DataType, values: list[Any]) -> pa.Table:
        return table.set_column(at, pa.field(field.name, kind, metadata=field.metadata), pa.array(values, kind))

    match how:
        case "nulls":
            table = table.set_column(at, field.with_nullable(True), pa.nulls(rows, field.type))
        case "texts":
            table = other(pa.string(), [str(v) for v in column.to_pylist()])
        case "drop":
            table = table.remove_column(at)
        case "rename":
            table = table.rename_columns([n + "_x" if i == at else n for i, n in enumerate(table.schema.names)])
        case "plain":
            table = table.cast(pa.schema([pa.field(f.name, f.type, f.nullable) for f in table.schema]))
        case "no-rows":
            table = table.slice(0, 0)
        case "doubles":
            table = other(pa.float64(), [1.5] * rows)
        case "twice":
            table = pa.concat_tables([table, table])
        case "struct":
            table = other(pa.struct([("a", pa.int32())]), [{"a": 1}] * rows)
        case "repeated":
            table = table.append_column(field, column)
        case "large" if pa.types.is_string(field.type):
            table = other(pa.large_string(), column.to_pylist())
        case "huge" if pa.types.is_int64(field.type):
            table = other(pa.int64(), [rng.choice([-1, 2**40, 2**63 - 1])] * rows)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    path.write_bytes(sink.getvalue())
    return f"{how} {field.name}"


def _other(rng: random.Random, old: Any) -> Any:
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice([*_NUMBERS, old + 1, old - 1, old * 2, -old])
    return rng.choice([b"", old[:-1], old + b"x", b"\xff\xfe", b"x" * 70_000, rng.randbytes(len(old))])


def _with_footer(path: Path, node: list[Any]) -> None:
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = thrift.write_struct(node)
    path.write_bytes(data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
