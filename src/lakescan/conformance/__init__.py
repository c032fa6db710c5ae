"""What lakescan reads of tables, compared with what other engines read: `lakescan conformance`."""
