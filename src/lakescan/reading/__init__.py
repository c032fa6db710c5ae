"""Reading: file scan tasks -> Arrow record batches, projected onto the table schema, with deletes applied."""
