"""How pyiceberg reads and writes table metadata for lakescan: in all format versions, compressed if the table asks.

pyiceberg models format version 3 but refuses to write it, and its catalogs do not compress metadata. Both go through
public methods, which behave as lakescan's commits need while one of them runs, and as pyiceberg's own otherwise.

Metadata is parsed once for the same bytes, as far as the process's cache has room: pyiceberg takes seconds for a table
of thousands of snapshots, and a commit loads its table several times.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
from collections.abc import Mapping
from contextvars import ContextVar
from io import BytesIO
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakescan.common.cache import CacheKind
from lakescan.errors import LakescanError
from lakescan.iceberg.metadata.commit_times import advance_snapshot_times, order_commit_times
from lakescan.iceberg.metadata.encryption_keys import add_keys, keep_encryption_keys, split_key_updates
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage.errors import storage_error
from lakescan.storage.put_if_absent import NotCreated

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_GZIP, _EXTENSION = "gzip", ".metadata.json"
_WITH_ROW_IDS = 3  # the first version whose metadata has the next row id
_PROVIDER = "write.py-location-provider.impl"
_CODEC: ContextVar[str | None] = ContextVar("codec", default=None)  # None where lakescan does not commit
_NAMED: ContextVar[list[str]] = ContextVar("named")  # the metadata files that got names in a block
# By location and content, with the number of bytes; pyiceberg's models are never changed, but copied.
_PARSED: CacheKind[tuple[Any, int]] = CacheKind("pyiceberg metadata", lambda value: _TIMES * value[1])
_TIMES = 7  # the memory of pyiceberg's models, as a multiple of their JSON: about so much, measured
_LOCK = Lock()
_IS_EXTENDED = False


class MetadataNotWritten(NotCreated):
    """The metadata file of a commit could not be written: the catalog was not asked, so nothing is committed."""


def parse_pyiceberg_metadata(data: bytes, location: str) -> Any:
    """Parse the bytes of a metadata file to pyiceberg's metadata; raises what pyiceberg raises."""
    from pyiceberg.serializers import Compressor, FromByteStream

    def parse() -> tuple[Any, int]:
        codec = Compressor.get_compressor(location)
        return FromByteStream.table_metadata(BytesIO(data), compression=codec), len(data)

    return _PARSED.get((location, hashlib.sha256(data).digest()), parse)[0]


def _cache_parses() -> None:
    """Let pyiceberg's catalogs parse the same bytes once."""
    from pyiceberg.serializers import FromInputFile

    def table_metadata(input_file: Any, encoding: str = "utf-8") -> Any:
        with input_file.open() as stream:
            return parse_pyiceberg_metadata(stream.read(), input_file.location)

    if FromInputFile.table_metadata.__module__ != __name__:
        FromInputFile.table_metadata = staticmethod(table_metadata)


def metadata_text(metadata: Any) -> str:
    """pyiceberg's metadata as JSON text."""
    from pyiceberg.typedef import IcebergBaseModel

    return IcebergBaseModel.model_dump_json(metadata)


