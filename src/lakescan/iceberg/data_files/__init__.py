"""Write data files, snapshots and commits of Iceberg tables."""
