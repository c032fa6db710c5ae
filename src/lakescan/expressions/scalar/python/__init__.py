"""Spark functions in Python, which compute one value at a time; `expressions.scalar.udf` applies them to columns.

Dates are days and timestamps are microseconds since 1970. Strings, numbers, lists and maps (as lists of pairs) are
Python's own.
"""