def extend_catalog(catalog: Catalog) -> Catalog:
    """Let a catalog commit metadata of any format version, with the codec that a table's properties name; return it.

    Catalogs whose server writes metadata are returned as they are. What other connections to a catalog commit is as
    pyiceberg writes it.
    """
    from pyiceberg.catalog import MetastoreCatalog

    with _LOCK:
        keep_encryption_keys()
        _cache_parses()
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
    for an unknown codec. The block gets a list of the locations of metadata files that were named in it, by which a
    table that it made is known again; catalogs whose server writes metadata name none. This is no generator, because
    contextlib sets the traceback of errors that pass through one, which errors of a Hive metastore refuse.

    Example:
        >>> with metadata_writes({"write.metadata.compression-codec": "gzip"}, "shop.orders"):
        ...     catalog.create_table("shop.orders", schema)
    """

    def __init__(self, properties: Mapping[str, str], where: str) -> None:
        self._properties, self._where = properties, where

    def __enter__(self) -> list[str]:
        """Set the codec."""
        _extend()
        self._token = _CODEC.set(_codec(self._properties, self._where))
        named = _NAMED.get(None)  # of a block around this one
        named = [] if named is None else named
        self._names = _NAMED.set(named)
        return named

    def __exit__(self, *error: object) -> None:
        """Set the codec that was there before."""
        _NAMED.reset(self._names)
        _CODEC.reset(self._token)


def _codec(properties: Mapping[str, str], where: str) -> str:
    return IcebergProperties(properties, where).metadata_codec


def _extend() -> None:
    global _IS_EXTENDED
    with _LOCK:
        if not _IS_EXTENDED:
            _write_version_3()
            _update_all_versions()
            _name_compressed()
            _separate_write_errors()
            _choose_locations()
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


def _update_all_versions() -> None:
    """Let updates upgrade tables to version 3, keep the members of version 1 alone, and order the times of commits."""
    import pyiceberg.catalog
    from pyiceberg.table.update import SetLocationUpdate, UpgradeFormatVersionUpdate

    theirs = pyiceberg.catalog.update_table_metadata

    def update_table_metadata(base_metadata: Any, updates: Any, *args: Any, **kwargs: Any) -> Any:
        if _CODEC.get() is None:
            return theirs(base_metadata, updates, *args, **kwargs)
        to_3 = [e for e in updates if isinstance(e, UpgradeFormatVersionUpdate) and e.format_version == _WITH_ROW_IDS]
        if to_3:
            same = SetLocationUpdate(location=base_metadata.location)  # a change, so that the old file is logged
            updates = (same, *(each for each in updates if each not in to_3))
        plain, keys = split_key_updates(advance_snapshot_times(updates, base_metadata))
        updated = theirs(_version_3(base_metadata) if to_3 else base_metadata, plain, *args, **kwargs)
        return _as_version_1(add_keys(order_commit_times(base_metadata, updated), keys))

    pyiceberg.catalog.update_table_metadata = update_table_metadata


def _version_3(metadata: Any) -> Any:
    from pyiceberg.table.metadata import TableMetadataV3

    if metadata.format_version >= _WITH_ROW_IDS:
        return metadata
    return TableMetadataV3.model_construct(**{**dict(metadata), "format_version": _WITH_ROW_IDS, "next_row_id": 0})


def _as_version_1(metadata: Any) -> Any:
    """In version 1, the current schema and partition spec are named alone, too, for readers that know no others."""
    if metadata.format_version > 1:
        return metadata
    spec = [each.model_dump() for each in metadata.spec().fields]
    return metadata.model_copy(update={"schema_": metadata.schema(), "partition_spec": spec})


def _name_compressed() -> None:
    """pyiceberg compresses the metadata files whose names say so; names are noted."""
    from pyiceberg.table.locations import LocationProvider

    theirs = LocationProvider.new_table_metadata_file_location

    def new_table_metadata_file_location(self: Any, *args: Any, **kwargs: Any) -> str:
        location = str(theirs(self, *args, **kwargs))
        if _CODEC.get() == _GZIP and not location.endswith(f".gz{_EXTENSION}"):
            location = f"{location.removesuffix(_EXTENSION)}.gz{_EXTENSION}"
        if (named := _NAMED.get(None)) is not None:
            named.append(location)
        return location

    LocationProvider.new_table_metadata_file_location = new_table_metadata_file_location


def _choose_locations() -> None:
    """Let no property of a table name a class that chooses locations: whoever writes to the table sets it."""
    from pyiceberg.table.locations import load_location_provider as theirs

    def load_location_provider(table_location: str, table_properties: Any) -> Any:
        if _CODEC.get() is not None:
            table_properties = {name: table_properties[name] for name in table_properties if name != _PROVIDER}
        return theirs(table_location, table_properties)

    users = [
        "pyiceberg.catalog",
        "pyiceberg.table",
        "pyiceberg.table.locations",
        "pyiceberg.catalog.sql",
        "pyiceberg.catalog.dynamodb",
    ]
    for name in (*users, "pyiceberg.catalog.bigquery_metastore"):
        with contextlib.suppress(ImportError):
            setattr(importlib.import_module(name), theirs.__name__, load_location_provider)


def _separate_write_errors() -> None:
    """Tell errors of storage from those of the catalog, which is asked once the metadata file is there."""
    from pyiceberg.serializers import ToOutputFile

    theirs = ToOutputFile.table_metadata

    def table_metadata(metadata: Any, output_file: Any, overwrite: bool = False) -> None:
        try:
            theirs(metadata, output_file, overwrite)
        except (LakescanError, MemoryError):
            raise
        except Exception as error:
            if _CODEC.get() is None:
                raise
            raise MetadataNotWritten(str(storage_error("written", output_file.location, error))) from error

    ToOutputFile.table_metadata = staticmethod(table_metadata)
