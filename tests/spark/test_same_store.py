"""Spark reads a store only if its session has lakescan's settings; reasons contain names, never values."""

from __future__ import annotations

from typing import Any

import pytest

from lakescan.spark.native.filesystems import why_other_store
from lakescan.storage import Storage

HERE = "http://127.0.0.1:9000"
KEYS = {"s3.access-key-id": "the-key", "s3.secret-access-key": "the-secret"}
SAME = {"fs.s3a.access.key": "the-key", "fs.s3a.secret.key": "the-secret"}
CLASS = "org.apache.hadoop.fs.s3a.{}".format
BY_KEYS, TEMPORARY = CLASS("SimpleAWSCredentialsProvider"), CLASS("TemporaryAWSCredentialsProvider")
ANONYMOUS, INSTANCE = CLASS("AnonymousAWSCredentialsProvider"), CLASS("auth.IAMInstanceCredentialsProvider")
PROVIDERS = "fs.s3a.aws.credentials.provider"
AZURE = "c@acct.dfs.core.windows.net"
AZURE_KEY, AZURE_TOKEN = (f"fs.azure.{name}.acct.dfs.core.windows.net" for name in ("account.key", "sas.fixed.token"))


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", raising=False)


@pytest.mark.parametrize(
    ("options", "hadoop"),
    [
        ({}, {}),
        ({}, SAME),  # lakescan uses those of its environment
        ({"s3.region": "eu-west-1"}, {"fs.s3a.endpoint": "s3.eu-west-1.amazonaws.com"}),
        ({}, {"fs.s3a.endpoint": "s3.amazonaws.com"}),
        ({"s3.region": "cn-north-1"}, {"fs.s3a.endpoint.region": "cn-north-1"}),
        ({"s3.endpoint": HERE}, {"fs.s3a.endpoint": f"{HERE}/"}),
        ({"s3.endpoint": HERE}, {"fs.s3a.endpoint": "127.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false"}),
        ({"s3.endpoint": "https://Store:443"}, {"fs.s3a.endpoint": "store"}),
        ({"s3.endpoint": HERE}, {"fs.s3a.endpoint": "other", "fs.s3a.bucket.b.endpoint": HERE}),
        (KEYS, SAME),
        (KEYS, {**SAME, PROVIDERS: f"{TEMPORARY}, {BY_KEYS},{INSTANCE}"}),
        (KEYS, {"fs.s3a.bucket.b.access.key": "the-key", "fs.s3a.bucket.b.fs.s3a.secret.key": "the-secret"}),
        ({**KEYS, "s3.session-token": "a-token"}, {**SAME, "fs.s3a.session.token": "a-token", PROVIDERS: TEMPORARY}),
        ({"s3.anonymous": "true"}, {PROVIDERS: ANONYMOUS}),
        ({"adls.account-key": "the-secret"}, {}),  # of another store
    ],
)
def test_s3_with_the_same_settings_is_native(options: dict[str, str], hadoop: dict[str, str]) -> None:
    assert why_other_store(Storage(options), "s3://b", "s3a://b", hadoop) is None


@pytest.mark.parametrize(
    ("options", "hadoop", "reason"),
    [
        ({}, {"fs.s3a.endpoint": HERE}, "fs.s3a.endpoint"),
        ({"s3.endpoint": HERE}, {}, "fs.s3a.endpoint"),
        ({"s3.endpoint": HERE}, {"fs.s3a.endpoint": "127.0.0.1:9000"}, "fs.s3a.endpoint"),
        ({"s3.endpoint": HERE}, {"fs.s3a.endpoint": HERE, "fs.s3a.bucket.b.endpoint": "other"}, "fs.s3a.endpoint"),
        ({"s3.region": "eu-west-1"}, {"fs.s3a.endpoint": "s3.eu-west-2.amazonaws.com"}, "fs.s3a.endpoint"),
        ({"s3.region": "cn-north-1"}, {}, "fs.s3a.endpoint.region"),
        ({"s3.region": "us-east-1"}, {"fs.s3a.endpoint.region": "us-gov-west-1"}, "fs.s3a.endpoint.region"),
        (KEYS, {}, "fs.s3a.access.key"),
        (KEYS, {**SAME, "fs.s3a.secret.key": "another"}, "fs.s3a.secret.key"),
        (KEYS, {**SAME, "fs.s3a.bucket.b.access.key": "another"}, "fs.s3a.access.key"),
        (KEYS, {**SAME, "fs.s3a.session.token": "a-token"}, "fs.s3a.session.token"),
        ({**KEYS, "s3.session-token": "a-token"}, SAME, "fs.s3a.session.token"),
        (KEYS, {**SAME, PROVIDERS: INSTANCE}, PROVIDERS),
        (KEYS, {**SAME, PROVIDERS: f"{INSTANCE},{BY_KEYS}"}, PROVIDERS),
        (
            {**KEYS, "s3.session-token": "a-token"},
            {**SAME, "fs.s3a.session.token": "a-token", PROVIDERS: f"{BY_KEYS},{TEMPORARY}"},
            PROVIDERS,
        ),
        (KEYS, {**SAME, "hadoop.security.credential.provider.path": "jceks://x"}, "cannot be compared"),
        ({"s3.anonymous": "true"}, {}, PROVIDERS),
        ({"s3.anonymous": "true"}, {PROVIDERS: f"{ANONYMOUS},{BY_KEYS}"}, PROVIDERS),
        ({"s3.profile-name": "the-secret"}, {}, "setting aws_profile"),
        ({"s3.role-arn": "the-secret"}, SAME, "setting role_arn"),
        ({"s3.proxy-uri": "http://the-secret"}, {}, "setting proxy_options"),
    ],
)
def test_s3_with_other_settings_is_refused_with_their_names(
    options: dict[str, str], hadoop: dict[str, str], reason: str
) -> None:
    found = why_other_store(Storage(options), "s3://b", "s3a://b", hadoop)
    assert found is not None
    assert reason in found
    assert not any(value in found for value in (*options.values(), *hadoop.values()))


