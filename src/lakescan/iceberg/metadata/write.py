"""Table metadata as JSON, of all format versions: pyiceberg has the fields of version 3, and refuses to write them."""

from __future__ import annotations

from functools import cache
from typing import Any


def metadata_text(metadata: Any) -> str:
    """pyiceberg's metadata as JSON."""
    from pyiceberg.typedef import IcebergBaseModel

    return IcebergBaseModel.model_dump_json(metadata)


def write_metadata(metadata: Any, io: Any, metadata_path: str) -> None:
    """Write metadata as pyiceberg's catalogs do."""
    from pyiceberg.serializers import ToOutputFile

    if metadata.format_version > 2:
        metadata = _writable().model_construct(**dict(metadata))
    ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))


@cache
def _writable() -> Any:
    """A model of version 3 that can be written; made once, as making models takes a while."""
    from pyiceberg.table.metadata import TableMetadataV3
    from pyiceberg.typedef import IcebergBaseModel

    class Writable(TableMetadataV3):
        """Metadata of version 3."""

        model_dump_json = IcebergBaseModel.model_dump_json

    return Writable
