"""Interfaces between table formats, planning and engines."""
