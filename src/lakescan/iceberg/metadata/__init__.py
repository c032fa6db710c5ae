"""Table metadata: the JSON file with its schemas, partition specs, sort orders and snapshots."""
