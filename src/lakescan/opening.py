"""Opening tables: by path, with the format detected, or by their name in a catalog."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from lakescan.catalogs.identifiers import Identifier, location_of, parts_of
from lakescan.catalogs.lookup import InCatalog, find, identifier_of
from lakescan.common.references import dotted_path
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.path import DeltaPath, resolve_path
from lakescan.delta.table import DeltaTable
from lakescan.encryption import KeyManager, named_key_manager
from lakescan.errors import InvalidOption, NotATable
from lakescan.expressions.predicate import Comparison, IsNull, Predicate, conjunction
from lakescan.iceberg.metadata.locate import is_metadata_file
from lakescan.iceberg.table import IcebergTable
from lakescan.options.read import Options
from lakescan.scan_spec import ScanSpec
from lakescan.storage import Storage, join
from lakescan.table import Table
from lakescan.time_travel import check_one_state

FORMATS = ("iceberg", "delta")
_METADATA_NAME = re.compile(r"(.+)#([a-z_]+)", re.DOTALL)


def table(
    path: str | os.PathLike[str] | Identifier,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    relocate: Mapping[str, str] | None = None,
    key_manager: KeyManager | str | None = None,
    **options: Any,
) -> Table:
    """Open a table by its folder or URI, by an Iceberg metadata file, or by its name in a catalog.

    Args:
        path: A local path, a URI (`s3://`, `gs://`, `abfs://`, `hdfs://`), or `catalog.namespace.table` (see
            `lakescan.catalog`). A Delta path may select a version (`/t@v3`), a time (`/t@20260131120000000`) and a
            partition (`/t/date=2026-01-31`), as on Spark.
        format: 'iceberg' or 'delta'; detected by default.
        storage_options: Settings of the filesystem, by the names of pyiceberg, delta-rs, Hadoop or fsspec.
        relocate: Old location prefixes and what they are now, for a table whose files were moved or copied: the
            absolute paths in its metadata do not change.
        key_manager: The keys of encrypted files: an object, or its name as `package.module:attribute`.
        options: Read options for every scan of the table (`versionAsOf`, `snapshot-id`, `split-size`, ...).

    Returns:
        The open table.

    Raises:
        NotATable: There is no table at the path.
        NoSuchTable, NoSuchCatalog: The name is unknown.
        CorruptMetadata: The table's metadata is damaged.
        UnsupportedFeature: The table uses a feature that is not implemented.
        InvalidOption: An unknown option, with the nearest valid one.

    Example:
        >>> orders = lakescan.table("s3://lake/orders", storage_options={"region": "eu-west-1"})
    """
    location = location_of(path)
    identifier = identifier_of(location)
    found = None if identifier is None else find(identifier)
    if isinstance(key_manager, str):
        options["key-manager"], key_manager = key_manager, None
    checked = Options(options)
    named = checked.get("key-manager")
    manager = named_key_manager(named) if named else key_manager
    io_properties = {} if found is None else found.io_properties
    storage = Storage(storage_options or {}, relocate or {}, manager, checked.get("cache-folder"), io_properties)
    if format is not None and format.lower() not in FORMATS:
        raise InvalidOption(f"format {format!r} is unknown: use 'iceberg' or 'delta'")
    if identifier is not None and found is not None:
        if format is not None and format.lower() != found.format:
            raise InvalidOption(f"{identifier} is of format {found.format}, not {format.lower()}")
        checked.check_format(found.format)
        if found.format == "iceberg":
            opened = IcebergTable.of(InCatalog(identifier), storage, found.location)
            return Table(ScanSpec(opened, storage, location, checked), identifier)
        delta = DeltaTable.open(found.location, storage)
        return Table(ScanSpec(delta, storage, found.location, checked), identifier)
    return _by_path(location, format, storage, checked)


def _by_path(location: str, format: str | None, storage: Storage, options: Options) -> Table:
    may_be_delta = (format or "delta").lower() == "delta" and not is_metadata_file(location)
    zone = options.get("time-zone", UTC)
    found = resolve_path(location, storage, zone) if may_be_delta else DeltaPath(location, is_table=False)
    name = (format or _detect(found, storage)).lower()
    options.check_format(name)
    if name == "iceberg":
        return Table(ScanSpec(IcebergTable.open(location, storage), storage, location, options))
    if found.selector is not None:
        check_one_state(location, options)
    delta = DeltaTable.open(found.location, storage)
    predicate = _partition_filter(found, delta)
    return Table(ScanSpec(delta, storage, found.location, options, predicate, selector=found.selector))


def _partition_filter(path: DeltaPath, opened: DeltaTable) -> Predicate:
    """The rows of the partitions that a path names; raises `InvalidOption` for other columns."""
    if wrong := [name for name, _ in path.partitions if name not in opened.partition_columns]:
        known = ", ".join(opened.partition_columns) or "none"
        raise InvalidOption(
            f"the path names {wrong[0]!r}, which is not a partition column of {path.location}: these are: {known}"
        )
    return conjunction(
        [
            IsNull(name) if value is None else Comparison(name, op="=", value=value)
            for name, value in ((dotted_path([name]), value) for name, value in path.partitions)
        ]
    )


def split_metadata_name(path: str) -> tuple[str, str | None]:
    """A path such as `/lake/events#snapshots` as the table's path and the metadata table's name, if there is one."""
    found = _METADATA_NAME.fullmatch(path)
    return (path, None) if found is None else (found[1], found[2])


def _detect(path: DeltaPath, storage: Storage) -> str:
    location = path.location
    if is_metadata_file(location):
        return "iceberg"
    is_iceberg = storage.exists(join(location, "metadata"))
    if path.is_table and is_iceberg:
        raise InvalidOption(f"{location} has both a Delta log and Iceberg metadata: say which with format=")
    if path.is_table or is_iceberg:
        return "delta" if path.is_table else "iceberg"
    if not storage.exists(location):
        storage.check_bucket(location)
        base, name = split_metadata_name(location)
        hint = f": for a metadata table, open {base} and inspect({name!r})" if name else _catalog_hint(location)
        raise NotATable(f"{location} does not exist{hint}")
    raise NotATable(f"{location} is not a table: it has neither {LOG_FOLDER}/ (Delta) nor metadata/ (Iceberg)")


def _catalog_hint(location: str) -> str:
    """What to say where a path looks like the name of a table in a catalog that is not known."""
    parts = parts_of(location) or ()
    return f"; as a table's name, no catalog {parts[0]!r} is known: see lakescan.catalog" if len(parts) > 2 else ""
