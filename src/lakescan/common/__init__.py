"""Utilities that every layer uses: types, schemas, timestamps, option values, caches."""
