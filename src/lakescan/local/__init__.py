"""The in-process engine: a few threads read task groups."""
