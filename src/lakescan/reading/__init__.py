"""Reading: one task becomes Arrow record batches. Files are projected onto the table's schema, deletes applied."""
