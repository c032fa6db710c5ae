"""Turn file actions into the file table: partition values, statistics, deletion vectors, change data feed."""
