"""Present scans as data sets of other engines. Each module connects one engine, using only scan tasks."""
