"""Read manifest lists and manifests: Avro bytes -> validated Arrow tables."""
