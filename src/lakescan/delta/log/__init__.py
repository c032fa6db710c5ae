"""The transaction log: list it, read its actions, reconcile them into live files."""
