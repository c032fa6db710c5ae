"""SQL on Spark."""
