"""Options of reads, writes and streams, under the names that Iceberg, Delta and Spark use."""
