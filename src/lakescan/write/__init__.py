"""Writing data files: rows made to fit a table, shared out by partition, into Parquet files of a target size.

Any process does it, on a worker of Spark as here. What it returns is small; a table's format commits it.
"""
