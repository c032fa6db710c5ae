"""Deletes: positions, vectors, keys; decoded once, applied as masks."""
