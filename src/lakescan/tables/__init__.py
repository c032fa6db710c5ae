"""Write to tables: write rows to data files, then commit an append, an overwrite, a rewrite or changes of rows."""
