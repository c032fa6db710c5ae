"""SQL queries over tables: a statement is parsed to understand it, its tables become scans, an engine runs it.

`statement` parses, `occurrences` finds the tables in the text, `tables` opens them, `pushdown` says what of the
statement goes into the scan of each, `query` runs the whole in process. `lakescan.spark` runs the same text on Spark.
"""
