"""Storage settings from two sources: the user, and a catalog's server, which sets or vends them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from threading import Lock
from typing import Any

from pyarrow import fs as pafs

from lakescan.storage.allowed_locations import hands_out_credentials
from lakescan.storage.settings.known_settings import Role, Setting
from lakescan.storage.settings.option_names import find_settings, is_hadoop_setting
from lakescan.storage.settings.options import StorageOptions

_LOG = logging.getLogger("lakescan")
PREFIXES = ("s3.", "gcs.", "adls.", "hdfs.", "hf.", "client.")
# Sets of credentials that are complete, so that requests need none of the user's.
_COMPLETE = {
    "s3": ({"access_key", "secret_key"},),
    "gcs": ({"access_token"},),
    "abfs": ({"account_key"}, {"sas_token"}, {"tenant_id", "client_id", "client_secret"}),
}
_ANONYMOUS = ("anonymous", "azure_skip_signature")
_NO_CREDENTIALS = (
    "a host is only used together with credentials of the same server, as yours would be sent to it. If the host is "
    "right, set it as a property of the catalog"
)
_HANDS_OUT = "the host hands out credentials of this machine"
_IDENTITIES = ("aws_profile", "role_arn", "session_name", "external_id", "load_frequency", "target_service_account")
_KEYS = ("s3.access-key-id", "client.access-key-id")
_TRUE = ("y", "yes", "t", "true", "on", "1")  # as in pyiceberg
_VIRTUAL = ("s3", "force_virtual_addressing")
_SIGNED = ("s3.remote-signing-enabled", "s3.signer")
_SCHEME, _AFTER_HOST = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/+"), re.compile("[/?#]")
_TOLD: set[tuple[str, str]] = set()
_LOCK = Lock()


def is_storage_property(name: str) -> bool:
    """Return whether a catalog property configures storage access, by its name: `s3.`, `adls.`, `dfs.`, ..."""
    return name.startswith(PREFIXES) or is_hadoop_setting(name)


def storage_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return those of a catalog's properties that configure storage access; see `is_storage_property`."""
    return {name: value for name, value in properties.items() if is_storage_property(name)}


def merge_server_properties(user: Mapping[str, str], said: Mapping[str, str], server: str) -> dict[str, str]:
    """Merge the user's storage properties with a server's, which take precedence.

    The server's hosts are used only with its own complete credentials for that store, or if it signs requests itself.
    Then the user's credentials and identities for the store are removed. So the user's secrets are never sent to these
    hosts. Incomplete credentials are ignored.

    Args:
        user: The user's properties.
        said: The server's properties, such as those from `filter_server_properties`.
        server: The server's name for warnings.
    """
    user, said = storage_properties(user), storage_properties(said)
    machines = [name for name, value in said.items() if _is_host(name) and hands_out_credentials(_host_in(value))]
    warn_ignored(machines, server, _HANDS_OUT)
    said = {name: value for name, value in said.items() if name not in machines}
    for store, complete in _COMPLETE.items():
        known = {name: setting for name in said if (setting := _find_setting(name, store)) is not None}
        given = {
            setting.key[1] for name, setting in known.items() if setting.role is Role.CREDENTIAL and said[name].strip()
        }
        is_anonymous = any(
            setting.key[1] in _ANONYMOUS and said[name].strip().lower() == "true" for name, setting in known.items()
        )
        is_signed = store == "s3" and is_signed_remotely({**user, **said})
        if is_anonymous or is_signed or any(group <= given for group in complete):
            user = {name: value for name, value in user.items() if not _gives_way(name, store)}
        else:
            hosts = [name for name, setting in known.items() if setting.role is Role.HOST]
            parts = [name for name, setting in known.items() if setting.role is Role.CREDENTIAL]
            warn_ignored(hosts, server, _NO_CREDENTIALS)
            warn_ignored(parts, server, "the credential is incomplete")
            said = {name: value for name, value in said.items() if name not in hosts and name not in parts}
            if store == "s3" and is_signed_remotely(user):  # only the user's signer is used
                said = {name: value for name, value in said.items() if not name.startswith(_SIGNED)}
    set_by_server = {setting.key for name in said for setting in find_settings(name)}
    kept = {
        name: value
        for name, value in user.items()
        if not any(setting.key in set_by_server for setting in find_settings(name))
    }
    return {**kept, **said}


