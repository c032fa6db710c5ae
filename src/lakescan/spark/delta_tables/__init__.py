"""Delta's Python interface, `delta.tables`, over lakescan's tables: `DeltaTable` and its builders."""
