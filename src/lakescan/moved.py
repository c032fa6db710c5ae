"""Modules by the paths that they had in earlier releases: importing one warns, and gives the names of the new one.

These aliases are kept for one release. Nothing in the package uses them.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MOVED = {
    "lakescan.caching": "lakescan.common.cache",
    "lakescan.catalogs.configured": "lakescan.catalogs.registry",
    "lakescan.catalogs.found": "lakescan.catalogs.lookup",
    "lakescan.creating": "lakescan.catalogs.create",
    "lakescan.delta.commits": "lakescan.delta.write.commit",
    "lakescan.delta.create": "lakescan.delta.write.create",
    "lakescan.iceberg.avro_container": "lakescan.iceberg.manifests.avro_container",
    "lakescan.iceberg.bucket": "lakescan.iceberg.scan.bucket",
    "lakescan.iceberg.commits": "lakescan.iceberg.write.commit",
    "lakescan.iceberg.partition_spec": "lakescan.iceberg.metadata.partition_spec",
    "lakescan.locations": "lakescan.storage.locations",
    "lakescan.moments": "lakescan.common.timestamps",
    "lakescan.removal": "lakescan.storage.removal",
    "lakescan.saving": "lakescan.transaction",
    "lakescan.saving.delta_target": "lakescan.transaction.delta",
    "lakescan.saving.iceberg_target": "lakescan.transaction.iceberg",
    "lakescan.saving.write_options": "lakescan.options.write",
    "lakescan.schema": "lakescan.common.schema",
    "lakescan.selecting": "lakescan.time_travel",
    "lakescan.streams": "lakescan.streaming.stream",
    "lakescan.types": "lakescan.common.types",
}


class _Finder(MetaPathFinder, Loader):
    """Finds modules under their old paths."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname in _MOVED else None

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty module, as the import system makes it."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module with the names of the one at the new path."""
        new = _MOVED[module.__name__]
        warnings.warn(f"{module.__name__} is now {new}", DeprecationWarning, stacklevel=2)
        names = vars(importlib.import_module(new))
        vars(module).update({name: value for name, value in names.items() if not name.startswith("__")})


def install() -> None:
    """Make old paths importable; called once, when the package is imported."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.append(_Finder())
