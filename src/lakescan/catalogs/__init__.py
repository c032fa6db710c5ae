"""Catalogs, as far as tables are found by name: their configuration, identifiers, and where tables are now.

pyiceberg has the catalogs themselves (REST, SQL, Glue, Hive), and its configuration files and environment variables
count. Delta tables have names in SQL catalogs, in a table of their own.
"""
