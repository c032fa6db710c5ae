"""The properties of catalogs: the kind of each, whether it is a secret, and who may set it.

Properties come from three sources, which are checked here. Those of storage are merged in
`lakescan.storage.settings.catalog_properties`.

- The user sets any property: in Python, in pyiceberg's configuration file, or in the environment.
- The catalog's server returns properties of the catalog, of a table, and with credentials. It may set those marked
  `of_server`, and storage settings by their roles.
- A table's metadata may set none, as in Iceberg's own readers, since every writer to the table can change them.

Each property that is ignored for this reason is named once in a warning, without its value. Names that no library reads
are dropped.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from lakescan.common.option_values import ValueParser, any_text, mapping, one_of, positive, whole
from lakescan.common.secrets import register_address_secrets, register_secrets, secret
from lakescan.errors import InvalidOption, nearest
from lakescan.storage.settings import SETTINGS, Role
from lakescan.storage.settings.azure_endpoints import assign_account
from lakescan.storage.settings.catalog_properties import PREFIXES, is_storage_property, warn_ignored
from lakescan.storage.settings.option_names import TUNING, find_settings, is_hadoop_setting


@dataclass(frozen=True)
class CatalogProperty:
    """A catalog property that is not a storage setting. A name that ends with a dot is a prefix of names.

    `kind` parses the value. `of_server`: whether the catalog's server may set it, too.
    """

    name: str
    kind: ValueParser[Any] = any_text
    of_server: bool = False
    is_secret: bool = False


def _prefixes(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple) or any(not isinstance(each, str) or "," in each for each in value):
        raise TypeError(value)
    return ",".join(value)


_PREFIXES = ValueParser(_prefixes, "prefixes of locations, as a list or separated by commas", "Sequence[str]")


def _rows(*names: str, **same: Any) -> tuple[CatalogProperty, ...]:
    return tuple(CatalogProperty(name, **same) for name in names)


# Names by pyiceberg 0.11 and 0.12, and lakescan's own. Storage settings are in `storage/settings/known_settings.py`.
PROPERTIES = (
    # Code to import, and hosts to trust.
    *_rows("type", "catalog-impl", "py-catalog-impl", "io-impl", "py-io-impl", "s3.retry-strategy-impl"),
    *_rows("write.py-location-provider.impl", "metrics-reporter-impl", "key-manager"),
    *_rows("allowed-locations", kind=_PREFIXES),
    *_rows("botocore_session", "auth.manager", "gcs.session-kwargs"),
    *_rows("ssl", kind=mapping),
    *_rows("auth", kind=mapping, is_secret=True),
    # Addresses and authentication.
    *_rows("uri", "oauth2-server-uri", "scope", "audience", "resource", "grant_type"),
    *_rows("credential", "token", "client_id", "client_secret", "header.", is_secret=True),
    *_rows("rest.sigv4-enabled", "rest.signing-region", "rest.signing-name"),
    *_rows("rest.sigv4.max-retries", kind=whole),
    # The server's features, and options of requests.
    *_rows("warehouse", "prefix", "namespace-separator", "view-endpoints-supported", of_server=True),
    *_rows("rest-page-size", "rest-scan-planning.poll-timeout-ms", kind=positive, of_server=True),
    *_rows("snapshot-loading-mode", kind=one_of("all", "refs"), of_server=True),
    *_rows("scan-planning-mode", kind=one_of("client", "server"), of_server=True),
    *_rows("rest-metrics-reporting-enabled"),
    # Properties of new tables: defaults, and values that take precedence over those of the statement.
    *_rows("table-default.", "table-override.", of_server=True),
    # The signer of S3 requests. An address of another server is refused in `rest_credentials`, where it is used.
    *_rows("s3.remote-signing-enabled", "s3.signer", "s3.signer.uri", "s3.signer.endpoint", of_server=True),
    *_rows("signer.uri", "signer.endpoint", of_server=True),
    # The expiry of credentials. Azure's property ends with the account's name.
    *_rows("s3.session-token-expires-at-ms", "adls.sas-token-expires-at-ms", of_server=True),
    *_rows("adls.sas-token-expires-at-ms.", of_server=True),
    *_rows("adls.sas-token.", of_server=True, is_secret=True),
    # Whether to look up the region of a bucket although one is set.
    *_rows("s3.resolve-region"),
    # pyiceberg's storage settings that have no effect in lakescan.
    *_rows("s3.server-side-encryption", "s3.sse-kms-key-id"),
    *_rows("gcs.access", "gcs.consistency", "gcs.cache-timeout", "gcs.requester-pays", "gcs.version-aware"),
    *_rows("adls.connection-string", "adls.credential", "hf.token", is_secret=True),
    *_rows("hf.endpoint", "buffer-size", "DEFAULT_SCHEME", "DEFAULT_NETLOC"),
    # Databases.
    *_rows("echo", "pool_pre_ping", "init_catalog_tables"),
    # Hive.
    *_rows("hive.hive2-compatible", "hive.kerberos-authentication", "hive.kerberos-service-name", "ugi"),
    *_rows("lock-check-min-wait-time", "lock-check-max-wait-time", "lock-check-retries"),
    # Glue and DynamoDB.
    *_rows("glue.id", "glue.skip-archive", "glue.endpoint", "glue.profile-name", "glue.region", "glue.retry-mode"),
    *_rows("glue.max-retries", kind=whole),
    *_rows("glue.access-key-id", "glue.secret-access-key", "glue.session-token", is_secret=True),
    *_rows("table-name", "dynamodb.profile-name", "dynamodb.region"),
    *_rows("dynamodb.access-key-id", "dynamodb.secret-access-key", "dynamodb.session-token", is_secret=True),
    # BigQuery.
    *_rows("gcp.bigquery.project-id", "gcp.bigquery.location", "gcp.bigquery.credential-file"),
    *_rows("gcp.bigquery.credentials-info", is_secret=True),
)  # fmt: skip
_BY_NAME = {each.name: each for each in PROPERTIES}
_FAMILIES = tuple(each for each in PROPERTIES if each.name.endswith("."))
_LIMITS = ("allowed-locations", "key-manager")
_OF_CODE = ("py-io-impl", "io-impl", "write.py-location-provider.impl")
_REGION = re.compile(r"[A-Za-z0-9-]+")  # a region is a part of AWS's host names


def property_named(name: str) -> CatalogProperty | None:
    """Return the property with this name, or with a prefix of it; None for storage settings and unknown names."""
    if (found := _BY_NAME.get(name)) is not None:
        return found
    return next((each for each in _FAMILIES if name.startswith(each.name)), None)


def hide_secret(name: str, value: Any) -> Any:
    """Return a property's value, registered as a secret that messages must not show, if it is one.

    Passwords in an address, and secrets nested in a mapping, are registered, too.
    """
    known = property_named(name)
    nested = _parse_mapping(value) if known is not None and known.kind is mapping else value
    if isinstance(nested, Mapping):
        register_secrets(_texts_in(nested))
        return value
    register_address_secrets(value)
    is_secret = known is not None and known.is_secret
    if is_secret or any(each.is_secret for each in find_settings(name)):
        return secret(value)
    return value


def _parse_mapping(value: Any) -> Any:
    """Parse a value that is JSON, such as an environment variable, to a mapping; return other values unchanged."""
    try:
        return mapping(value)
    except (TypeError, ValueError):
        return value


def check_limits(catalog: str, properties: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` for a misspelling of `allowed-locations` or `key-manager`, which would have no effect."""
    for name in properties:
        letters = re.sub(r"[-_. ]", "", name.lower())
        if name not in _LIMITS and get_close_matches(letters, [each.replace("-", "") for each in _LIMITS], 1, 0.85):
            raise InvalidOption(f"unknown property {name!r} of catalog {catalog!r}.{nearest(name, _LIMITS)}")