def warn_ignored(names: Iterable[str], source: str, why: str) -> None:
    """Warn once about each property that `source` sets and that is ignored, without its value. `why` is the reason."""
    for name in names:
        with _LOCK:
            is_told = (source, name) in _TOLD
            _TOLD.add((source, name))
        if not is_told:
            _LOG.warning("%s sets %r, which is ignored: %s", source, name, why)


def _find_setting(name: str, store: str) -> Setting | None:
    return next((each for each in find_settings(name) if each.store == store), None)


def _is_host(name: str) -> bool:
    return any(setting.role is Role.HOST for setting in find_settings(name))


def _host_in(value: str) -> str:
    """Return the host, with user and port, in an address with or without a scheme."""
    address = value.strip().replace("\\", "/")  # some clients treat backslashes as slashes
    without_scheme = _SCHEME.sub("", address, count=1).lstrip("/")
    return _AFTER_HOST.split(without_scheme, maxsplit=1)[0]


def _gives_way(name: str, store: str) -> bool:
    """Return whether a user's property is a credential or an identity (role, profile) for a store.

    Such properties are removed if the server issues its own credentials.
    """
    found = _find_setting(name, store)
    return found is not None and (found.role is Role.CREDENTIAL or found.key[1] in _IDENTITIES)


def is_signed_remotely(properties: Mapping[str, str]) -> bool:
    """Return whether the catalog signs S3 requests: the properties enable it, and have no access key."""
    wanted = properties.get("s3.remote-signing-enabled", "").lower() == "true" or "s3.signer" in properties
    return wanted and properties.keys().isdisjoint(_KEYS)


def catalog_s3_arguments(properties: Mapping[str, str], bucket: str) -> dict[str, Any]:
    """Return the arguments of pyarrow's `S3FileSystem` for a bucket, from a catalog's properties.

    Properties have the same meaning as in pyiceberg. No AWS profile is read. Only `s3.force-virtual-addressing` decides
    how a bucket is addressed. The default region is the bucket's own. Arrow's client takes everything else from the
    environment. Raises `InvalidOption`.
    """
    options = StorageOptions.parse(properties, ignore_unknown=True)
    ignored = {("s3", "aws_profile")}
    if options.given.get(_VIRTUAL) != "s3.force-virtual-addressing":
        ignored.add(_VIRTUAL)
    values = {key: value for key, value in options.values.items() if key not in ignored}
    arguments = replace(options, values=values).s3({})
    is_resolved = properties.get("s3.resolve-region", "").lower() in _TRUE
    if (is_resolved or "region" not in arguments) and (region := _bucket_region(bucket)) is not None:
        arguments["region"] = region
    if (name := properties.get("s3.retry-strategy-impl")) and (strategy := _retry_strategy(name)) is not None:
        arguments["retry_strategy"] = strategy
    return arguments


@lru_cache(maxsize=256)
def _bucket_region(bucket: str) -> str | None:
    """Request the region of a bucket from AWS; None, with a warning, if AWS does not respond or lacks the bucket."""
    try:
        return str(pafs.resolve_s3_region(bucket))
    except (OSError, TypeError):
        _LOG.warning("the region of the bucket %s cannot be found: if it is in AWS, set s3.region", bucket)
        return None


def _retry_strategy(name: str) -> Any:
    """Create pyarrow's retry strategy from its class name; None, with a warning, if it cannot be imported."""
    module, _, member = name.rpartition(".")
    try:
        return getattr(import_module(module), member)()
    except (ModuleNotFoundError, AttributeError):
        _LOG.warning("the S3 retry strategy %s cannot be imported: Arrow's own is used", name)
        return None
