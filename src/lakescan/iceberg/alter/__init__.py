"""ALTER TABLE: pure functions from changes to a draft of the table's metadata, and the commit of one."""
