"""Saving rows in tables: a target that is written to, and the commits that append to it or replace what it has."""
