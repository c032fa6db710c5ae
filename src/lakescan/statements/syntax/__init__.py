"""Parse SQL statements into dataclasses, without running them."""
