"""SQL queries over tables: parse a statement, open its tables, narrow their scans, and run it on an engine.

`table_references` finds the tables in the text, `table_resolution` opens them, `pushdown` finds the columns and
conditions for each scan, and `query` runs the statement in process. `lakescan.spark` runs the same text on Spark.
"""
