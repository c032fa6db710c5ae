"""Position deletes, deletion vectors and equality deletes: decoded once per process, applied as masks."""
