"""Apache Iceberg: metadata -> manifests -> file tables for scans; data files and snapshots for writes."""
