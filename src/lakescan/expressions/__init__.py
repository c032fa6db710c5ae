"""Filters: the predicate tree (`predicate`), its notations (`sql`, `json_codec`, `column`), binding and evaluation.

Tests of one column against literals are evaluated on Arrow arrays (`evaluate`). Other SQL conditions (`sql_condition`)
are evaluated by DuckDB (`scalar`) or by Spark, and files are pruned by the predicates that they imply (`inference`).
"""
