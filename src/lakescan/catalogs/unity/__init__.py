"""Unity Catalog: its REST API, and the Delta tables whose commits it ratifies."""
