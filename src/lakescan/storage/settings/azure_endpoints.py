"""Where an account of Azure is, for each client: its name, the addresses of its two services, its credentials."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakescan.errors import InvalidOption
from lakescan.storage.locations import split_location, store_of

_VARIABLES = {  # as object_store knows them
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    "sas_token": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
}
ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_OF_ACCOUNT = "adls.sas-token."
_CREDENTIALS = ("adls.sas-token", "adls.account-key", "adls.client-secret")
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


def account_at(location: str | None) -> str | None:
    """Return the account that a location names; None for one that names none, and in other stores."""
    if not location:
        return None
    scheme, authority, _ = split_location(location)
    return account_of(authority, None) if store_of(scheme) == "abfs" and "@" in authority else None


def assign_account(properties: Mapping[str, str], location: str | None) -> dict[str, str]:
    """Add the account to Azure's credentials of a catalog, so that they are sent to no other.

    Catalogs issue signatures by account, `adls.sas-token.ACCOUNT`, with its name or its host. That of the location's
    account counts, or the only one. The others are left out. Credentials without an account are for the location's.
    """
    of_accounts = {
        name.removeprefix(_OF_ACCOUNT).partition(".")[0].lower(): value
        for name, value in properties.items()
        if name.startswith(_OF_ACCOUNT) and value
    }
    rest = {name: value for name, value in properties.items() if not name.startswith(_OF_ACCOUNT)}
    account = account_at(location)
    if account is None and len(of_accounts) == 1:
        account = next(iter(of_accounts))
    is_whole = not rest.keys().isdisjoint(_CREDENTIALS)
    if account is None or "adls.account-name" in rest or not (is_whole or account in of_accounts):
        return rest
    rest["adls.account-name"] = account
    return rest if is_whole else {**rest, "adls.sas-token": of_accounts[account]}


def environment_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The key or the signature in the environment, the first that object_store would take."""
    for argument, names in _VARIABLES.items():
        if found := next((environment[name] for name in names if environment.get(name)), None):
            return {argument: found if argument == "account_key" or found.startswith("?") else f"?{found}"}
    return {}


def split_endpoint(endpoint: str, account: str, *, is_plain: bool) -> tuple[str, str, bool]:
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
    scheme, host, is_in_path = split_endpoint(endpoint, account, is_plain=is_plain)
    blob = host if is_in_path else host[len(account) :]
    return {
        "blob_storage_authority": blob.replace(".dfs.", ".blob.", 1),
        "blob_storage_scheme": scheme,
        "dfs_storage_authority": blob.replace(".blob.", ".dfs.", 1),
        "dfs_storage_scheme": scheme,
    }
