"""Compare the rows that lakescan and other engines read from tables: `lakescan conformance`."""
