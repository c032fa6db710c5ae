"""Maintenance of Delta tables: rewritten files, referenced files for VACUUM, and clean-up of the log."""
