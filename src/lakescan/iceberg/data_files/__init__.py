"""Write the data files and delete files of Iceberg tables."""