def warn_of_unread(catalog: str, properties: Mapping[str, Any]) -> None:
    """Warn once about each of a catalog's properties, set by the user, that no library reads."""
    for name in properties:
        is_read = property_named(name) is not None or is_hadoop_setting(name) or find_settings(name)
        if not is_read and not TUNING.fullmatch(name.lower()):
            names = (*_BY_NAME, *(each for setting in SETTINGS for each in setting.names))
            known = [each for each in names if each.rpartition(".")[0] == name.rpartition(".")[0]]
            warn_ignored([name], f"the configuration of catalog {catalog!r}", f"unknown.{nearest(name, known)}")


def check_headers(catalog: str, properties: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` for a `token` or `header.` property with characters that no HTTP header can have."""
    for name, value in properties.items():
        if name != "token" and not name.startswith("header."):
            continue
        text = str(value)
        if any(letter in text for letter in "\r\n\0") or not _is_latin(text):
            raise InvalidOption(
                f"{name!r} of catalog {catalog!r} cannot be sent in a header: it has line breaks or characters "
                "outside Latin-1. Check whether other text was pasted into it"
            )


def _is_latin(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


_SECRET_WORDS = ("secret", "password", "token", "credential", "key")


def _texts_in(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the secrets in nested properties such as `auth`: values of members such as `password` or `token`."""
    if {"username", "password"} <= values.keys():  # encoded as in the header
        yield b64encode(f"{values['username']}:{values['password']}".encode()).decode()
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _texts_in(value)
        elif "://" not in str(value) and any(word in name.lower() for word in _SECRET_WORDS):
            yield str(value)


def filter_server_properties(said: Mapping[str, Any], server: str, location: str | None = None) -> dict[str, str]:
    """Return the properties of a server's response that the server may set; warn about the others.

    Unknown names are dropped. Hosts are included: `merge_server_properties` decides whether to use them.

    Args:
        said: The properties in the response.
        server: The server's name for warnings.
        location: The location of the table, or the prefix of locations, that the properties are for.
    """
    kept, refused = dict[str, str](), list[str]()
    for name, value in said.items():
        if _may_be_of_server(name, value):
            kept[name] = str(value)
        elif property_named(name) is not None or is_hadoop_setting(name) or find_settings(name):
            refused.append(name)
    warn_ignored(refused, server, "only you may set it, as a property of the catalog")
    return assign_account(kept, location)


def warn_of_metadata(properties: Mapping[str, str], table: str) -> None:
    """Warn once for each table and name about properties in a table's metadata that would configure its reader.

    `table` names the table in the warning. The properties are ignored.
    """
    named = [each for each in properties if is_storage_property(each) or each in _OF_CODE]
    warn_ignored(named, f"the metadata of {table}", "a table configures no reader")


def ignore_table_properties(catalog: Any) -> Any:
    """Make a catalog that writes metadata itself (SQL, Hive, Glue) ignore table properties when it opens files.

    By default, pyiceberg adds the table's properties to the catalog's: classes to import, hosts, proxies, credentials.
    Returns the catalog; others are unchanged.
    """
    from pyiceberg.catalog import MetastoreCatalog

    if isinstance(catalog, MetastoreCatalog):

        def load_file_io(properties: Mapping[str, str] = {}, location: str | None = None) -> Any:
            table = f"a table of catalog {catalog.name!r}" if location is None else location.rpartition("/metadata/")[0]
            warn_of_metadata(properties, table)
            return type(catalog)._load_file_io(catalog, {}, location)

        catalog._load_file_io = load_file_io
    return catalog


def _may_be_of_server(name: str, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    if (known := property_named(name)) is not None:
        return known.of_server
    if not name.startswith(PREFIXES):
        return False
    roles = {setting.role for setting in find_settings(name)} - {Role.OF_USER}
    is_region = any(setting.key == ("s3", "region") for setting in find_settings(name))
    return bool(roles) and (not is_region or _REGION.fullmatch(value) is not None)
