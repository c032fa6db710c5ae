"""How pyiceberg writes table metadata for lakescan: in all format versions, and compressed if the table asks for it.

pyiceberg models format version 3 but refuses to write it, and its catalogs do not compress metadata. Both go through
public methods, which behave as lakescan's commits need while one of them runs, and as pyiceberg's own otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakescan.iceberg.metadata.table_properties import IcebergProperties

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_GZIP, _EXTENSION = "gzip", ".metadata.json"
_CODEC: ContextVar[str | None] = ContextVar("codec", default=None)  # None where lakescan does not commit
_LOCK = Lock()
_IS_EXTENDED = False


def metadata_text(metadata: Any) -> str:
    """pyiceberg's metadata as JSON text."""
    from pyiceberg.typedef import IcebergBaseModel

    return IcebergBaseModel.model_dump_json(metadata)


def with_all_metadata(catalog: Catalog) -> Catalog:
    """Let a catalog commit metadata of any format version, with the codec that a table's properties name; return it.

    Catalogs whose server writes metadata are returned as they are. What other connections to a catalog commit is as
    pyiceberg writes it.
    """
    from pyiceberg.catalog import MetastoreCatalog

    if not isinstance(catalog, MetastoreCatalog):
        return catalog

    def commit_table(table: Any, requirements: Any, updates: Any) -> Any:
        with metadata_writes(table.properties, ".".join(table.name())):
            return type(catalog).commit_table(catalog, table, requirements, updates)

    catalog.commit_table = commit_table
    return catalog


def check_metadata_writes(table: Any) -> None:
    """Raise `InvalidOption` if a table's properties name an unknown codec of metadata."""
    _codec(table.properties, ".".join(table.name()))


class metadata_writes:
    """Let pyiceberg's catalogs write metadata of any format version, with the codec that a table's properties name.

    `properties` are those of the table that is created or committed to, `where` is its name. Raises `InvalidOption`
    for an unknown codec. This is no generator, because contextlib sets the traceback of errors that pass through one,
    which errors of a Hive metastore refuse.

    Example:
        >>> with metadata_writes({"write.metadata.compression-codec": "gzip"}, "shop.orders"):
        ...     catalog.create_table("shop.orders", schema)
    """

    def __init__(self, properties: Mapping[str, str], where: str) -> None:
        self._properties, self._where = properties, where

    def __enter__(self) -> None:
        """Set the codec."""
        _extend()
        self._token = _CODEC.set(_codec(self._properties, self._where))

    def __exit__(self, *error: object) -> None:
        """Set the codec that was there before."""
        _CODEC.reset(self._token)


def _codec(properties: Mapping[str, str], where: str) -> str:
    return IcebergProperties(properties, where).metadata_codec


def _extend() -> None:
    global _IS_EXTENDED
    with _LOCK:
        if not _IS_EXTENDED:
            _write_version_3()
            _name_compressed()
            _IS_EXTENDED = True


def _write_version_3() -> None:
    from pyiceberg.table.metadata import TableMetadataV3
    from pyiceberg.typedef import IcebergBaseModel

    theirs = TableMetadataV3.model_dump_json

    def model_dump_json(self: Any, *args: Any, **kwargs: Any) -> str:
        try:
            return str(theirs(self, *args, **kwargs))
        except NotImplementedError:
            if _CODEC.get() is None:
                raise
            return str(IcebergBaseModel.model_dump_json(self, *args, **kwargs))

    TableMetadataV3.model_dump_json = model_dump_json


def _name_compressed() -> None:
    """pyiceberg compresses the metadata files whose names say so."""
    from pyiceberg.table.locations import LocationProvider

    theirs = LocationProvider.new_table_metadata_file_location

    def new_table_metadata_file_location(self: Any, *args: Any, **kwargs: Any) -> str:
        location = str(theirs(self, *args, **kwargs))
        is_plain = _CODEC.get() != _GZIP or location.endswith(f".gz{_EXTENSION}")
        return location if is_plain else f"{location.removesuffix(_EXTENSION)}.gz{_EXTENSION}"

    LocationProvider.new_table_metadata_file_location = new_table_metadata_file_location
