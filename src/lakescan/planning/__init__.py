"""Planning: pure functions over Arrow tables, no I/O. Files are pruned, split, packed and reported on.

file table -> prune -> residuals -> splits -> task groups -> report
"""
