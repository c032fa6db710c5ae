# /// script
# requires-python = ">=3.11"
# dependencies = ["duckdb==1.5.5", "duckdb-extension-tpch==1.5.5", "duckdb-extension-tpcds==1.5.5"]
# ///
"""Write the tables of TPC-H or TPC-DS as Parquet files, and the texts of their queries, by DuckDB's generators.

    uv run --isolated --no-project scripts/tpc_data.py tpch 0.01 build/tpc/tpch-0.01

The generators need another version of DuckDB than lakescan, so the script has its own environment. `samples/tpc.py`
runs it and keeps its output.
"""

from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

import duckdb

GENERATORS = {"tpch": "CALL dbgen(sf = {})", "tpcds": "CALL dsdgen(sf = {})"}


def main(name: str, scale: float, folder: Path) -> None:
    """Write one file for each table, `<table>.parquet`, and `queries.json`: the text of each query by its number."""
    package = Path(import_module(f"duckdb_extension_{name}").__path__[0])
    connection = duckdb.connect()
    [extension] = (package / "extensions" / f"v{duckdb.__version__}").glob("*.duckdb_extension")
    connection.execute(f"LOAD '{extension}'")
    connection.execute(GENERATORS[name].format(scale))
    for (table,) in connection.sql("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall():
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (ROW_GROUP_SIZE 1000000)")
    queries = connection.sql(f"SELECT query_nr, query FROM {name}_queries() ORDER BY 1").fetchall()
    (folder / "queries.json").write_text(json.dumps(dict(queries), indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=GENERATORS)
    parser.add_argument("scale", type=float)
    parser.add_argument("folder", type=Path, help="an empty folder")
    arguments = parser.parse_args()
    main(arguments.name, arguments.scale, arguments.folder)
