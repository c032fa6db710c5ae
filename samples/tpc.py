"""TPC-H and TPC-DS: rows and texts of queries from DuckDB's generators, and tables that lakescan writes of the rows.

Nothing of the benchmarks is in the repository: `scripts/tpc_data.py` makes it, in an environment of its own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import lakescan
from samples.delta_deletes import commit_vectors, stored_vector
from samples.iceberg_deletes import commit_deletes, write_position_deletes

_ROOT = Path(__file__).parents[1]


class Unavailable(Exception):
    """The generators cannot be installed, as without a network."""


@dataclass(frozen=True)
class Tpc:
    """Rows and queries: `folder` has a file `<table>.parquet` for each table."""

    name: str
    folder: Path

    @property
    def tables(self) -> dict[str, str]:
        """The Parquet files by the names of the tables."""
        return {each.stem: str(each) for each in sorted(self.folder.glob("*.parquet"))}

    @property
    def queries(self) -> dict[int, str]:
        """The texts by number, as Spark takes them: names in double quotes are put in its own."""
        return {number: _for_spark(text) for number, text in self.texts.items()}

    @property
    def texts(self) -> dict[int, str]:
        """The texts by number, as DuckDB has them."""
        texts = json.loads((self.folder / "queries.json").read_text())
        return {int(number): text.strip().rstrip(";") for number, text in texts.items()}


def tpc(name: str, scale: float) -> Tpc:
    """The rows and queries of `tpch` or `tpcds`, made once under `build/tpc` and kept.

    Raises:
        Unavailable: The generators cannot be installed. It is another error if they fail.

    Example:
        >>> tpc("tpch", 0.01).queries[6]
    """
    folder = _ROOT / "build" / "tpc" / f"{name}-{scale:g}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        _generator("--help", error=Unavailable)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            whole = Path(made) / "whole"
            whole.mkdir()
            _generator(name, str(scale), str(whole), error=RuntimeError)
            if not folder.exists():  # another process may have been faster
                whole.replace(folder)
    return Tpc(name, folder)


def _generator(*arguments: str, error: type[Exception]) -> None:
    uv = shutil.which("uv") or str(_ROOT / "build" / "uv" / "bin" / "uv")
    command = [uv, "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable]
    try:
        done = subprocess.run(
            [*command, _ROOT / "scripts" / "tpc_data.py", *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as missing:
        raise Unavailable(f"uv, which `make setup` installs, is not there: {missing}") from missing
    if done.returncode:
        raise error(f"scripts/tpc_data.py {' '.join(arguments)} failed: {done.stderr.strip()}")


def _for_spark(text: str) -> str:
    """The text as it is; where it has names in double quotes, which are texts in Spark, sqlglot's translation."""
    if '"' not in text:
        return text
    import sqlglot

    translated: str = sqlglot.transpile(text, read="duckdb", write="spark")[0]
    return translated


@dataclass(frozen=True)
class Layout:
    """How a table is made: `files` appends of rows in the order of a column, with partitions.

    `removed_by` says how rows that do not belong to it were removed again: by an `overwrite`, or by `deletes` that
    readers apply (positions in Iceberg, vectors in Delta); the column `key` of such rows is negative. One such row is
    added for each `strangers` of the others.
    """

    files: int = 1
    order: str | None = None
    partitions: str = ""
    removed_by: str | None = None
    key: str = ""
    strangers: int = 50


_PLAIN = Layout()
LAYOUTS: Mapping[tuple[str, str], Mapping[str, Layout]] = {
    ("tpch", "iceberg"): {
        "lineitem": Layout(2, None, "months(l_shipdate)", "overwrite", "l_orderkey"),
        "orders": Layout(2, None, "months(o_orderdate)"),
        "customer": Layout(2, None, "bucket(4, c_custkey)"),
        "part": Layout(3, "p_size"),
        "partsupp": Layout(3, None, "", "deletes", "ps_partkey"),
    },
    ("tpch", "delta"): {
        "lineitem": Layout(12, "l_shipdate", "l_returnflag", "deletes", "l_orderkey"),
        "orders": Layout(12, "o_orderdate", "", "overwrite", "o_orderkey"),
        "customer": Layout(2, None, "c_mktsegment"),
        "part": Layout(3, "p_size"),
        "partsupp": Layout(3, None),
    },
    ("tpcds", "iceberg"): {
        "store_sales": Layout(2, None, "bucket(4, ss_item_sk)", "overwrite", "ss_ticket_number"),
        "store_returns": Layout(3, "sr_returned_date_sk"),
        "catalog_sales": Layout(2, None, "truncate(200, cs_sold_date_sk)"),
        "catalog_returns": Layout(3, None, "", "deletes", "cr_order_number"),
        "web_sales": Layout(4, "ws_sold_date_sk"),
        "date_dim": Layout(4, "d_date"),
        "item": Layout(2, None, "i_category"),
        "customer": Layout(2, None, "bucket(4, c_customer_sk)"),
    },
    ("tpcds", "delta"): {
        "store_sales": Layout(6, "ss_sold_date_sk", "", "deletes", "ss_ticket_number"),
        "store_returns": Layout(3, "sr_returned_date_sk"),
        "catalog_sales": Layout(6, "cs_sold_date_sk", "", "overwrite", "cs_order_number"),
        "web_sales": Layout(4, "ws_sold_date_sk"),
        "date_dim": Layout(1, None, "d_year"),
        "item": Layout(2, None, "i_category"),
    },
}


