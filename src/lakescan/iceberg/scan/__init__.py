"""Plan Iceberg scans: prune manifests, match deletes to data files, and return the file table of a snapshot."""
