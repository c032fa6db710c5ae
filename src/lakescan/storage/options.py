"""Storage options: parsed under every name that the ecosystem has for them, converted to each library's arguments.

The names are those of pyiceberg (`s3.endpoint`, `adls.account-name`), of delta-rs and the clouds' own tools
(`AWS_ENDPOINT_URL`, `azure_storage_account_key`), of Hadoop (`fs.s3a.endpoint`) and of pyarrow (`endpoint_override`).
They are case-insensitive. Missing settings of AWS come from the environment, as in AWS's own tools.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lakescan.errors import InvalidOption, missing_dependency
from lakescan.storage.settings import SETTINGS, is_of_hadoop, settings_of

# Settings and environment variables that put another address in the place of the cloud's own, the first that is set.
_ENDPOINTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "s3": (("endpoint_override",), ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")),
    "gcs": (("endpoint_override",), ("CLOUD_STORAGE_EMULATOR_ENDPOINT", "STORAGE_EMULATOR_HOST")),
    "abfs": (("blob_storage_authority", "dfs_storage_authority"), ()),
}
_CONF = "conf."  # before the names of Hadoop's own settings


@dataclass(frozen=True)
class StorageOptions:
    """Parsed settings by `Setting.key` (store, name); `repr` hides their values, which may be secrets."""

    values: Mapping[tuple[str, str], Any]

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted('.'.join(key) for key in self.values))})"

    @staticmethod
    def of(options: Mapping[str, Any], *, ignore_unknown: bool = False) -> StorageOptions:
        """Parse options into settings.

        `ignore_unknown` is for a catalog's properties, which include others. Raises `InvalidOption` for an unknown
        option, an invalid value, and a setting that is set twice with different values.

        Example:
            >>> StorageOptions.of({"fs.s3a.endpoint": "http://127.0.0.1:9000"}).s3()["scheme"]
            'http'
        """
        values: dict[tuple[str, str], Any] = {}
        for name, value in options.items():
            if not isinstance(name, str):
                raise InvalidOption(f"{name!r} is not a valid name of a storage option: names are strings")
            if value is None:
                continue
            if is_of_hadoop(name := name.removeprefix("spark.hadoop.")):
                values["hdfs", _CONF + name] = str(value)
                continue
            for setting, parsed in settings_of(name, value, ignore_unknown):
                if values.setdefault(setting.key, parsed) != parsed:
                    raise InvalidOption(
                        f"storage option {name!r} is set twice, under two names, with different values: keep one"
                    )
        return StorageOptions(values)

    def _of(self, store: str) -> dict[str, Any]:
        known = {setting.arrow for setting in SETTINGS if setting.store == store}
        return {name: value for (where, name), value in self.values.items() if where == store and name in known}

    def _own(self, name: str) -> Any:
        return self.values.get(("s3", name))

    def s3(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """The arguments of pyarrow's `S3FileSystem`."""
        arguments = self._of("s3")
        if self._own("aws_profile") is not None:
            arguments = {**_of_profile(str(self._own("aws_profile"))), **arguments}
        for name, variable in (("access_key", "AWS_ACCESS_KEY_ID"), ("secret_key", "AWS_SECRET_ACCESS_KEY")):
            if {"access_key", "secret_key"} & arguments.keys() and name not in arguments:
                if variable not in environment:
                    raise InvalidOption(
                        f"storage options have only one of s3.access-key-id and s3.secret-access-key, and {variable} "
                        "is not set: set both"
                    )
                arguments[name] = environment[variable]
        if (endpoint := self.endpoint("s3", environment)) is not None:
            arguments["endpoint_override"] = endpoint
            plain = endpoint.startswith("http://") or self._own("aws_use_ssl") is False
            plain |= "://" not in endpoint and self._own("aws_allow_http") is True
            if plain:
                arguments.setdefault("scheme", "http")
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        if region and "region" not in arguments:
            arguments["region"] = region
        return arguments

    def endpoint(self, store: str, environment: Mapping[str, str] = os.environ) -> str | None:
        """The address of a store (s3, gcs, abfs) that is not the cloud's own, or None."""
        names, variables = _ENDPOINTS[store]
        if environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() == "true":
            variables = tuple(name for name in variables if not name.startswith("AWS"))
        set_by = (*(self.values.get((store, name)) for name in names), *map(environment.get, variables))
        return next((str(each) for each in set_by if each), None)

    def gcs(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """The arguments of pyarrow's `GcsFileSystem`. Retries are limited to 60 s; pyarrow's default is 15 minutes."""
        arguments = {"retry_time_limit": timedelta(seconds=60), **self._of("gcs")}
        if "access_token" in arguments:  # Arrow wants to know when it expires, and does nothing then
            arguments.setdefault("credential_token_expiration", datetime.now(UTC) + timedelta(days=1))
        if (address := self.endpoint("gcs", environment)) is None:
            return arguments
        arguments["endpoint_override"] = address.rpartition("://")[2]
        arguments.setdefault("scheme", _scheme_of(address, "gcs", environment))
        if self.values.get(("gcs", "endpoint_override")) is None and "access_token" not in arguments:
            arguments.setdefault("anonymous", True)  # as Google's own clients do at an emulator
        return arguments

    def abfs(self, account: str) -> dict[str, Any]:
        """The arguments of pyarrow's `AzureFileSystem` for an account."""
        return {"account_name": account, **self._of("abfs")}

    def hdfs(self) -> dict[str, Any]:
        """The arguments of pyarrow's `HadoopFileSystem`."""
        arguments = self._of("hdfs")
        conf = {name.removeprefix(_CONF): value for (_, name), value in self.values.items() if name.startswith(_CONF)}
        conf = {**conf, **arguments.get("extra_conf", {})}
        return {**arguments, "extra_conf": conf} if conf else arguments

    @property
    def azure_account(self) -> str | None:
        """The Azure account in the settings, or None."""
        account = self.values.get(("abfs", "account_name"))
        return None if account is None else str(account)

    @property
    def has_azure_credentials(self) -> bool:
        """Whether the settings have secrets of an Azure account."""
        return any(("abfs", name) in self.values for name in ("account_key", "sas_token", "client_secret"))

    def delta_rs(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The settings as delta-rs storage options."""
        names = {setting.key: setting.delta for setting in SETTINGS if setting.delta}
        own = {names[key]: value for key, value in self.values.items() if key in names and names[key] != "aws_use_ssl"}
        options = {name: _as_text(name, value) for name, value in own.items()}
        endpoint = self.endpoint("s3", environment)
        if endpoint is not None:
            plain = endpoint.startswith("http://") or self._own("aws_use_ssl") is False
            options["aws_endpoint_url"] = (
                endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
            )
            if plain:
                options["aws_allow_http"] = "true"
        return options

    def google_address(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """The address of Google's storage that is not the cloud's own, with its scheme, or None."""
        if (address := self.endpoint("gcs", environment)) is None:
            return None
        scheme = self.values.get(("gcs", "scheme")) or _scheme_of(address, "gcs", environment)
        return f"{scheme}://{address.rpartition('://')[2]}"

    def azure_endpoint(self, account: str) -> str | None:
        """The address of an account's blobs that is not the cloud's own, or None."""
        authority = self.values.get(("abfs", "blob_storage_authority"))
        if authority is None:
            return None
        scheme = self.values.get(("abfs", "blob_storage_scheme"), "https")
        # as in Arrow: an authority with a dot before it comes after the account, another has accounts in its paths
        return f"{scheme}://{account}{authority}" if authority.startswith(".") else f"{scheme}://{authority}/{account}"


def _scheme_of(address: str, store: str, environment: Mapping[str, str]) -> str:
    """The scheme of an address; without one, an emulator's in the environment is http."""
    scheme, separator, _ = address.partition("://")
    if separator:
        return scheme
    return "http" if address in [environment.get(name) for name in _ENDPOINTS[store][1]] else "https"


def _as_text(name: str, value: Any) -> str:
    if name in ("timeout", "connect_timeout"):
        return f"{value}s" if value >= 1 else f"{value * 1000:.0f}ms"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_profile(name: str) -> dict[str, Any]:
    """The keys and region of a profile in AWS's configuration files."""
    try:
        from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
        from botocore.session import Session  # type: ignore[import-untyped]
    except ImportError as error:
        raise missing_dependency("botocore", "all", f"the AWS profile {name!r}") from error
    try:
        session = Session(profile=name)
        keys, region = session.get_credentials(), session.get_config_variable("region")
    except BotoCoreError as error:
        raise InvalidOption(f"the AWS profile {name!r} cannot be used: {error}") from error
    frozen = None if keys is None else keys.get_frozen_credentials()
    arguments = {"region": region}
    if frozen is not None:
        arguments |= {"access_key": frozen.access_key, "secret_key": frozen.secret_key, "session_token": frozen.token}
    return {argument: value for argument, value in arguments.items() if value is not None}
