"""Avro data and delete files: reads blocks, decompresses them, and decodes their records to Arrow columns."""
