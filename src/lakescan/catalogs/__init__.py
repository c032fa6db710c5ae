"""Catalogs: configuration, table identifiers, look-up of a table's current location, creation of tables.

The catalog clients (REST, SQL, Glue, Hive) are pyiceberg's, and its configuration files and environment variables
apply. SQL catalogs also name Delta tables, in a database table of their own.
"""
