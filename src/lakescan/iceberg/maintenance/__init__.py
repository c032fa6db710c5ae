"""Maintain Iceberg tables: expire snapshots, rewrite position deletes and table paths, compute statistics."""
