"""From actions to the file table: partition values, statistics, deletion vectors."""
