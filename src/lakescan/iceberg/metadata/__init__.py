"""Table metadata: the JSON file, schemas, partition specs, sort orders."""
