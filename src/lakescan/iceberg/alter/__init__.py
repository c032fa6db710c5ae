"""ALTER TABLE: apply changes to a draft of the table's metadata, and commit the draft."""
