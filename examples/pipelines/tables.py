"""Make the tables `orders`, with three rows, and `copied`, without rows, in the folder `LAKESCAN_PIPELINE`."""

from __future__ import annotations

import os

import pyarrow as pa

import lakescan


def main() -> None:
    """Make both tables unless they exist."""
    folder = os.environ["LAKESCAN_PIPELINE"]
    orders = pa.table({"id": [1, 2, 3], "country": ["FR", "DE", "FR"], "quantity": [2, 0, 1]})
    lakescan.save(orders, f"{folder}/orders", format="delta", mode="ignore")
    lakescan.save(orders.slice(0, 0), f"{folder}/copied", format="delta", mode="ignore")


if __name__ == "__main__":
    main()
