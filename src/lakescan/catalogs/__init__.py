"""Catalogs: configuration, table identifiers, lookup of a table's current location, creation of tables.

The catalog clients (REST, SQL, Glue, Hive) are pyiceberg's, and its configuration files and environment variables
apply. In SQL catalogs, lakescan registers Delta tables in a separate database table.
"""
