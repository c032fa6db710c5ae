"""The transaction log: listed, read, reconciled."""
