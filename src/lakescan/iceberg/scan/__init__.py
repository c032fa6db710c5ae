"""From a snapshot to its file table: manifests pruned, deletes matched."""
