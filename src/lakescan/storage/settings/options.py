"""Storage options: parsed under the names of other libraries, and converted to the arguments of each client.

The names are those of pyiceberg (`s3.endpoint`, `adls.account-name`), of object_store, delta-rs and the clouds' own
tools (`AWS_ENDPOINT_URL`, `azure_storage_account_key`), of boto and fsspec (`key`, `client_kwargs`), of Hadoop
(`fs.s3a.endpoint`) and of pyarrow (`endpoint_override`). They are case-insensitive. Missing settings come from the
environment and AWS's configuration files, as in the clouds' own tools. Arrow's and obstore's clients get the same ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyarrow import fs as pafs

from lakescan.common.secrets import register_address_secrets, register_secrets
from lakescan.errors import InvalidOption
from lakescan.storage.settings import azure_endpoints
from lakescan.storage.settings.aws_credentials import find_profile, profile_credentials
from lakescan.storage.settings.known_settings import SETTINGS
from lakescan.storage.settings.option_names import is_hadoop_setting, parse_option

# Environment variables that replace the cloud's own address. The first one that is set is used.
_ENDPOINTS: Mapping[str, tuple[str, ...]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gcs": ("CLOUD_STORAGE_EMULATOR_ENDPOINT", "STORAGE_EMULATOR_HOST", "GOOGLE_BASE_URL"),
    "abfs": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_OF_CATALOGS = {"gcs": _ENDPOINTS["gcs"][:1]}  # the variables that Arrow's clients read themselves
_NAMES = {"s3": "S3", "gcs": "Google's storage", "abfs": "Azure", "hdfs": "HDFS"}
_ARGUMENTS = {store: {each.arrow for each in SETTINGS if each.store == store} - {""} for store in _NAMES}
_REFUSED = {store: [each for each in SETTINGS if each.store == store and each.refused] for store in _NAMES}
_AZURE_SECRETS = ("account_key", "sas_token", "client_secret")
_CONF = "conf."  # a prefix of the names of Hadoop's own settings


@dataclass(frozen=True)
class StorageOptions:
    """Parsed settings by `Setting.key` (store, name). `repr` hides their values, which may be secrets.

    `given` maps the same keys to the names that the user wrote, for messages. `is_of_catalog`: connections use a
    catalog's properties, and take no endpoints from the environment.
    """

    values: Mapping[tuple[str, str], Any]
    given: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False)
    is_of_catalog: bool = False

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(sorted('.'.join(key) for key in self.values))})"

    @staticmethod
    def parse(options: Mapping[str, Any], *, ignore_unknown: bool = False) -> StorageOptions:
        """Parse options into settings. Options with the value None are skipped.

        `ignore_unknown` is for a catalog's properties, which include others. Raises `InvalidOption` for an unknown
        option, an invalid value, and a setting that is set twice with different values.

        Example:
            >>> StorageOptions.parse({"fs.s3a.endpoint": "http://127.0.0.1:9000"}).s3()["scheme"]
            'http'
        """
        values: dict[tuple[str, str], Any] = {}
        given: dict[tuple[str, str], str] = {}
        for name, value in options.items():
            if not isinstance(name, str):
                raise InvalidOption(f"{name!r} is not a valid name of a storage option: names are strings")
            if value is None:
                continue
            if is_hadoop_setting(name := name.removeprefix("spark.hadoop.")):
                values["hdfs", _CONF + name] = str(value)
                continue
            for setting, parsed in parse_option(name, value, ignore_unknown):
                if setting.is_secret and isinstance(parsed, str):
                    register_secrets([parsed])
                register_address_secrets(value)
                first = given.setdefault(setting.key, name)
                if values.setdefault(setting.key, parsed) != parsed:
                    raise InvalidOption(
                        f"storage option {name!r} is set twice, also as {first!r}, with different values: keep one"
                    )
        return StorageOptions(values, given, ignore_unknown)

    def _arguments(self, store: str) -> dict[str, Any]:
        """Return the set arguments of pyarrow's filesystem for a store; raises `InvalidOption` for unsupported ones."""
        self.check_obeyed(store)
        known = _ARGUMENTS[store]
        return {name: value for (where, name), value in self.values.items() if where == store and name in known}

    def check_obeyed(self, store: str) -> None:
        """Raise `InvalidOption` for a setting that Arrow's client of a store does not support (`Setting.refused`)."""
        for setting in _REFUSED[store]:
            if self.values.get(setting.key, False) is not False:
                raise InvalidOption(
                    f"storage option {self.given.get(setting.key, setting.key[1])!r} is not supported for "
                    f"{_NAMES[store]}. {setting.refused}"
                )

    def s3(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """Return the arguments of pyarrow's `S3FileSystem`, with those of the environment and AWS's configuration.

        Raises `InvalidOption` for contradictory or incomplete settings, and `MissingDependency` for a profile without
        botocore.
        """
        arguments = self._arguments("s3")
        own = self.values.get
        if (profile := own(("s3", "aws_profile"))) is not None:
            arguments = {**profile_credentials(str(profile)), **arguments}
            if "access_key" not in arguments and not arguments.get("anonymous"):
                raise InvalidOption(f"the AWS profile {profile!r} has no credentials: add some, or set another profile")
        keys = {"access_key", "secret_key", "session_token"} & arguments.keys()
        for name, variable in (("access_key", "AWS_ACCESS_KEY_ID"), ("secret_key", "AWS_SECRET_ACCESS_KEY")):
            if keys and name not in arguments:
                if variable not in environment:
                    raise InvalidOption(
                        f"storage options have only {' and '.join(sorted(keys))} of the S3 credentials, and "
                        f"{variable} is not set: set both s3.access-key-id and s3.secret-access-key"
                    )
                arguments[name] = environment[variable]
        if not keys and "role_arn" not in arguments and _is_true(environment, "AWS_SKIP_SIGNATURE"):
            arguments.setdefault("anonymous", True)
        _check_one_identity(arguments)
        use_ssl = own(("s3", "aws_use_ssl"))
        if (endpoint := self.endpoint("s3", environment)) is not None:
            arguments["endpoint_override"] = endpoint
            is_plain = endpoint.startswith("http://")
            if "://" not in endpoint:
                is_plain = use_ssl is False or self._may_be_plain("s3", environment)
            if is_plain:
                arguments.setdefault("scheme", "http")
        elif use_ssl is False:
            raise InvalidOption("storage options have no endpoint, and AWS's endpoint requires TLS: leave out use_ssl")
        if (region := self.region(environment)) is not None:
            arguments.setdefault("region", region)
        if (retries := own(("s3", "max_retries"))) is not None:
            if "retry_strategy" in arguments:
                raise InvalidOption("storage options have both max_retries and retry_strategy: keep one")
            arguments["retry_strategy"] = pafs.AwsStandardS3RetryStrategy(max_attempts=retries + 1)
        return arguments

    def region(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Return the S3 region in the settings, the environment or AWS's configuration files; None without one."""
        if (region := self.values.get(("s3", "region"))) is not None:
            return str(region)
        region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        return region or (None if self.is_of_catalog else self._profile(environment).region)

    def _profile(self, environment: Mapping[str, str]) -> Any:
        return find_profile(self.values.get(("s3", "aws_profile")), environment)

    def _may_be_plain(self, store: str, environment: Mapping[str, str]) -> bool:
        """Return whether an endpoint without a scheme is one without TLS, by `allow_http` or the environment."""
        name = "aws_allow_http" if store == "s3" else "allow_http"
        found = self.values.get((store, name))
        return bool(found) if found is not None else store == "s3" and _is_true(environment, "AWS_ALLOW_HTTP")

    def endpoint(self, store: str, environment: Mapping[str, str] = os.environ) -> str | None:
        """Return the address of a store (s3, gcs, abfs) that replaces the cloud's own; None without one.

        It is the first one in the settings, the environment, and AWS's configuration files.
        """
        names = ("endpoint_override", "azure_storage_endpoint", "blob_storage_authority", "dfs_storage_authority")
        if found := next((each for name in names if (each := self.values.get((store, name)))), None):
            return str(found)
        is_ignored = store == "s3" and _is_true(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
        if is_ignored:
            return None
        variables = _OF_CATALOGS.get(store, ()) if self.is_of_catalog else _ENDPOINTS[store]
        if found := next((each for name in variables if (each := environment.get(name))), None):
            return found
        return self._profile(environment).endpoint if store == "s3" and not self.is_of_catalog else None

    def gcs(self, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """Return the arguments of pyarrow's `GcsFileSystem`, completed from the environment.

        Retries end after 60 s by default, in pyarrow after 15 minutes. Raises `InvalidOption` for contradictory
        settings.
        """
        arguments = {"retry_time_limit": timedelta(seconds=60), **self._arguments("gcs")}
        if "access_token" not in arguments and not arguments.get("anonymous") and not self.is_of_catalog:
            if _is_true(environment, "GOOGLE_SKIP_SIGNATURE"):
                arguments["anonymous"] = True
            elif token := environment.get("GOOGLE_BEARER_TOKEN"):
                arguments["access_token"] = token
        if "access_token" in arguments:  # Arrow requires an expiry, but does nothing when it is reached
            if arguments.get("anonymous"):
                raise InvalidOption("storage options have both a token and anonymous=true: keep one")
            arguments.setdefault("credential_token_expiration", datetime.now(UTC) + timedelta(days=1))
        if (address := self.google_address(environment)) is None:
            return arguments
        scheme, _, arguments["endpoint_override"] = address.partition("://")
        arguments["scheme"] = scheme
        if self.values.get(("gcs", "endpoint_override")) is None and "access_token" not in arguments:
            arguments.setdefault("anonymous", True)  # as Google's own clients do with an emulator
        return arguments

    def google_address(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Return the address, with a scheme, that replaces that of Google's storage; None without one."""
        if (address := self.endpoint("gcs", environment)) is None:
            return None
        found, separator, _ = address.partition("://")
        is_of_emulator = address in [environment.get(name) for name in _ENDPOINTS["gcs"]]
        scheme = "http" if is_of_emulator or self._may_be_plain("gcs", environment) else "https"
        scheme = self.values.get(("gcs", "scheme")) or (found if separator else scheme)
        return f"{scheme}://{address.rpartition('://')[2].rstrip('/')}"

    def abfs(self, account: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
        """Return the arguments of pyarrow's `AzureFileSystem` for an account. It has no argument for anonymous access.

        If the settings have no credentials, those of the environment are used. Raises `InvalidOption` for contradictory
        or incomplete settings.
        """
        arguments = {**self._arguments("abfs"), "account_name": account}
        if self.is_anonymous_in_azure:
            if secret := next((each for each in _AZURE_SECRETS if each in arguments), None):
                raise InvalidOption(f"storage options have both {secret} and anonymous=true: keep one")
        else:
            arguments |= self._azure_environment(account, environment)
        if {"account_key", "sas_token"} <= arguments.keys():
            raise InvalidOption("storage options have both account_key and sas_token: keep one")
        applied = {"client_secret", "tenant_id"} & arguments.keys()
        if applied and {"client_id", "client_secret", "tenant_id"} - arguments.keys():
            raise InvalidOption("storage options have only some of client_id, client_secret, tenant_id: set all three")
        if (endpoint := self.azure_own_endpoint(environment)) is not None:
            is_plain = self._may_be_plain("abfs", environment)
            arguments = {**azure_endpoints.authorities(endpoint, account, is_plain=is_plain), **arguments}
        return arguments

    def azure_own_endpoint(self, environment: Mapping[str, str]) -> str | None:
        """Return the endpoint that replaces Azure's, in object_store's form: an address of the account.

        None without one, or if pyarrow's arguments for the hosts of Azure's services are set.
        """
        if any(("abfs", f"{each}_storage_authority") in self.values for each in ("blob", "dfs")):
            return None
        return self.endpoint("abfs", environment)

    def _azure_environment(self, account: str, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the key or signature in the environment as pyarrow's argument.

        Empty if the settings have credentials, the environment names another account, or the settings are a catalog's.
        """
        if self.has_azure_secrets or ("abfs", "client_id") in self.values or self.is_of_catalog:
            return {}
        owner = environment.get(azure_endpoints.ACCOUNT, account)
        return azure_endpoints.environment_credentials(environment) if owner.lower() == account.lower() else {}

    def hdfs(self) -> dict[str, Any]:
        """Return the arguments of pyarrow's `HadoopFileSystem`, with Hadoop's own settings in `extra_conf`."""
        arguments = self._arguments("hdfs")
        conf = {name.removeprefix(_CONF): value for (_, name), value in self.values.items() if name.startswith(_CONF)}
        conf = {**conf, **arguments.get("extra_conf", {})}
        return {**arguments, "extra_conf": conf} if conf else arguments

    @property
    def azure_account(self) -> str | None:
        """The Azure account in the settings (`account_name`); None without one."""
        account = self.values.get(("abfs", "account_name"))
        return None if account is None else str(account)

    def azure_owner(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Return the Azure account that the secrets belong to; None if it is not set.

        It is that of the settings or, if they have neither account nor secrets, that of the environment.
        """
        own = any(("abfs", name) in self.values for name in _AZURE_SECRETS)
        return self.azure_account or (None if own else environment.get(azure_endpoints.ACCOUNT))

    @property
    def is_anonymous_in_azure(self) -> bool:
        """Whether the settings demand requests to Azure without credentials."""
        return self.values.get(("abfs", "azure_skip_signature")) is True

    @property
    def has_azure_secrets(self) -> bool:
        """Whether the settings have secrets of an Azure account, or demand anonymous access."""
        names = (*_AZURE_SECRETS, "azure_skip_signature")
        return any(self.values.get(("abfs", name)) for name in names)

    def has_azure_credentials(self, account: str, environment: Mapping[str, str] = os.environ) -> bool:
        """Return whether secrets of the settings or the environment would be sent to an Azure account."""
        own = any(("abfs", name) in self.values for name in _AZURE_SECRETS)
        return own or bool(self._azure_environment(account, environment))

    def azure_endpoint(self, account: str, environment: Mapping[str, str] = os.environ) -> str | None:
        """Return the URL of an account's blobs that replaces Azure's own; None without one."""
        if (endpoint := self.azure_own_endpoint(environment)) is not None:
            is_plain = self._may_be_plain("abfs", environment)
            scheme, host, is_in_path = azure_endpoints.split_endpoint(endpoint, account, is_plain=is_plain)
            return f"{scheme}://{host.replace('.dfs.', '.blob.', 1)}{f'/{account}' if is_in_path else ''}"
        authority = self.values.get(("abfs", "blob_storage_authority"))
        if authority is None:
            return None
        scheme = self.values.get(("abfs", "blob_storage_scheme"), "https")
        # As in Arrow: an authority that starts with a dot follows the account, others have the account in the path.
        return f"{scheme}://{account}{authority}" if authority.startswith(".") else f"{scheme}://{authority}/{account}"


def _is_true(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() in ("true", "1")


def _check_one_identity(arguments: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` if more than one of keys, a role and anonymous access is set for S3.

    `arguments` are those of pyarrow's `S3FileSystem`, whose own error would not name the user's options.
    """
    kinds = {"keys": "access_key", "a role (role_arn)": "role_arn", "anonymous=true": "anonymous"}
    found = [kind for kind, name in kinds.items() if arguments.get(name)]
    if len(found) > 1:
        advice = "keep one"
        if found == [*kinds][:2]:
            advice = "the keys that assume a role come from the environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, ...)"
        raise InvalidOption(f"storage options have {' and '.join(found)}: {advice}")
