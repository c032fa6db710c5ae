"""Iceberg views: read and change view metadata as in the view specification."""
