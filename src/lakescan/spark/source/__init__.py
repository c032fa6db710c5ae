"""The Python data sources of Spark: batch and streaming reads."""
