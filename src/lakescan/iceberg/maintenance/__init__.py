"""Maintenance of Iceberg tables: expiry, rewritten manifests and deletes, statistics."""
