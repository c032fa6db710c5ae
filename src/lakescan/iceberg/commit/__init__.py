"""Commit file changes to Iceberg tables: write manifests and snapshots, detect conflicts, and retry."""
