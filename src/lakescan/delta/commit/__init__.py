"""Commits to a Delta log: actions, conflict detection, checkpoints, checksums and post-commit hooks."""
