"""Commands that list catalogs, namespaces and tables."""

from __future__ import annotations

from typing import Annotated

import typer

import lakescan
from lakescan.catalogs.registry import catalog_names
from lakescan.cli.output import print_names
from lakescan.cli.settings import Section, command

app: Section = Section("Catalogs")

CatalogName = Annotated[str, typer.Argument(help="Catalog name.")]


@command(app, "catalogs", opens=False)
def catalogs() -> None:
    """List the known catalogs: those of `--catalog`, and those of pyiceberg's configuration."""
    print_names("catalog", catalog_names())


@command(app, "namespaces", opens=False)
def namespaces(
    catalog: CatalogName, parent: Annotated[str | None, typer.Argument(help="List only those under this one.")] = None
) -> None:
    """List the namespaces of a catalog."""
    print_names("namespace", [f"{catalog}.{name}" for name in lakescan.Catalog(catalog).list_namespaces(parent)])


@command(app, "tables", opens=False)
def tables(
    catalog: CatalogName,
    namespace: Annotated[str | None, typer.Argument(help="List only this namespace.")] = None,
) -> None:
    """List the tables of a catalog."""
    opened = lakescan.Catalog(catalog)
    for each in [namespace] if namespace else opened.list_namespaces():
        print_names("table", [f"{catalog}.{name}" for name in opened.list_tables(each)])
