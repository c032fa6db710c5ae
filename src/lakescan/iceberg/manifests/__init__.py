"""Manifest lists and manifests: read Avro files into validated Arrow tables, and write them."""
