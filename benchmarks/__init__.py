"""Benchmarks: lakescan against a peer on the same data in the same run, as ratios of medians.

`make bench` runs all of them; `make bench BENCH_ARGS="spark_read --rows 1000000"` one, smaller.
"""
