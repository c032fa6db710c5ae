"""Definitions of new tables (columns, primary key, partition spec, sort order, properties), from Python or SQL."""
