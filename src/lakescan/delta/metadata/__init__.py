"""Protocol, schema and properties of a Delta table."""
