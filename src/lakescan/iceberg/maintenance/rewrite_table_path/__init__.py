"""Rewrite the paths in a table's metadata, so that a copy of the table works at another location."""
