"""Change Delta tables: what ALTER TABLE makes of the protocol, the metadata and the domains of a table."""