def test_the_endpoint_of_the_environment_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", HERE)
    assert why_other_store(Storage(), "s3://b", "s3a://b", {}) is not None
    assert why_other_store(Storage(), "s3://b", "s3a://b", {"fs.s3a.endpoint": HERE}) is None


def test_a_client_of_its_own_for_s3_has_no_settings_to_compare() -> None:
    assert why_other_store(Storage(), "s3://b", "s3://b", {}) is None
    assert "cannot be compared" in str(why_other_store(Storage(KEYS), "s3://b", "s3://b", SAME))
    hadoop = {**SAME, "fs.s3.impl": CLASS("S3AFileSystem")}
    assert why_other_store(Storage(KEYS), "s3://b", "s3://b", hadoop) is None


@pytest.mark.parametrize(
    ("properties", "hadoop", "reason"),
    [
        (KEYS, SAME, None),
        ({"gcs.oauth2.token": "the-secret"}, {}, None),  # of another store
        (KEYS, {**SAME, "fs.s3a.access.key": "another"}, "fs.s3a.access.key"),
        ({**KEYS, "s3.session-token": "vended"}, SAME, "fs.s3a.session.token"),
        ({**KEYS, "s3.remote-signing-enabled": "true"}, SAME, "s3.remote-signing-enabled"),
    ],
)
def test_settings_of_a_catalog_are_compared_too(properties: Any, hadoop: Any, reason: str | None) -> None:
    found = why_other_store(Storage(io_properties=properties), "s3://b", "s3a://b", hadoop)
    assert (found is None) if reason is None else (reason in str(found))


@pytest.mark.parametrize(
    ("options", "hadoop", "reason"),
    [
        ({}, {}, None),
        ({"gcs.project-id": "p"}, {"fs.gs.storage.root.url": "https://storage.googleapis.com/"}, None),
        ({"gcs.service.host": HERE}, {"fs.gs.storage.root.url": HERE}, None),
        ({"anonymous": "true"}, {"fs.gs.auth.type": "UNAUTHENTICATED"}, None),
        ({"anonymous": "true"}, {}, "fs.gs.auth.type"),
        ({"gcs.service.host": HERE}, {}, "fs.gs.storage.root.url"),
        ({}, {"fs.gs.storage.root.url": HERE}, "fs.gs.storage.root.url"),
        ({"gcs.oauth2.token": "the-secret"}, {}, "setting access_token"),
    ],
)
def test_gcs_settings_are_compared(options: dict[str, str], hadoop: dict[str, str], reason: str | None) -> None:
    found = why_other_store(Storage(options), "gs://b", "gs://b", hadoop)
    assert (found is None) if reason is None else (reason in str(found))


@pytest.mark.parametrize(
    ("options", "hadoop", "reason"),
    [
        ({}, {}, None),
        ({"adls.account-name": "ACCT", "adls.account-key": "k"}, {AZURE_KEY: "k"}, None),
        ({"adls.account-key": "k"}, {"fs.azure.account.key": "k"}, None),
        ({"adls.sas-token": "k"}, {AZURE_TOKEN: "k", "fs.azure.account.auth.type": "SAS"}, None),
        ({"adls.sas-token": "k"}, {AZURE_TOKEN: "k"}, "fs.azure.sas.fixed.token"),
        ({"adls.account-key": "k"}, {AZURE_KEY: "k", "fs.azure.account.auth.type": "OAuth"}, "fs.azure.account.key"),
        ({"adls.account-key": "k"}, {}, "fs.azure.account.key"),
        ({"adls.account-name": "other"}, {}, "another Azure account"),
        ({"adls.client-secret": "the-secret"}, {}, "setting client_secret"),
    ],
)
def test_azure_settings_are_compared(options: dict[str, str], hadoop: dict[str, str], reason: str | None) -> None:
    found = why_other_store(Storage(options), f"abfss://{AZURE}", f"abfss://{AZURE}", hadoop)
    assert (found is None) if reason is None else (reason in str(found))


def test_azure_means_the_public_cloud() -> None:
    assert "the account is not on" in str(why_other_store(Storage(), "abfs://c@h", "abfs://c@h", {}))
