"""Scan planning for Iceberg: snapshot -> file table, with manifests pruned and deletes matched."""
