"""New tables of the files of others: staged with a mapping of names to field ids, for files that have no ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakescan.common.schema import FieldMatching
from lakescan.errors import InvalidOption
from lakescan.iceberg.data_files.foreign_files import ForeignFiles, as_data_files, spec_for
from lakescan.iceberg.metadata.name_mapping import PROPERTY, name_mapping_text, paths_of
from lakescan.iceberg.metadata.parse import parse_metadata
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_text
from lakescan.storage import Storage
from lakescan.storage.locations import may_overlap
from lakescan.writing.foreign_files import FolderFiles
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable


def check_apart(folder: str, location: str) -> None:
    """Raise `InvalidOption` if a table would be in the folder of the files of others, or the other way round."""
    if may_overlap(folder, location):
        raise InvalidOption(
            f"the new table would be at {location}, and its files are at {folder}: their files would be mixed. Give it "
            "another location"
        )


def staged_with_files(
    staged: StagedTable, found: FolderFiles | None, storage: Storage
) -> tuple[StagedTable, Sequence[WrittenFile]]:
    """The staged table with a name mapping, unless its properties have one; and the files as a commit adds them.

    Raises what `as_data_files` raises, and `UnsupportedFeature` for folders that are not named after its partitions.
    """
    from pyiceberg.table import StagedTable

    metadata = parse_metadata(metadata_text(staged.metadata).encode(), staged.metadata_location)
    names = {PROPERTY: name_mapping_text(metadata.schema.fields)}
    properties = {**names, **staged.metadata.properties}
    named = staged.metadata.model_copy(update={"properties": properties})
    table = StagedTable(staged.name(), named, staged.metadata_location, staged.io, staged.catalog, dict(staged.config))
    if found is None:
        return table, ()
    foreign = ForeignFiles(found.folder, found.entries, found.folders)
    spec = spec_for(foreign, metadata.specs, metadata.default_spec_id, metadata.schema)
    matching = FieldMatching(by_id=True, name_mapping=dict(paths_of(metadata.schema.fields)))
    files, _ = as_data_files(foreign, spec, metadata.schema, matching, metadata.table_properties, storage, {})
    return table, files
