"""Adapt how pyiceberg reads and writes table metadata: all format versions, compressed if the table asks for it.

pyiceberg models format version 3 but refuses to write it, and its catalogs do not compress metadata. This module
replaces some of pyiceberg's public methods. The replacements act as lakescan's commits need inside `metadata_writes`,
and as pyiceberg's own methods everywhere else.

Metadata with the same bytes is parsed only once while the process's cache has room. pyiceberg takes seconds for a table
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
_WITH_ROW_IDS = 3  # the first format version whose metadata has the next row id
_PROVIDER = "write.py-location-provider.impl"
_CODEC: ContextVar[str | None] = ContextVar("codec", default=None)  # None outside of `metadata_writes`
_NAMED: ContextVar[list[str]] = ContextVar("named")  # the metadata files that were named inside `metadata_writes`
# By location and content, with the number of bytes. pyiceberg's models can be shared: they are copied to be changed.
_PARSED: CacheKind[tuple[Any, int]] = CacheKind("pyiceberg metadata", lambda value: _TIMES * value[1])
_TIMES = 7  # the memory of pyiceberg's models as a multiple of their JSON (measured, approximate)
_LOCK = Lock()
_IS_EXTENDED = False


class MetadataNotWritten(NotCreated):
    """The metadata file of a commit could not be written. The catalog was not asked, so nothing is committed."""


def parse_pyiceberg_metadata(data: bytes, location: str) -> Any:
    """Parse the bytes of a metadata file to pyiceberg's metadata, cached; raises pyiceberg's own errors."""
    from pyiceberg.serializers import Compressor, FromByteStream

    def parse() -> tuple[Any, int]:
        codec = Compressor.get_compressor(location)
        return FromByteStream.table_metadata(BytesIO(data), compression=codec), len(data)

    return _PARSED.get((location, hashlib.sha256(data).digest()), parse)[0]


def _cache_parses() -> None:
    """Patch pyiceberg so that its catalogs parse the same metadata bytes only once."""
    from pyiceberg.serializers import FromInputFile

    def table_metadata(input_file: Any, encoding: str = "utf-8") -> Any:
        with input_file.open() as stream:
            return parse_pyiceberg_metadata(stream.read(), input_file.location)

    if FromInputFile.table_metadata.__module__ != __name__:
        FromInputFile.table_metadata = staticmethod(table_metadata)


def metadata_text(metadata: Any) -> str:
    """Return pyiceberg's metadata as JSON text."""
    from pyiceberg.typedef import IcebergBaseModel

    return IcebergBaseModel.model_dump_json(metadata)


def extend_catalog(catalog: Catalog) -> Catalog:
    """Let pyiceberg's `catalog` commit any format version, compressed as the table's properties ask; return it.

    A catalog whose server writes the metadata is returned without that. Other catalog objects commit as pyiceberg does.
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
    """Raise `InvalidOption` if a table's properties name an unknown metadata compression codec."""
    _codec(table.properties, ".".join(table.name()))


class metadata_writes:
    """Context manager: let pyiceberg's catalogs write any format version, compressed as the table's properties ask.

    `properties` are those of the table that is created or committed to, `where` is its name. Raises `InvalidOption` for
    an unknown codec. The `with` statement returns a list that collects the locations of the metadata files named inside
    the block, so that a table created in it can be recognized. The list stays empty for catalogs whose server writes
    the metadata.

    This is a class because `contextlib.contextmanager` sets the traceback of errors that pass through it, which the
    errors of a Hive metastore do not allow.

    Example:
        >>> with metadata_writes({"write.metadata.compression-codec": "gzip"}, "shop.orders"):
        ...     catalog.create_table("shop.orders", schema)
    """

    def __init__(self, properties: Mapping[str, str], where: str) -> None:
        self._properties, self._where = properties, where

    def __enter__(self) -> list[str]:
        """Set the codec; return the list that collects the locations of new metadata files."""
        _extend()
        self._token = _CODEC.set(_codec(self._properties, self._where))
        named = _NAMED.get(None)  # the list of an enclosing block
        named = [] if named is None else named
        self._names = _NAMED.set(named)
        return named

    def __exit__(self, *error: object) -> None:
        """Restore the codec from before the block."""
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
    """Patch pyiceberg's updates of metadata inside `metadata_writes`.

    They can then upgrade to version 3, add encryption keys, write the members that only version 1 has, and order commit
    times.
    """
    import pyiceberg.catalog
    from pyiceberg.table.update import SetLocationUpdate, UpgradeFormatVersionUpdate

    theirs = pyiceberg.catalog.update_table_metadata

    def update_table_metadata(base_metadata: Any, updates: Any, *args: Any, **kwargs: Any) -> Any:
        if _CODEC.get() is None:
            return theirs(base_metadata, updates, *args, **kwargs)
        to_3 = [e for e in updates if isinstance(e, UpgradeFormatVersionUpdate) and e.format_version == _WITH_ROW_IDS]
        if to_3:
            same = SetLocationUpdate(location=base_metadata.location)  # an update, so that the old file is logged
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
    """Add the version 1 members `schema` and `partition-spec` to version 1 metadata, for readers that need them."""
    if metadata.format_version > 1:
        return metadata
    spec = [each.model_dump() for each in metadata.spec().fields]
    return metadata.model_copy(update={"schema_": metadata.schema(), "partition_spec": spec})


def _name_compressed() -> None:
    """Patch pyiceberg to name compressed metadata files `.gz.metadata.json`, and to record the names."""
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
    """Patch pyiceberg to ignore location provider classes in table properties, which anyone who writes can set."""
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
    """Patch pyiceberg to raise `MetadataNotWritten` for storage errors, unlike errors of the catalog that follow."""
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
