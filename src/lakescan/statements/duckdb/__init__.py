"""A query in DuckDB's SQL, with the types and the meaning that it has in Spark.

`statement` translates a whole query: `queries` (WITH, unions, ORDER BY and LIMIT around a query), `select` (one
SELECT), `sources` (what its FROM has), `grouping` (its aggregation) and `values` (its expressions, by
`expressions.scalar`). All columns have names of their own in the translation, so that only `scope` decides what a name
means. What is not known is refused by its name.
"""
