"""Streams that change rows."""
