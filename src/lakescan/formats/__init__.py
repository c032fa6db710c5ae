"""What a table format offers to planning and to the engines."""
