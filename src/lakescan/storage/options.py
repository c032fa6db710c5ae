"""Settings of filesystems, under every name that the ecosystem has for them, and as each library takes them.

The names are those of pyiceberg (`s3.endpoint`, `adls.account-name`), of delta-rs and the clouds' own tools
(`AWS_ENDPOINT_URL`, `azure_storage_account_key`), of Hadoop (`fs.s3a.endpoint`) and of pyarrow (`endpoint_override`).
Their case does not count. What is not given is looked for where AWS's own tools look: in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from lakescan.errors import InvalidOption, missing_dependency
from lakescan.storage.settings import SETTINGS, settings_of


@dataclass(frozen=True)
class StorageOptions:
    """Settings by store and by the name that `Setting.key` has; `repr` shows none of their values."""

    values: Mapping[tuple[str, str], Any]

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted('.'.join(key) for key in self.values))})"

    @staticmethod
    def of(options: Mapping[str, Any], *, ignore_unknown: bool = False) -> StorageOptions:
        """The settings that options name.

        Raises `InvalidOption` for an option that nobody knows, unless they are a catalog's, which may have others; for
        a value that a setting cannot be, and for one that is given twice with different values.

        Example:
            >>> StorageOptions.of({"fs.s3a.endpoint": "http://127.0.0.1:9000"}).s3()["scheme"]
            'http'
        """
        values: dict[tuple[str, str], Any] = {}
        for name, value in options.items():
            if not isinstance(name, str):
                raise InvalidOption(f"{name!r} is no name of a storage option: names are texts")
            if value is None:
                continue
            for setting, parsed in settings_of(name.removeprefix("spark.hadoop."), value, ignore_unknown):
                if values.setdefault(setting.key, parsed) != parsed:
                    raise InvalidOption(f"storage option {name!r} is given twice, under two names, with other values")
        return StorageOptions(values)

    def _of(self, store: str) -> dict[str, Any]:
        known = {setting.arrow for setting in SETTINGS if setting.store == store}
        return {name: value for (where, name), value in self.values.items() if where == store and name in known}

    def _own(self, name: str) -> Any:
        return self.values.get(("s3", name))

    def s3(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """The arguments of pyarrow's `S3FileSystem`."""
        found = self._of("s3")
        if self._own("aws_profile") is not None:
            found = {**_of_profile(str(self._own("aws_profile"))), **found}
        for name, variable in (("access_key", "AWS_ACCESS_KEY_ID"), ("secret_key", "AWS_SECRET_ACCESS_KEY")):
            if {"access_key", "secret_key"} & found.keys() and name not in found:
                if variable not in environment:
                    raise InvalidOption(
                        f"storage options have only one of s3.access-key-id and s3.secret-access-key, and {variable} "
                        "is not set: give both"
                    )
                found[name] = environment[variable]
        if (endpoint := self._endpoint(environment)) is not None:
            found["endpoint_override"] = endpoint
            plain = endpoint.startswith("http://") or self._own("aws_use_ssl") is False
            plain |= "://" not in endpoint and self._own("aws_allow_http") is True
            if plain:
                found.setdefault("scheme", "http")
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        if region and "region" not in found:
            found["region"] = region
        return found

    def _endpoint(self, environment: Mapping[str, str]) -> str | None:
        given = self.values.get(("s3", "endpoint_override"))
        if given is None and environment.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
            given = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
        return given or None

    def gcs(self) -> dict[str, Any]:
        """The arguments of pyarrow's `GcsFileSystem`, which would try for 15 minutes where nothing is said."""
        found = {"retry_time_limit": timedelta(seconds=60), **self._of("gcs")}
        scheme, separator, host = str(found.get("endpoint_override", "")).partition("://")
        return {**found, "endpoint_override": host, "scheme": scheme} if separator else found

    def abfs(self, account: str) -> dict[str, Any]:
        """The arguments of pyarrow's `AzureFileSystem` for an account."""
        return {"account_name": account, **self._of("abfs")}

    def hdfs(self) -> dict[str, Any]:
        """The arguments of pyarrow's `HadoopFileSystem`."""
        return self._of("hdfs")

    @property
    def azure_account(self) -> str | None:
        """The Azure account that the settings are of, where they say so."""
        found = self.values.get(("abfs", "account_name"))
        return None if found is None else str(found)

    @property
    def has_azure_credentials(self) -> bool:
        """Whether there are secrets of an Azure account."""
        return any(("abfs", name) in self.values for name in ("account_key", "sas_token", "client_secret"))

    def delta_rs(self, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The settings in delta-rs's words."""
        names = {setting.key: setting.delta for setting in SETTINGS if setting.delta}
        own = {names[key]: value for key, value in self.values.items() if key in names and names[key] != "aws_use_ssl"}
        found = {name: _as_text(name, value) for name, value in own.items()}
        endpoint = self._endpoint(environment)
        if endpoint is not None:
            plain = endpoint.startswith("http://") or self._own("aws_use_ssl") is False
            found["aws_endpoint_url"] = (
                endpoint if "://" in endpoint else f"{'http' if plain else 'https'}://{endpoint}"
            )
            if plain:
                found["aws_allow_http"] = "true"
        return found


def _as_text(name: str, value: Any) -> str:
    if name in ("timeout", "connect_timeout"):
        return f"{value}s" if value >= 1 else f"{value * 1000:.0f}ms"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _of_profile(name: str) -> dict[str, Any]:
    """The keys and region of a profile of AWS's own tools."""
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
    found = {"region": region}
    if frozen is not None:
        found |= {"access_key": frozen.access_key, "secret_key": frozen.secret_key, "session_token": frozen.token}
    return {argument: value for argument, value in found.items() if value is not None}
