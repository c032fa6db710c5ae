"""Write `docs/storage_options.md` from the table of settings: `python scripts/storage_options_doc.py`."""

# ruff: noqa: E501 - rows of tables

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lakescan.storage.settings import SETTINGS, Setting

PAGE = Path(__file__).parent.parent / "docs" / "storage_options.md"
_HEAD = """# Storage options

`storage_options` of `lakescan.table` and `lakescan.save`, `--storage-option name=value` of the command line, and the
option `storage-options` on Spark. An option has the names that pyarrow, object_store and delta-rs, boto, fsspec (s3fs,
gcsfs, adlfs), Hadoop and pyiceberg give it. Case does not matter; `spark.hadoop.` before a name neither.

<!-- not run: needs a server -->
```python no-run
import lakescan

minio = {"endpoint": "http://localhost:9000", "access_key_id": "me", "secret_access_key": "..."}
orders = lakescan.table("s3://bucket/orders", storage_options=minio)
```

The names of one library are equivalent to those of another:

```python
from lakescan.storage.settings import StorageOptions

s3fs = {"key": "me", "secret": "...", "client_kwargs": {"endpoint_url": "http://localhost:9000"}}
hadoop = {"fs.s3a.access.key": "me", "fs.s3a.secret.key": "...", "fs.s3a.endpoint": "http://localhost:9000"}
assert StorageOptions.parse(s3fs) == StorageOptions.parse(hadoop)
```

Arrow's clients read and write files. obstore sends Delta commits and bulk deletions. Both get the same endpoint, region
and credentials. An option that a client does not support is an error that names it, raised when a location of that
store is used. Ignored are only options that tune the clients of Hadoop or fsspec (`fs.s3a.threads.max`,
`use_listings_cache`), and options of other stores. An option that several stores have (`endpoint`, `token`) applies to
the store of the location.

This page is made from the source by `scripts/storage_options_doc.py`.
"""
_STORES = {"s3": "S3", "gcs": "Google Cloud Storage", "abfs": "Azure", "hdfs": "HDFS"}
_COLUMNS = "| option | other names | value | meaning |\n|---|---|---|---|"
_REFUSED = "| option | instead |\n|---|---|"
_TAIL = """## Options that hold several settings

| option | supported settings |
|---|---|
| `client_kwargs` (s3fs, a dictionary or JSON) | `endpoint_url`, `region_name`, `use_ssl`, `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`, `verify` |
| `config_kwargs` (s3fs, a dictionary or JSON) | `s3` with `addressing_style`; `signature_version` (`s3v4`, `unsigned`); `retries` with `max_attempts`, `total_max_attempts`, `mode`; `region_name`, `connect_timeout`, `read_timeout`; `proxies`, if there is only one |
| `verify` (boto) | true, false (as `allow_invalid_certificates`), or the file of `tls_ca_file_path` |
| `connection_string`, `adls.connection-string`, `azure_storage_connection_string` | `AccountName`, `AccountKey`, `SharedAccessSignature`, `DefaultEndpointsProtocol`, `EndpointSuffix`, `BlobEndpoint`, `DfsEndpoint` |
| `fs.azure.account.key.ACCOUNT.dfs.core.windows.net` and the like (Hadoop) | `account.key`, `sas.fixed.token`, `account.auth.type`, `account.oauth.provider.type` (client credentials), `account.oauth2.client.id`, `.secret`, `.endpoint` |
| `fs.s3a.aws.credentials.provider` (Hadoop) | the provider without credentials, and those whose credentials are in options or the environment |
| `fs.gs.auth.type` (Hadoop) | `UNAUTHENTICATED`, `APPLICATION_DEFAULT`, `COMPUTE_ENGINE` |
| `token` (gcsfs) | a token, `anon`, `google_default`, `cloud`. For a file, set `GOOGLE_APPLICATION_CREDENTIALS` |

## Order of precedence

Options take precedence over the environment, and the environment over AWS's configuration files (`~/.aws/config`, `AWS_CONFIG_FILE`).

| store | endpoint | region | credentials |
|---|---|---|---|
| S3 | `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`, `AWS_ENDPOINT`; the profile's `services` and `endpoint_url`; none of them with `AWS_IGNORE_CONFIGURED_ENDPOINT_URLS` | `AWS_REGION`, `AWS_DEFAULT_REGION`, the profile's | `AWS_ACCESS_KEY_ID` and its siblings, `AWS_PROFILE`, web identities, the machine's role; none with `AWS_SKIP_SIGNATURE`; for `role_arn`, those that may assume it |
| Google | `CLOUD_STORAGE_EMULATOR_ENDPOINT`, `STORAGE_EMULATOR_HOST`, `GOOGLE_BASE_URL`; without credentials then | | `GOOGLE_BEARER_TOKEN`, `GOOGLE_APPLICATION_CREDENTIALS`, those of gcloud, the machine's; none with `GOOGLE_SKIP_SIGNATURE` |
| Azure | `AZURE_STORAGE_ENDPOINT`, `AZURE_ENDPOINT` | | `AZURE_STORAGE_ACCOUNT_KEY`, `AZURE_STORAGE_SAS_TOKEN` of the account `AZURE_STORAGE_ACCOUNT_NAME`, if that is set; `AZURE_CLIENT_ID` and its siblings; workload identities, `az`, the machine's |

For tables of a catalog, endpoints come from the catalog's properties (`s3.endpoint`, ...), as in pyiceberg. Of the
environment, only Google's `CLOUD_STORAGE_EMULATOR_ENDPOINT` is used. Google's token and Azure's account keys and shared
signatures also come from the properties.

`profile` needs botocore, and so do commits with `role_arn`. A profile's temporary keys are renewed for commits. Arrow
keeps the keys that it got when the table was opened. Keys in options together with a role to assume are refused.

## If a store does not answer

lakescan sends one request to Google's storage and Azure before it creates their clients, which take up to two minutes
to report that a host does not exist. If the host does not respond within 5 s, or there are no credentials, the
`StorageError` names the settings to change. Behind a proxy, no such request is sent. A Delta commit that was not sent
(no connection, no credentials) raises `StorageError`, not `CommitStateUnknown`. So does an Iceberg commit whose
metadata file could not be written.
"""


def page() -> str:
    """Return the page of storage options."""
    return "\n".join([_HEAD, *_tables(), _TAIL]).rstrip() + "\n"


def _tables() -> Iterator[str]:
    for store, title in _STORES.items():
        own = [each for each in SETTINGS if each.store == store]
        yield f"## {title}\n"
        yield _COLUMNS
        yield "\n".join(_row(each) for each in own if not each.refused) + "\n"
        if refused := [each for each in own if each.refused]:
            yield f"Refused for {title}:\n"
            yield _REFUSED
            yield "\n".join(f"| {_names(each.spellings)} | {each.refused} |" for each in refused) + "\n"


def _row(setting: Setting) -> str:
    first, *others = setting.spellings
    cells = (f"`{first}`", _names(others), setting.parse.expects, setting.doc)
    return f"| {' | '.join(cells)} |"


def _names(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in names)


if __name__ == "__main__":
    PAGE.write_text(page())
