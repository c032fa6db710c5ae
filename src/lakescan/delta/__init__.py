"""Delta Lake: replay the transaction log into a table of live files, and write data files and commits."""
