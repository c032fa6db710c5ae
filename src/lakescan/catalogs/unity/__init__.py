"""Unity Catalog: a client of its REST API, and Delta tables with catalog-managed commits."""
