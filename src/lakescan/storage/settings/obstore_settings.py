"""Settings of obstore's clients, for the same store and identity as Arrow's client."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.storage.errors import redact
from lakescan.storage.locations import store_of
from lakescan.storage.settings.azure_endpoints import SECRETS, account_of
from lakescan.storage.settings.known_settings import SETTINGS
from lakescan.storage.settings.options import StorageOptions

# Settings of the client or its credential provider, which are not in object_store's configuration.
ROLE = ("role_arn", "session_name", "external_id")
PROFILE, ALLOW_HTTP = "aws_profile", "allow_http"
# deltalake's settings, and settings that are passed to the client in another form.
_OTHERS = (
    *("aws_s3_allow_unsafe_rename", "aws_s3_locking_provider", "delta_dynamo_table_name"),
    *("aws_allow_http", "aws_use_ssl", "aws_request_payer", "allow_invalid_certificates", "allow_http"),
)
_TOLD = {each.key: each.delta for each in SETTINGS if each.delta and each.delta not in _OTHERS}
_TOLD |= {("s3", name): name for name in (*ROLE, "tls_ca_file_path")}
_ADDRESSES = ("aws_endpoint_url", "google_base_url", "azure_storage_endpoint")
_IN_HEADERS = ("aws_access_key_id", "aws_session_token", "aws_region", "google_bearer_token", "azure_storage_token")
_URL = re.compile(r"https?://([^\s/?#@]*@)?([A-Za-z0-9._%-]+|\[[0-9A-Fa-f:.%]+\])(:\d+)?(/[!-~]*)?", re.I)
_GOOGLE_FIRST = (  # variables that obstore prefers to those that Arrow's client reads
    *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY"),
    "GOOGLE_BEARER_TOKEN",
)
_AZURE_FIRST = (*SECRETS, "AZURE_STORAGE_TOKEN")  # variables that obstore prefers to an application's secret


def client_settings(
    options: StorageOptions, scheme: str, authority: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the settings of obstore's client of a bucket or container, by object_store's names.

    Raises `InvalidOption` for a setting that Arrow's client does not support, that contradicts another, or that cannot
    be sent in a request, and `UnsupportedFeature` if the environment has credentials that obstore prefers, but Arrow's
    client does not use.
    """
    store = store_of(scheme)
    options.check_obeyed(store)
    found = {
        name: text
        for key, value in options.values.items()
        if key[0] == store and (name := _TOLD.get(key, "")) and (text := _as_text(name, value))
    }
    if options.is_of_catalog:
        found.pop(PROFILE, None)  # Arrow's client of a catalog does not read it, either
    match store:
        case "s3":
            found |= _s3(options, authority, environment)
        case "gcs":
            found |= _gcs(options, environment)
        case "abfs":
            found |= _abfs(options, account_of(authority, options.azure_account, environment), environment)
    _check_sendable(found, f"{scheme}://{authority}")
    return found


def _check_sendable(settings: Mapping[str, str], root: str) -> None:
    """Raise `InvalidOption` for settings of `root` that cannot be sent in a request; obstore panics on them."""
    for name in _IN_HEADERS:
        if (value := settings.get(name)) is not None and not (value.isascii() and value.isprintable()):
            raise InvalidOption(
                f"the setting {name!r} of {root} has characters that request headers cannot have, such as a line "
                "break. Check whether other text was pasted into it."
            )
    for name in _ADDRESSES:
        if (value := settings.get(name)) is not None and not _is_url(value):
            raise InvalidOption(
                f"the endpoint {redact(value)} of {root} is not a server's address. Write it as https://host:port."
            )


def _is_url(address: str) -> bool:
    """Return whether an address is an http or https URL with a host and, optionally, a valid port."""
    try:
        parts = urlsplit(address)
        return parts.port != 0 and _URL.fullmatch(address) is not None
    except ValueError:  # brackets without an IPv6 address, or an invalid port
        return False


