"""Delta Lake: read the transaction log into a file table, and write data files and commits."""
