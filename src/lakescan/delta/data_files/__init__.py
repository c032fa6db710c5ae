"""Write the data files and deletion vectors of Delta tables."""
