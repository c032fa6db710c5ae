"""Storage: locations, filesystems and their settings, storage errors, and the one rule for removing files."""
