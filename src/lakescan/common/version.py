"""The version of this package."""

from __future__ import annotations

from functools import cache


@cache
def own_version() -> str:
    """Return the version of the installed package; 'unknown' if it is not installed as a package."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("lakescan")
    except PackageNotFoundError:
        return "unknown"
