"""What a new table is to be: columns, primary key, partitions, order, properties; from Python or from SQL."""
