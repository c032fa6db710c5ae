"""Iceberg views: their metadata (the view specification), and how it changes."""
