"""ALTER TABLE for Delta tables: change the protocol, the metadata and the metadata domains of a table."""
