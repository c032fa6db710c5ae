"""Histories of tables by seed, of which each step is taken here or by the JVM implementations: both read the same.

`python -m interop.histories --format delta --seeds 75 --from 0` runs many; `make oracle` makes its environment first.
"""
