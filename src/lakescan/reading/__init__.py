"""Reading: from file scan tasks to Arrow record batches, projected onto the table schema, with deletes applied."""
