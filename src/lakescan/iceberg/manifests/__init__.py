"""Manifest lists and manifests as Arrow tables, checked."""
