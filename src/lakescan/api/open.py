"""Open tables by path, detecting the format, or by their name in a catalog."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from lakescan.api.table import Table
from lakescan.catalogs.formats import FORMATS, format_named
from lakescan.catalogs.lookup import find_table, identifier_of, location_or_name
from lakescan.catalogs.metrics import TableReporter
from lakescan.common.identifiers import Identifier, location_of, split_name
from lakescan.errors import InvalidOption, NotATable
from lakescan.formats.table_format import TablePath
from lakescan.options.keywords import TableKeywords
from lakescan.options.read import ReadOptions
from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.encryption import KeyManager, named_key_manager
from lakescan.storage.errors import redact
from lakescan.tables.base import Format
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.time_travel import check_one_state

_LOG = logging.getLogger("lakescan.planning")
_METADATA_NAME = re.compile(r"(.+)#([a-z_]+)", re.DOTALL)


def table(
    path: str | os.PathLike[str] | Identifier,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    relocate: Mapping[str, str] | None = None,
    key_manager: KeyManager | str | None = None,
    **options: Unpack[TableKeywords],
) -> Table:
    """Open a table by its folder or URI, by an Iceberg metadata file, or by its name in a catalog.

    Args:
        path: A local path, a URI (`s3://`, `gs://`, `abfs://`, `hdfs://`), or `catalog.namespace.table` (see
            `lakescan.catalog`). A Delta path may select a version (`/t@v3`), a time (`/t@20260131120000000`) and a
            partition (`/t/date=2026-01-31`), as on Spark.
        format: 'iceberg' or 'delta'. By default the format is detected.
        storage_options: Settings of the filesystem, under the names that pyiceberg, delta-rs, Hadoop or fsspec use.
        relocate: Maps old location prefixes to new ones, for a table whose files were moved or copied while its
            metadata still has the old absolute paths.
        key_manager: The key manager for encrypted files: an object, or its name as `package.module:attribute`. By
            default the catalog's property `key-manager`.
        options: Read options for every scan of the table (`version_as_of`, `snapshot_id`, `split_size`, ...). The page
            Options of the documentation lists them.

    Returns:
        The open table.

    Raises:
        NotATable: The path does not lead to a table.
        NoSuchTable, NoSuchCatalog: The table or catalog of that name does not exist.
        CorruptMetadata: The table's metadata is damaged.
        UnsupportedFeature: The table uses a feature that is not implemented.
        InvalidOption: An option is unknown or invalid; the message suggests the nearest valid one.

    Example:
        >>> orders = lakescan.table("s3://lake/orders", storage_options={"region": "eu-west-1"})
    """
    given = {
        "format": format,
        "storage-options": storage_options,
        "relocate": relocate,
        "key-manager": key_manager if isinstance(key_manager, str) else None,
    }
    checked = ReadOptions.parse(options).merge_arguments(
        {name: value for name, value in given.items() if value is not None}
    )
    return open_table(path, checked, None if isinstance(key_manager, str) else key_manager)


def open_table(
    path: str | os.PathLike[str] | Identifier, options: ReadOptions, key_manager: KeyManager | None = None
) -> Table:
    """Open a table with parsed read options; see `table`, also for the errors.

    `key_manager` is the key manager that the user passed as an object, if any.
    """
    text = location_of(path)
    location, identifier = location_or_name(text), identifier_of(text)
    found = None if identifier is None else find_table(identifier)
    if key_manager is None and options.key_manager is None and found is not None and found.key_manager is not None:
        options = options.merge_arguments({"key-manager": found.key_manager})
    manager = named_key_manager(options.key_manager) if options.key_manager else key_manager
    io_properties = {} if found is None else found.io_properties
    storage = Storage(
        options.storage_options or {},
        options.relocate or {},
        manager,
        options.cache_folder,
        io_properties,
        vended=None if found is None else found.vended,
        allowed=AllowedLocations(location) if found is None else found.location_allowlist(options.allowed_locations),
    )
    _LOG.debug("opening %s", identifier or redact(location))
    wanted = None if options.format is None else format_named(options.format)
    options = options.exclude(("path", "format", "storage-options", "relocate"))
    if identifier is None or found is None:
        return Table(_scan_at_path(location, wanted, storage, options, text))
    if wanted is not None and wanted is not format_named(found.format):
        raise InvalidOption(f"{identifier} is of format {found.format}, not {wanted.name}: leave format out")
    options.check_format(found.format)
    spec = format_named(found.format).open_named(identifier, found, storage, options)
    return Table(replace(spec, name=str(identifier), table_reporter=TableReporter.find(identifier)), identifier)


def _scan_at_path(location: str, wanted: Format | None, storage: Storage, options: ReadOptions, text: str) -> ScanSpec:
    """Return a scan of the table at a location that is not a catalog's name; raises the errors of `table`.

    `wanted` is the format, None to detect it. `text` is the location as the user wrote it, for messages.
    """
    if wanted is None:
        chosen, path = _detect(location, storage, options, text)
    else:
        chosen, path = wanted, wanted.at(location, storage, options)
    storage.allowed = storage.allowed.at(path.location, options.allowed_locations)
    options.check_format(chosen.name)
    if path.selector is not None:
        check_one_state(location, options)
    return chosen.open(path, storage, options)


def split_metadata_name(path: str) -> tuple[str, str | None]:
    """Split a path such as `/lake/events#snapshots` into the table's path and the metadata table's name.

    The name is None for a path without one.
    """
    found = _METADATA_NAME.fullmatch(path)
    return (path, None) if found is None else (found[1], found[2])


def _detect(location: str, storage: Storage, options: ReadOptions, text: str) -> tuple[Format, TablePath]:
    """Return the format of the table at a location, and the path as that format parses it.

    Raises `InvalidOption` if several formats have metadata there, `NotATable` if none has. `text` is the location as
    the user wrote it, for messages.
    """
    for each in FORMATS.values():
        if each.is_metadata_file(location):
            return each, each.at(location, storage, options)
    found: list[tuple[Format, TablePath]] = []
    for each in FORMATS.values():
        folder = found[0][1].location if found else location
        if (path := each.find(folder, storage, options)) is not None:
            found.append((each, path))
    if len(found) > 1:
        markers = " and ".join(each.marker for each, _ in found)
        raise InvalidOption(f"{found[0][1].location} has both {markers}: choose the format with format=")
    if found:
        return found[0]
    raise _not_a_table(location.rstrip("/") or location, storage, text.rstrip("/") or text)


def _not_a_table(location: str, storage: Storage, text: str) -> NotATable:
    if not storage.exists(location):
        storage.check_bucket(location)
        base, name = split_metadata_name(text)
        hint = f": for a metadata table, open {base} and inspect({name!r})" if name else _catalog_hint(text)
        return NotATable(f"{text} does not exist{hint}")
    markers = " nor ".join(each.marker for each in FORMATS.values())
    return NotATable(
        f"{text} is not a table: it has neither {markers}. Give the table's own folder, not a file or folder in it"
    )


def _catalog_hint(location: str) -> str:
    """Return the end of a message for a path that looks like a table name without a known catalog; else empty text."""
    parts = split_name(location) or ()
    if len(parts) == 2:
        return "; as a table's name, it needs a catalog: catalog.namespace.table, see lakescan.catalog"
    return f"; as a table's name, no catalog {parts[0]!r} is known: see lakescan.catalog" if len(parts) > 2 else ""
