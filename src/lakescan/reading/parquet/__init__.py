"""Parquet files: footers, row groups, column bounds, legacy calendars."""
