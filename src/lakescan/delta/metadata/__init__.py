"""Protocol, schema and table properties of Delta tables."""
