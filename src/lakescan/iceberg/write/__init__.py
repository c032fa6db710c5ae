"""Data files, snapshots and commits of Iceberg tables."""
