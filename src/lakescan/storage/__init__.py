"""Storage: locations, filesystems with their settings, faults; and the one rule by which files are removed."""
