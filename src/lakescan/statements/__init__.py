"""SQL statements: their syntax, queries, row changes, tables and procedures."""
