"""PySpark columns, and the names of data frames, as SQL text."""
