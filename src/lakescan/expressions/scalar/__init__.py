"""Spark SQL scalar expressions evaluated on Arrow data in this process: `expression.ScalarExpression`.

sqlglot parses the text (`parse`). Each node is translated to DuckDB SQL with its Spark type (`translate` and the
modules that it uses), and DuckDB computes the values. Operators and functions are translated only if DuckDB can give
Spark's result, if necessary through a rewrite or a Python function. Others raise `UnsupportedFeature` with their name.
Semantics are those of Spark's ANSI mode, its default, with the session time zone UTC: an overflow or a division by zero
is an error.
"""
