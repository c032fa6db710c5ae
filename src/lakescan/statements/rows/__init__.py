"""Run statements that change rows: DELETE, UPDATE, MERGE and INSERT, from Python or SQL."""
