"""Streams: what a table gains commit by commit."""
