"""Pieces that every layer uses: types, schemas, timestamps, caches, executors, keys."""
