"""Numbers in manifests: the status of an entry, and the content of a file (specification, "Manifests")."""

EXISTING, ADDED, DELETED = 0, 1, 2  # `status` of an entry
DATA_FILE, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2  # `content` of a file; vectors are position deletes, too
