"""Statistics files of Iceberg tables: theta sketches of distinct values, and partition statistics."""
