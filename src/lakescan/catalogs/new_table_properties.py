"""Properties that a catalog gives to new Iceberg tables: its properties `table-default.` and `table-override.`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakescan.definition.table_definition import TableDefinition
from lakescan.tables.base import Format

_DEFAULT, _OVERRIDE = "table-default.", "table-override."


def complete_definition(definition: TableDefinition, catalog: Mapping[str, str], format: Format) -> TableDefinition:
    """Return the definition of a new table with the properties that its catalog sets, as Iceberg's catalogs do.

    Args:
        definition: The definition in the statement or call.
        catalog: The catalog's properties.
        format: The table's format.
    """
    if not format.takes_catalog_defaults or not any(name.startswith((_DEFAULT, _OVERRIDE)) for name in catalog):
        return definition
    defaults, overrides = (
        {name.removeprefix(prefix): str(value) for name, value in catalog.items() if name.startswith(prefix)}
        for prefix in (_DEFAULT, _OVERRIDE)
    )
    return replace(definition, properties={**defaults, **definition.properties, **overrides})
