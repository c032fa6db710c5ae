"""Statistics files of Iceberg tables: numbers of distinct values as sketches, and counts of partitions."""
