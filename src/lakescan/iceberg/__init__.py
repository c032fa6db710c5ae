"""Apache Iceberg tables: read and write metadata, manifests, data files and snapshots."""
