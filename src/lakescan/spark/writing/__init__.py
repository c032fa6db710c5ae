"""Rows of Spark's data frames written to tables."""
