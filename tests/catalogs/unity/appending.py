"""A process that appends rows to a table of a Unity Catalog, one commit per row: `appending.py URI FIRST COUNT`."""

from __future__ import annotations

import sys

import lakescan
from tests.support.unity_server import TOKEN
from tests.support.unity_tables import NAME, rows


def main(uri: str, first: int, count: int) -> None:
    lakescan.catalog("main", type="unity", uri=uri, token=TOKEN)
    table = lakescan.table(NAME)
    for number in range(first, first + count):
        table.append(rows(number))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
