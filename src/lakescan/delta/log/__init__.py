"""The transaction log: list it, read its actions, and reconcile them into live files."""
