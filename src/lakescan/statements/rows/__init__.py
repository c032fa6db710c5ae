"""Statements that change rows: DELETE, UPDATE, MERGE and INSERT, in Python, in SQL, in this process and on Spark."""