def _s3(options: StorageOptions, bucket: str, environment: Mapping[str, str]) -> dict[str, str]:
    arguments = {} if options.is_of_catalog else options.s3(environment)
    found = {}
    if (region := arguments.get("region") or options.region(environment)) is not None:
        found["aws_region"] = str(region)
    if arguments.get("anonymous"):
        found["aws_skip_signature"] = "true"
    if (endpoint := options.endpoint("s3", environment)) is None:
        return found
    scheme, separator, host = endpoint.partition("://")
    if not separator:
        host = endpoint
    is_plain = scheme == "http" if separator else _is_plain(options, arguments)
    if arguments.get("force_virtual_addressing") and not _is_address(host):
        host = f"{bucket}.{host}"  # object_store then omits the bucket from the path
    elif "force_virtual_addressing" in arguments:
        found["aws_virtual_hosted_style_request"] = "false"
    found["aws_endpoint_url"] = f"{'http' if is_plain else 'https'}://{host}"
    if is_plain:
        found[ALLOW_HTTP] = "true"
    return found


def _is_plain(options: StorageOptions, arguments: Mapping[str, object]) -> bool:
    """Return whether an endpoint without a scheme is one without TLS, by Arrow's arguments or the settings."""
    return arguments.get("scheme", options.values.get(("s3", "scheme"))) == "http"


def _is_address(host: str) -> bool:
    """Return whether a host is an IP address. Arrow's client then puts the bucket into the path."""
    name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
    return name.startswith("[") or name.replace(".", "").isdigit()


def _gcs(options: StorageOptions, environment: Mapping[str, str]) -> dict[str, str]:
    arguments = options.gcs(environment)
    found = {}
    if arguments.get("anonymous"):
        found["google_skip_signature"] = "true"
    elif token := arguments.get("access_token"):
        found |= {"google_bearer_token": str(token), "google_skip_signature": "false"}
    elif other := next((each for each in _GOOGLE_FIRST if environment.get(each)), None):
        raise UnsupportedFeature(
            f"committing to Google's storage with other credentials in {other}",
            "The client of conditional puts would use these, but reads use GOOGLE_APPLICATION_CREDENTIALS: set that to "
            f"the file, and unset {other}.",
        )
    if (address := options.google_address(environment)) is not None:
        found["google_base_url"] = address
        if arguments.get("anonymous"):  # otherwise, obstore requests a token for puts from Google's metadata service
            found |= {"google_bearer_token": "anonymous", "google_skip_signature": "false"}
        if address.startswith("http://"):
            found[ALLOW_HTTP] = "true"
    return found


def _abfs(options: StorageOptions, account: str, environment: Mapping[str, str]) -> dict[str, str]:
    arguments = options.abfs(account, environment)
    names = {"account_key": "azure_storage_account_key", "sas_token": "azure_storage_sas_token"}
    found = {names[name]: str(value) for name, value in arguments.items() if name in names}
    other = next((each for each in _AZURE_FIRST if environment.get(each)), None)
    if other is not None and not found and not options.is_anonymous_in_azure:
        raise UnsupportedFeature(
            f"committing to the Azure account {account} with other credentials in {other}",
            "The client of conditional puts would use these, and not those that reads use: unset it.",
        )
    found["azure_storage_account_name"] = account
    if (address := options.azure_endpoint(account, environment)) is not None:
        found["azure_storage_endpoint"] = address
        if address.startswith("http://"):
            found[ALLOW_HTTP] = "true"
    return found


def _as_text(name: str, value: object) -> str:
    if name in ("timeout", "connect_timeout") and isinstance(value, int | float):
        return f"{value:.0f}s" if value == int(value) else f"{value * 1000:.0f}ms"
    if name == "retry_timeout":
        return str(value.total_seconds() if hasattr(value, "total_seconds") else value)
    return str(value).lower() if isinstance(value, bool) else str(value)
