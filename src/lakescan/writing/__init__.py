"""Writing data files: rows are conformed to the table schema, split by partition, and written as Parquet files.

Any process can write, including Spark workers. A write returns small file metadata, which the table's format commits.
"""
