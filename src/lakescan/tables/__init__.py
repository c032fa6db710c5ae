"""Write transactions: write rows to a target table, then commit an append, an overwrite or a rewrite."""
