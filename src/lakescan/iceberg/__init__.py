"""Apache Iceberg: metadata, manifests and deletes become a file table."""
