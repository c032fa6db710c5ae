"""What both formats share when a table is read or changes: scans, commits, results."""
