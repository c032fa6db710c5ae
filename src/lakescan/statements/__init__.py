"""SQL statements: syntax, queries, row changes, table statements and procedures."""
