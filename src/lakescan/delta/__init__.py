"""Delta Lake: the transaction log becomes a file table."""
