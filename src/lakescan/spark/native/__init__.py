"""The native lane: read plans with Spark's own Parquet reader, with deletes as expressions and anti joins."""
