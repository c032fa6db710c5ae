"""Commits: file changes, on the state of a table -> manifests, a manifest list and a snapshot; validated, retried."""
