"""Writing data files: rows are conformed to the table schema, split by partition, written as Parquet of a target size.

Any process can write, Spark workers included. The result is small file metadata, which the table's format commits.
"""
