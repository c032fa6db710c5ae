"""What users hold: tables, catalogs, scans, transactions and views."""
