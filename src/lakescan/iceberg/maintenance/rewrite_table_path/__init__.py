"""Metadata of Iceberg tables written again with other paths, for copies of tables elsewhere."""
