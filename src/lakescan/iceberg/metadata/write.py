"""Write table metadata as JSON, for all format versions: pyiceberg models version 3 but refuses to write it."""

from __future__ import annotations

from functools import cache
from typing import Any

from lakescan.iceberg.metadata.format_versions import VERSIONS


def metadata_text(metadata: Any) -> str:
    """pyiceberg's metadata as JSON text."""
    from pyiceberg.typedef import IcebergBaseModel

    return IcebergBaseModel.model_dump_json(metadata)


def write_metadata(metadata: Any, io: Any, metadata_path: str) -> None:
    """Write a metadata file, as pyiceberg's catalogs do."""
    from pyiceberg.serializers import ToOutputFile

    if VERSIONS[metadata.format_version].row_lineage:
        metadata = _writable().model_construct(**dict(metadata))
    ToOutputFile.table_metadata(metadata, io.new_output(metadata_path))


@cache
def _writable() -> Any:
    """A model of version 3 that can be written; cached, because defining a model is slow."""
    from pyiceberg.table.metadata import TableMetadataV3
    from pyiceberg.typedef import IcebergBaseModel

    class Writable(TableMetadataV3):
        """Metadata of format version 3."""

        model_dump_json = IcebergBaseModel.model_dump_json

    return Writable
