"""Write the data files and commits of Delta tables."""
