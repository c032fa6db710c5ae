"""Checks whether a store responds before its client is created, since clients retry requests for minutes.

Without a network, Arrow's client of Google's storage fails after 100 s, and that of Azure after 6 s. Without
credentials, both query the metadata service of a cloud machine, which does not exist on other machines.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Mapping
from queue import Empty, SimpleQueue
from urllib.request import getproxies_environment, proxy_bypass

from lakescan.errors import StorageError
from lakescan.storage.errors import HOSTS, KEYS, redact
from lakescan.storage.settings import StorageOptions
from lakescan.storage.settings.azure_endpoints import account_of

SECONDS = 5.0  # the time limit to resolve a host, and to connect
_GOOGLE = "storage.googleapis.com"
_METADATA = {"gcs": "metadata.google.internal", "abfs": "169.254.169.254"}
# Variables that configure a source of Azure credentials other than the metadata service.
_AZURE_SOURCES = (
    *("AZURE_CLIENT_SECRET", "AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_FEDERATED_TOKEN_FILE"),
    *("IDENTITY_ENDPOINT", "MSI_ENDPOINT"),
)
_REACHED: set[tuple[str, int]] = set()


def check_reachable(
    store: str, authority: str, options: StorageOptions, location: str, environment: Mapping[str, str] = os.environ
) -> None:
    """Raise `StorageError` if a store's host, or the metadata service that it needs for credentials, does not respond.

    `store` is gcs or abfs, and `location` is for the message. Each host is checked until it responds once in this
    process. Hosts behind a proxy are not checked.
    """
    address = _address(store, authority, options, environment)
    scheme, _, rest = address.partition("://")
    host, port = _split(rest.partition("/")[0], 80 if scheme == "http" else 443)
    if (why := _why_not(host, port, scheme)) is not None:
        raise StorageError(f"{redact(location)} cannot be reached: {host}:{port} {why}. {HOSTS[store]}")
    if not _needs_metadata(store, authority, options, environment):
        return
    name = environment.get("GCE_METADATA_ROOT" if store == "gcs" else "AZURE_POD_IDENTITY_AUTHORITY_HOST", "")
    host, port = _split(name.rpartition("://")[2] or _METADATA[store], 80)
    if (why := _why_not(host, port, "http")) is not None:
        raise StorageError(
            f"{redact(location)} cannot be reached: no credentials were found, and {host}, the metadata service of "
            f"cloud machines, {why}. {KEYS[store]}"
        )


def _address(store: str, authority: str, options: StorageOptions, environment: Mapping[str, str]) -> str:
    if store == "gcs":
        return options.google_address(environment) or f"https://{_GOOGLE}"
    account = account_of(authority, options.azure_account, environment)
    if (address := options.azure_endpoint(account, environment)) is not None:
        return address
    return f"https://{account}.blob.core.windows.net"


def _needs_metadata(store: str, authority: str, options: StorageOptions, environment: Mapping[str, str]) -> bool:
    """Return whether only a cloud machine's metadata service can provide credentials for the store."""
    if store == "gcs":
        arguments = options.gcs(environment)
        if arguments.get("anonymous") or "access_token" in arguments:
            return False
        folder = environment.get("CLOUDSDK_CONFIG") or os.path.join(environment.get("HOME", ""), ".config", "gcloud")
        path = os.path.join(folder, "application_default_credentials.json")
        given = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
        return not given and not os.path.exists(environment.get("GOOGLE_GCLOUD_ADC_PATH_OVERRIDE") or path)
    arguments = options.abfs(account_of(authority, options.azure_account, environment), environment)
    if options.is_anonymous_in_azure or {"account_key", "sas_token", "client_secret"} & arguments.keys():
        return False
    return not any(map(environment.get, _AZURE_SOURCES)) and shutil.which("az") is None


def _split(authority: str, port: int) -> tuple[str, int]:
    host, separator, number = authority.rpartition(":")
    if separator and number.isdecimal():
        return host.strip("[]"), int(number)
    return authority.strip("[]"), port


def _why_not(host: str, port: int, scheme: str) -> str | None:
    """Return why a host cannot be reached, for messages; None if it accepts connections or is behind a proxy."""
    if (host, port) in _REACHED or _is_behind_proxy(host, scheme):
        return None
    answers: SimpleQueue[str | None] = SimpleQueue()

    def connect() -> None:
        try:
            socket.create_connection((host, port), timeout=SECONDS).close()
        except socket.gaierror:
            answers.put("cannot be resolved")
        except (OSError, UnicodeError) as error:
            answers.put(f"does not respond ({getattr(error, 'strerror', None) or error})")
        else:
            answers.put(None)

    # Name resolution cannot be interrupted, so it runs in a daemon thread.
    threading.Thread(target=connect, daemon=True, name="lakescan-reachable").start()
    try:
        why = answers.get(timeout=SECONDS)
    except Empty:
        return f"does not respond within {SECONDS:.0f} s"
    if why is None:
        _REACHED.add((host, port))
    return why


def _is_behind_proxy(host: str, scheme: str) -> bool:
    proxies = getproxies_environment()
    has_one = bool(proxies.get(scheme) or proxies.get("all"))
    return has_one and not proxy_bypass(host)
