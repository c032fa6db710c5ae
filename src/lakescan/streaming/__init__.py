"""Streaming reads: the rows, or changes of rows, that each commit adds to a table."""
