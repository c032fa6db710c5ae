"""Random histories of tables: each step runs in lakescan or in the JVM implementations, and both must read the same.

`python -m interop.histories --format delta --seeds 75 --from 0` runs many histories; `make oracle` first makes the
environment.
"""
