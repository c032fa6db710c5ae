"""The properties of catalogs and tables that configure access to storage; their values include secrets."""

from __future__ import annotations

from collections.abc import Mapping

from lakescan.storage.settings import is_of_hadoop

_PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.")


def of_storage(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that configure storage access."""
    return {name: value for name, value in properties.items() if name.startswith(_PREFIXES) or is_of_hadoop(name)}
