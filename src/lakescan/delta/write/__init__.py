"""Data files and commits of Delta tables."""
