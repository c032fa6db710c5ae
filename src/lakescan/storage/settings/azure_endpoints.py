"""The name of an Azure account, its credentials, and the addresses of its two services, as each client needs them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakescan.errors import InvalidOption
from lakescan.storage.locations import split_location, store_of

_VARIABLES = {  # object_store's names
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
    "sas_token": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
}
ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_OF_ACCOUNT = "adls.sas-token."
_CREDENTIALS = ("adls.sas-token", "adls.account-key", "adls.client-secret")
SECRETS: tuple[str, ...] = tuple(name for names in _VARIABLES.values() for name in names)


def account_of(authority: str, account: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Return the account in the authority `container@account.host`. If it is just `container`, return `account`.

    `account` is that of the settings; without it, the environment's is returned. Raises `InvalidOption` if there is
    neither.
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
    """Return the Azure account that a location contains; None without one, for other stores, and for None."""
    if not location:
        return None
    scheme, authority, _ = split_location(location)
    return account_of(authority, None) if store_of(scheme) == "abfs" and "@" in authority else None


def assign_account(properties: Mapping[str, str], location: str | None) -> dict[str, str]:
    """Return a catalog's properties with the account of its Azure credentials, the only one to get them.

    Catalogs issue signatures by account, `adls.sas-token.ACCOUNT`, with its name or its host. The signature for the
    location's account, or the only one, is used, and the others are removed. Credentials without an account are
    assigned to the location's account.
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
    """Return the account key or signature in the environment as pyarrow's argument; empty without one.

    The variables are tried in object_store's order of preference.
    """
    for argument, names in _VARIABLES.items():
        if found := next((environment[name] for name in names if environment.get(name)), None):
            return {argument: found if argument == "account_key" or found.startswith("?") else f"?{found}"}
    return {}


def split_endpoint(endpoint: str, account: str, *, is_plain: bool) -> tuple[str, str, bool]:
    """Split an endpoint into its scheme and its host with port, and return whether the account belongs into its path.

    `is_plain`: an endpoint without a scheme is one without TLS. Raises `InvalidOption` for an endpoint with another
    path, or on another account's host.
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
    """Return the arguments of pyarrow's `AzureFileSystem` for an endpoint; see `split_endpoint`."""
    scheme, host, is_in_path = split_endpoint(endpoint, account, is_plain=is_plain)
    blob = host if is_in_path else host[len(account) :]
    return {
        "blob_storage_authority": blob.replace(".dfs.", ".blob.", 1),
        "blob_storage_scheme": scheme,
        "dfs_storage_authority": blob.replace(".blob.", ".dfs.", 1),
        "dfs_storage_scheme": scheme,
    }
