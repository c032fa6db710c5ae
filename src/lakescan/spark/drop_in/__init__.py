"""PySpark's own methods over lakescan's tables: jobs written for the JARs of Iceberg and Delta run unchanged."""
