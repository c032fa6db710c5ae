"""Avro files: blocks, codecs, records."""
