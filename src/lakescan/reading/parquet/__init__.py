"""Parquet data and delete files: footers, row groups, pruning, and legacy calendars."""
