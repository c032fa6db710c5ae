"""An environment without stores and credentials, for tests of storage options."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOTS = {"s3": "s3://lake", "gcs": "gs://lake", "abfs": "abfss://lake@acc.dfs.core.windows.net"}
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"),
    *("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AWS_CONFIG_FILE"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCOUNT_NAME"),
    *("AZURE_STORAGE_SAS_TOKEN", "GOOGLE_BEARER_TOKEN", "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"),
)


def clean(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Remove all variables that name stores or credentials from the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