def write_tables(data: Tpc, format_name: str, catalog: lakescan.Catalog, layouts: Mapping[str, Layout]) -> str:
    """Write the tables of a format into the namespace `<name>_<format>` of a catalog, whose name is returned.

    Args:
        data: The rows.
        format_name: 'iceberg' or 'delta'.
        catalog: Where the tables are made; its warehouse is a local folder.
        layouts: Of the tables that are not to be one plain append.

    Example:
        >>> write_tables(tpc("tpch", 0.01), "delta", lakescan.catalog("tpc", warehouse="/tmp/tpc"), {})
    """
    namespace = f"{data.name}_{format_name}"
    catalog.create_namespace(namespace)
    for name, file in data.tables.items():
        layout = layouts.get(name, _PLAIN)
        rows = pq.read_table(file)
        if layout.order is not None:
            rows = rows.sort_by(layout.order)
        _write(catalog, f"{namespace}.{name}", format_name, rows, layout)
    return namespace


def _write(catalog: lakescan.Catalog, name: str, format_name: str, rows: pa.Table, layout: Layout) -> None:
    partitions = layout.partitions or ()
    table = catalog.create_table(name, rows.schema, format=format_name, partition_by=partitions)
    pieces = [rows.slice(rows.num_rows * n // layout.files) for n in range(layout.files)]
    for n, piece in enumerate(pieces):
        own = piece.slice(0, rows.num_rows * (n + 1) // layout.files - rows.num_rows * n // layout.files)
        table.append(_with_strangers(own, layout) if layout.removed_by else own)
    if layout.removed_by == "overwrite":
        table.overwrite(rows.slice(0, 0), where=f"{layout.key} < 0")
    elif layout.removed_by == "deletes":
        (_delete_vectors if format_name == "delta" else _delete_positions)(catalog, name, layout.key)


def _with_strangers(rows: pa.Table, layout: Layout) -> pa.Table:
    """The rows, with copies of some of them whose key is negative."""
    key, strangers = layout.key, rows.take(list(range(0, rows.num_rows, layout.strangers)))
    negative = pc.subtract(pc.negate(strangers[key]), 1).cast(rows.schema.field(key).type)
    return pa.concat_tables(
        [rows, strangers.set_column(rows.schema.get_field_index(key), rows.schema.field(key), negative)]
    )


def _strangers(file: Path, key: str) -> list[int]:
    """The positions in a data file of rows that do not belong to it."""
    positions: list[int] = pc.indices_nonzero(pc.less(pq.read_table(file, columns=[key])[key], 0)).to_pylist()
    return positions


def _files(table: lakescan.Table) -> list[str]:
    paths: list[str] = table.scan().plan().files["path"].to_pylist()
    return paths


def _delete_positions(catalog: lakescan.Catalog, name: str, key: str) -> None:
    """Iceberg's delete files are committed beside lakescan, which has none of its own: the table is registered anew."""
    files = _files(catalog.load_table(name))
    deletes = [
        write_position_deletes(f"{path}-deletes.parquet", [(path, n) for n in _strangers(_local(path), key)])
        for path in files
    ]
    metadata = max((_local(files[0]).parents[1] / "metadata").glob("*.metadata.json"))
    made = commit_deletes(f"file://{metadata}", deletes)
    catalog.drop_table(name)
    catalog.register_table(name, made)


def _delete_vectors(catalog: lakescan.Catalog, name: str, key: str) -> None:
    table = catalog.load_table(name)
    folder = _local(table.location)
    files = {str(_local(path).relative_to(folder)): _strangers(_local(path), key) for path in _files(table)}
    commit_vectors(folder, {path: stored_vector(folder, gone) for path, gone in files.items() if gone})


def _local(location: str) -> Path:
    return Path(location.removeprefix("file://"))
