"""The objects of the Python API: tables, catalogs, scans, transactions and views."""
