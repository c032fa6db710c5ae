"""PySpark's own methods over lakescan's tables: jobs that were written for the JARs of Iceberg and Delta run unchanged."""
