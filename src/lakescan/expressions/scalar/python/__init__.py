"""Functions of Spark in Python, one value at a time; `expressions.scalar.udf` calls them for columns.

Dates are days and timestamps microseconds since 1970; texts, numbers, lists and maps (as pairs) are Python's own.
"""
