"""Maintenance of Delta tables: restored versions, rewritten files, clean-up of the log."""
