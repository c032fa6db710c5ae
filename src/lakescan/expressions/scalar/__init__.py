"""Spark SQL scalar expressions of any shape, evaluated over Arrow in this process: `expression.ScalarExpression`.

sqlglot parses the text (`parse`); each node becomes DuckDB SQL with Spark's type (`translate` and the modules that it
calls); DuckDB computes the values. Only operators and functions for which both agree are translated, rewritten where
they differ; all others raise `UnsupportedFeature` with their name. Semantics are Spark's in ANSI mode, its default, in
the session time zone UTC: an overflow or a division by zero is an error.
"""
