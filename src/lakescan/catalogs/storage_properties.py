"""The properties of catalogs and tables that configure access to storage; their values include secrets."""

from __future__ import annotations

from collections.abc import Mapping

_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.")


def of_storage(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that configure storage access."""
    return {name: value for name, value in properties.items() if name.startswith(_PREFIXES)}
