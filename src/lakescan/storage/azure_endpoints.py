"""Where an account of Azure is, for each client: its name, the addresses of its two services, its credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakescan.errors import InvalidOption

_VARIABLES = {  # as object_store knows them
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    "sas_token": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
}
ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
SECRETS: tuple[str, ...] = tuple(name for names in _VARIABLES.values() for name in names)


def account_of(authority: str, account: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """The account of an authority `container@account.host`, or that of the settings for `container` alone.

    Raises `InvalidOption` if there is neither.
    """
    if "@" in authority:
        return authority.rpartition("@")[2].partition(".")[0].lower()
    if found := account or environment.get(ACCOUNT):
        return found
    raise InvalidOption(
        f"abfss://{authority}/... does not name the account of Azure: write abfss://{authority}@ACCOUNT"
        ".dfs.core.windows.net/..., or set account_name"
    )


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The key or the signature in the environment, the first that object_store would take."""
    for argument, names in _VARIABLES.items():
        if found := next((environment[name] for name in names if environment.get(name)), None):
            return {argument: found if argument == "account_key" or found.startswith("?") else f"?{found}"}
    return {}


def split(endpoint: str, account: str, *, is_plain: bool) -> tuple[str, str, bool]:
    """The scheme and the host with its port of an endpoint, and whether the account is in its path.

    Raises `InvalidOption` for one that has another path, or another account's host.
    """
    scheme, separator, rest = endpoint.partition("://")
    if not separator:
        scheme, rest = ("http" if is_plain else "https"), endpoint
    host, _, path = rest.rstrip("/").partition("/")
    if path not in ("", account):
        raise InvalidOption(
            f"the endpoint of Azure's storage ends with {path!r}, but the account is {account!r}: set the address of "
            "its server, with the account's name as its path or before its host"
        )
    is_named = host.lower().startswith(f"{account}.")
    if not is_named and any(f".{each}." in host for each in ("blob", "dfs")):
        raise InvalidOption(f"the endpoint {host} is not that of the account {account!r}: correct one of them")
    return scheme.lower(), host, not is_named


def authorities(endpoint: str, account: str, *, is_plain: bool) -> dict[str, str]:
    """Arrow's arguments for an endpoint."""
    scheme, host, is_in_path = split(endpoint, account, is_plain=is_plain)
    blob = host if is_in_path else host[len(account) :]
    return {
        "blob_storage_authority": blob.replace(".dfs.", ".blob.", 1),
        "blob_storage_scheme": scheme,
        "dfs_storage_authority": blob.replace(".blob.", ".dfs.", 1),
        "dfs_storage_scheme": scheme,
    }
