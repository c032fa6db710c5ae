"""Write the rows of Spark data frames to tables."""
