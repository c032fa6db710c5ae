"""Table metadata: the metadata JSON file with its schemas, partition specs, sort orders, snapshots and properties."""
