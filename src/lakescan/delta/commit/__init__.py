"""Commits to a Delta log, and what is kept of it: checkpoints, version checksums, clean-up of old commits."""
