"""Filters: what they say (`predicate`), how they are written (`sql`, `json`), bound to a schema, and evaluated."""
