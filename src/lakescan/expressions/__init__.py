"""Filters: the predicate tree (`predicate`), its notations (`sql`, `codec`, `column`), binding and evaluation.

Tests of one column against literals are evaluated over Arrow (`evaluate`); other conditions in SQL (`sql_condition`) by
DuckDB (`scalar`) or by Spark, and files are pruned by what they imply (`implied`).
"""
