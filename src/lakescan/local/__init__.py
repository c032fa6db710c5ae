"""The engine in process: task groups read by a few threads."""
