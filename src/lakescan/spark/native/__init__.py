"""The native lane: plan -> Spark's own Parquet reader, with deletes as expressions and anti joins."""
