"""Spark Connect: narrow and replace the reads of lakescan's formats in the plans that the client sends."""
