"""Scan planning: pure functions over Arrow tables, without I/O, that prune, split and pack files.

file table -> prune -> residuals -> splits -> task groups -> report
"""
