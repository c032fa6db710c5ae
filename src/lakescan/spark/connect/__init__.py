"""Spark Connect: reads of our formats are narrowed and replaced in the plans that the client sends."""
