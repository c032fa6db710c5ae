"""Parquet files: footers, row groups, bounds."""
