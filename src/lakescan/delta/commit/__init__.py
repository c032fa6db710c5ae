"""Commits to a Delta log: actions, conflicts with other commits, checkpoints, checksums and clean-up."""
