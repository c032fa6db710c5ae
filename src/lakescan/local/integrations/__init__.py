"""Scans as data sets of other engines. Each module is one engine, connected by scan tasks alone."""
