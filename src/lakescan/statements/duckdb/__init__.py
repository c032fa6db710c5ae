"""Translate a query of Spark's SQL to DuckDB's SQL, keeping Spark's types and semantics.

`translate` handles whole queries (WITH, set operations, ORDER BY and LIMIT around a query), `select` one SELECT,
`from_clause` its FROM, `aggregates` its grouping, and `expressions` its expressions (by `expressions.scalar`). The
translation gives generated names to all columns, so only `scope` resolves names. Functions and clauses that cannot be
translated raise `UnsupportedFeature` with their name.
"""
