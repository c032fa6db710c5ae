"""The native lane: a plan lowered to Spark's own Parquet reader, with deletes as expressions and joins."""
